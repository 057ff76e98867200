package sim

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"ringmq/engine"
	"ringmq/engine/message"
	"ringmq/internal/crashtest"
	"ringmq/uring"
)

// patience is how often a store is given time until it is said to hang.
const patience = 3000

// machine is a computer with one store: its process may end, its power may go, its disk may fail.
type machine struct {
	shape   Shape
	options engine.Options
	scratch string // folders of all disks
	folders int
	rests   func() // returns when all goroutines of the store are blocked
	ring    *uring.Queue
	usage   atomic.Int64 // of the disk, in percent

	disk  *crashtest.Disk
	store *engine.Store // nil: not open
	task  *task         // Open or Close, while it hangs
	held  *held         // armed, or hanging; nil: nothing

	arrivals *arrivals // of the process

	model   *model
	waiting []*request // put and not answered
	answers answers
	clients int // requests so far

	bound   message.Offset // the next start must find everything before it,
	cached  message.Offset // and before this, unless the power goes first
	min     message.Offset // of the log, as last seen
	cleanly bool           // the last stop was clean
	noSpace bool           // segments cannot be made
	full    bool           // the disk is too full
	broken  bool           // syncs or writes fail: a stop cannot be clean
	slow    bool           // it may hang longer than senders wait
	forced  bool           // it was once: retention need not look at the age

	trace *Trace
	Stats
}

// Stats counts what happened.
type Stats struct {
	Puts, Acked, Pulled, Found int
	Starts                     int
	Crashes                    map[string]int // by where the machine stood
}

// Total is how many crashes there were.
func (s *Stats) Total() (n int) {
	for _, count := range s.Crashes {
		n += count
	}
	return n
}

// task is something that the store does on a goroutine of its own.
type task struct {
	done  chan struct{}
	store *engine.Store // of Open
	err   error
}

// newMachine makes a machine with an empty disk.
func newMachine(shape Shape, scratch string, rests func()) *machine {
	m := &machine{shape: shape, scratch: scratch, rests: rests, model: newModel(), trace: new(Trace)}
	m.Crashes = make(map[string]int)
	m.usage.Store(10)
	m.options = base()
	shape.Change(&m.options)
	m.options.DiskUsage = func(string) (float64, error) { return float64(m.usage.Load()) / 100, nil }
	m.options.Logger = slog.New(slog.NewTextHandler(m.trace, &slog.HandlerOptions{Level: slog.LevelWarn}))
	m.disk = crashtest.New(m.folder())
	if shape.Ring {
		m.ring = uring.Open(uring.Options{})
		m.disk.Inner = m.ring
	}
	return m
}

// folder is one that is not there yet.
func (m *machine) folder() string {
	m.folders++
	return filepath.Join(m.scratch, fmt.Sprint(m.folders))
}

// close ends what runs, whatever state it is in.
func (m *machine) close() {
	m.discard()
	if m.ring != nil {
		_ = m.ring.Close()
	}
}

// run has the store do something that may take long, or hang.
func (m *machine) run(f func(t *task)) {
	m.task = &task{done: make(chan struct{})}
	go func(t *task) {
		defer close(t.done)
		f(t)
	}(m.task)
}

// await gives the task time until it has ended, then it is the caller's and hangs is false; or until the machine hangs.
func (m *machine) await() (t *task, hangs bool, err error) {
	for range patience {
		m.rests()
		select {
		case <-m.task.done:
			t, m.task = m.task, nil
			return t, false, nil
		default:
		}
		if m.held.struck() {
			return nil, true, nil
		}
		m.pause(20 * time.Millisecond)
	}
	return nil, false, errors.New("it never ends")
}

// call is for what is short when nothing hangs.
func (m *machine) call(f func()) error {
	m.run(func(*task) { f() })
	_, hangs, err := m.await()
	if hangs {
		// It waits for what hangs; whoever goes on must know.
		return errHangs
	}
	return err
}

var errHangs = errors.New("sim: the machine hangs")

// start opens the store until it is open, through crashes if some are due, and looks at what it finds.
func (m *machine) start(rng *rand.Rand) error {
	for {
		if err := m.disk.Begin(); err != nil {
			return err
		}
		m.arrivals = new(arrivals)
		m.maybeHold(rng, startPlaces)
		options := m.options
		options.Dir, options.Storage, options.DerivedSyncer, options.Arrivals = m.disk.Dir, m.disk.Storage, m.disk, m.arrivals
		m.run(func(t *task) { t.store, t.err = engine.Open(options) })
		opened, hangs, err := m.await()
		if err != nil {
			return fmt.Errorf("start: %w", err)
		}
		if hangs && rng.IntN(5) == 0 {
			m.say("the start goes on")
			m.held.letGo()
			if opened, hangs, err = m.await(); err != nil {
				return fmt.Errorf("start: %w", err)
			}
		}
		if hangs {
			if err := m.fall(rng, "start, "+m.held.what); err != nil {
				return err
			}
			continue
		}
		if opened.err != nil {
			return fmt.Errorf("start: %w", opened.err)
		}
		m.disarm()
		m.store = opened.store
		m.Starts++
		if err := m.disk.Opened(); err != nil {
			return err
		}
		return m.recovered()
	}
}

// fall is a power cut or the end of the process, whatever the store is doing. The disk that is left is in place afterwards.
func (m *machine) fall(rng *rand.Rand, where string) error {
	if rng.IntN(4) == 0 {
		return m.end(where)
	}
	return m.cut(rng, where)
}

// cut takes the power away.
func (m *machine) cut(rng *rand.Rand, where string) error {
	keepPercent := [...]int{0, 50, 100, rng.IntN(101)}[rng.IntN(4)]
	if err := m.lastLook(); err != nil {
		return err
	}
	m.promise(false)
	m.crashed("power cut", where)
	next, err := m.disk.PowerCut(rng, keepPercent, m.folder())
	m.say("power cut, %s, %d %% of what is not durable is kept, %d must be found", where, keepPercent, m.bound)
	return m.replace(next, err)
}

// end is kill -9.
func (m *machine) end(where string) error {
	if err := m.lastLook(); err != nil {
		return err
	}
	m.promise(true)
	m.crashed("kill", where)
	next, err := m.disk.Kill(m.folder())
	m.say("kill -9, %s, %d must be found", where, max(m.bound, m.cached))
	return m.replace(next, err)
}

func (m *machine) crashed(what, where string) { m.Crashes[what+", "+where]++ }

func (m *machine) replace(next *crashtest.Disk, err error) error {
	if err != nil {
		return err
	}
	m.discard()
	m.disk, m.cleanly = next, false
	return nil
}

// lastLook notes where the log begins, if the store is not being closed.
func (m *machine) lastLook() error {
	if m.store == nil || m.task != nil {
		return nil
	}
	return m.beginsAt(m.store.Positions().Min)
}

// promise notes what the next start must find: what the device has and, when only the process ends, what the page cache has. With the power
// that is gone, also when it goes while the start after a kill has not synced it yet.
func (m *machine) promise(processOnly bool) {
	if !processOnly {
		m.cached = 0
		for _, r := range m.model.records {
			r.cached = false
		}
	}
	if m.store == nil {
		return
	}
	sync, latched := m.options.SyncFlush, m.store.Latched() != nil
	p := m.store.Positions()
	m.bound = max(m.bound, p.Flushed)
	if processOnly && !latched {
		m.cached = p.Committed
	}
	for _, r := range m.model.records {
		if r.at >= 0 && r.end() <= m.bound || sync && (r.acked || r.seen) {
			r.promised = true
		}
		if r.at >= 0 && r.end() <= m.cached || m.cached > 0 && r.acked && !m.options.TransientPool {
			r.cached = true
		}
	}
}

// discard lets the process that ran until now come to its end, on a disk that nobody looks at any more.
func (m *machine) discard() {
	m.held.letGo()
	m.disk.Heal()
	m.held, m.waiting, m.noSpace, m.full, m.slow, m.broken = nil, nil, false, false, false, false
	m.answers.forget()
	if m.task != nil {
		<-m.task.done
		if m.store == nil {
			m.store = m.task.store
		}
		m.task = nil
	}
	if m.store != nil {
		_ = m.store.Close()
		m.store = nil
	}
	m.answers.forget()
	_ = os.RemoveAll(m.disk.Dir)
}

// settle waits until the store rests and takes in what it has answered. hangs: it cannot go on.
func (m *machine) settle() (hangs bool, err error) {
	for range patience {
		m.rests()
		if err := m.takeAnswers(); err != nil {
			return false, err
		}
		if m.held.struck() {
			return true, nil
		}
		if len(m.waiting) == 0 && m.idle() {
			return false, m.beginsAt(m.store.Positions().Min)
		}
		m.pause(10 * time.Millisecond)
	}
	if len(m.waiting) > 0 {
		return false, fmt.Errorf("%d puts are never answered, the first is %v", len(m.waiting), m.waiting[0])
	}
	return false, fmt.Errorf("the store rests at positions %+v", m.store.Positions())
}

// idle: the store has nothing to do any more.
func (m *machine) idle() bool {
	p := m.store.Positions()
	return m.store.Latched() != nil || p.Committed == p.End && p.Dispatched == p.Readable && (p.Flushed == p.End || !m.options.SyncFlush)
}

// pause lets time pass, until something hangs: what waits for a lock would keep the clock from moving. The odd part keeps it from ending
// together with an interval of the store.
func (m *machine) pause(d time.Duration) {
	timer := time.NewTimer(d + 333*time.Microsecond)
	defer timer.Stop()
	var hangs chan struct{}
	if m.held != nil && !m.held.gone {
		hangs = m.held.entered
	}
	select {
	case <-timer.C:
	case <-hangs:
	}
}

// beginsAt: the log begins with min now.
func (m *machine) beginsAt(min message.Offset) error {
	if min == m.min {
		return nil
	}
	size := message.Offset(m.store.Options().SegmentSize)
	if min < m.min || min%size != 0 {
		return fmt.Errorf("the log begins at %d, it began at %d", min, m.min)
	}
	now := time.Now().UnixMilli()
	for _, r := range m.model.records {
		if r.at >= m.min && r.at >= 0 && r.at < min && now-r.storeMS < reservedMS && !m.forced && !r.rotten { // when that was stored nobody can tell
			return fmt.Errorf("the log begins at %d: the record at %d was removed after %d ms", min, r.at, now-r.storeMS)
		}
	}
	m.say("the log begins at %d", min)
	m.min = min
	m.model.forget(min - 2*size)
	return nil
}
