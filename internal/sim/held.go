package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
	"ringmq/engine/segment/memstore"
	"ringmq/internal/crashtest"
)

// held is an operation of the disk, or the dispatcher, that is going to hang, or hangs.
type held struct {
	what             string
	entered, release chan struct{}
	gone             bool
}

// struck tells whether it hangs.
func (h *held) struck() bool {
	if h == nil || h.gone {
		return false
	}
	select {
	case <-h.entered:
		return true
	default:
		return false
	}
}

// letGo ends the hanging.
func (h *held) letGo() {
	if h != nil && !h.gone {
		h.gone = true
		close(h.release)
	}
}

// dispatching is the place where the dispatcher hangs, and nothing else.
const dispatching = "dispatch"

// The places where a machine can be held, as often as they stand here.
var places = []string{
	"write", "write", "write", "sync", "sync", "sync", "create", "create", "remove", "remove", "remove", "move", "resize",
	"queues before sync", "queues before sync", "queues after sync", "queues after sync", dispatching,
}

// The places that a start and a stop come by.
var (
	startPlaces = []string{"settle", "sync", "sync", "sync", "write", "write", "move", "remove", "resize", "queues before sync", "queues after sync"}
	stopPlaces  = []string{"sync", "write", "queues before sync", "queues after sync", "queues after sync"}
)

// maybeHold holds the machine at one of places, one time in four.
func (m *machine) maybeHold(rng *rand.Rand, places []string) {
	if rng.IntN(4) == 0 {
		m.holdAt(places[rng.IntN(len(places))], 1+rng.IntN(2))
	}
}

// disarm takes away a hold that has not struck.
func (m *machine) disarm() {
	if m.held != nil && !m.held.struck() {
		m.held.letGo()
		m.held = nil
		m.disk.Heal()
		m.arrivals.hang(0, nil)
	}
}

// hold makes the disk hang at one of its next operations.
func (m *machine) hold(rng *rand.Rand) {
	place, nth := places[rng.IntN(len(places))], 1+rng.IntN(3)
	if m.shape.Few && strings.HasPrefix(place, "queues") {
		place = "write"
	}
	m.holdAt(place, nth)
}

func (m *machine) holdAt(place string, nth int) {
	if m.held != nil {
		return
	}
	m.held = &held{what: place, entered: make(chan struct{}), release: make(chan struct{})}
	m.say("hold %s %d", place, nth)
	switch place {
	case "queues before sync", "queues after sync":
		m.disk.HoldSync(&crashtest.Hold{Nth: nth, After: place == "queues after sync", Entered: m.held.entered, Release: m.held.release})
	case dispatching:
		m.arrivals.hang(nth, m.held)
	case "write", "sync", "create", "remove", "move", "resize", "settle":
		m.disk.Log.Inject(&memstore.Fault{Op: memstore.Op(place), Nth: nth, Entered: m.held.entered, Hold: m.held.release})
	default:
		panic(fmt.Sprintf("BUG: sim: there is no place %q", place))
	}
}

// arrivals are told by the dispatcher, of one process, that a record has its entry, and let it hang there: it holds no lock, so all others go on
// and leave it behind.
type arrivals struct {
	mu   sync.Mutex
	nth  int
	held *held // nil: it does not hang
}

// hang lets the dispatcher hang at the n-th record from now on.
func (a *arrivals) hang(nth int, h *held) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.nth, a.held = nth, h
}

// due is what hangs now.
func (a *arrivals) due() *held {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.nth--; a.nth != 0 {
		return nil
	}
	return a.held
}

// Arrived is called by the dispatcher.
func (a *arrivals) Arrived(*consumequeue.Queue, int64, message.QueueOffset) {
	if h := a.due(); h != nil {
		close(h.entered)
		<-h.release
	}
}
