package engine

import (
	"errors"
	"sync"
	"sync/atomic"

	"ringmq/engine/commitlog"
)

// What may wait for room in the log, in requests and in bytes; beyond it a put is answered Busy.
const (
	overflowRequests = 10_000
	overflowBytes    = 64 << 20
)

// overflow holds puts that found no room in the log, in their order. While anything is in it all puts go through it, so that the puts
// of one goroutine stay in order. One goroutine empties it; it alone waits for room.
type overflow struct {
	store  *Store
	active atomic.Int32 // requests in here, the one that is being appended included

	mu         sync.Mutex
	head, tail *PutRequest // guarded by mu
	bytes      int         // guarded by mu

	wake chan struct{}
	stop chan struct{}
	done chan struct{}
}

func (o *overflow) start(s *Store) {
	o.store = s
	o.wake, o.stop, o.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go o.run()
}

// add takes p over, or says that there is no place for it.
func (o *overflow) add(p *PutRequest) bool {
	o.mu.Lock()
	if o.active.Load() >= overflowRequests || o.head != nil && o.bytes+len(p.records) > overflowBytes {
		o.mu.Unlock()
		return false
	}
	p.next = nil
	if o.tail == nil {
		o.head = p
	} else {
		o.tail.next = p
	}
	o.tail = p
	o.bytes += len(p.records)
	o.active.Add(1)
	o.mu.Unlock()
	o.store.metrics.PutsDelayed.Add(1)
	select {
	case o.wake <- struct{}{}:
	default:
	}
	return true
}

func (o *overflow) pop() *PutRequest {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.head
	if p == nil {
		return nil
	}
	o.head = p.next
	if o.head == nil {
		o.tail = nil
	}
	p.next = nil
	o.bytes -= len(p.records)
	return p
}

func (o *overflow) run() {
	defer close(o.done)
	for {
		for p := o.pop(); p != nil; p = o.pop() {
			who := o.append(p)
			o.active.Add(-1)
			if who == answerNow {
				p.finish()
			}
		}
		select {
		case <-o.wake:
		case <-o.stop:
			if o.active.Load() == 0 {
				return
			}
		}
	}
}

// append waits for room as often as it takes. The log says so when there will never be any.
func (o *overflow) append(p *PutRequest) outcome {
	for {
		who, err := o.store.append(p)
		if !errors.Is(err, commitlog.ErrBusy) {
			return who
		}
		if err = o.store.awaitRoom(len(p.records)); errors.Is(err, commitlog.ErrPoolFull) {
			return p.refuse(Busy, errPoolFull)
		}
		if err != nil {
			return p.refuse(Unavailable, o.store.refusal(err))
		}
	}
}

// close appends what waits and ends the goroutine. Nothing is added any more.
func (o *overflow) close() {
	close(o.stop)
	<-o.done
}
