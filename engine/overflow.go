package engine

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"ringmq/engine/commitlog"
)

// What may wait for room in the log, in requests and in bytes; beyond it a put is answered Busy.
const (
	overflowRequests = 10_000
	overflowBytes    = 64 << 20
)

// overdueInterval is how far beyond its time a put may be refused.
const overdueInterval = 50 * time.Millisecond

// overflow holds puts that found no room in the log, in their order. While anything is in it all puts go through it, so that the puts
// of one goroutine stay in order. One goroutine appends what waits; it alone waits for room. Another refuses what has waited too long, also
// while the first hangs: a sender that has given up must not find its message stored all the same, beside the one it has sent again.
type overflow struct {
	store  *Store
	active atomic.Int32 // requests in here, the one that is being appended included

	mu         sync.Mutex
	head, tail *PutRequest // guarded by mu; the one that waited longest is first
	bytes      int         // guarded by mu

	wake  chan struct{} // one slot each: something waits
	aging chan struct{}
	stop  chan struct{}
	ended chan struct{} // nothing waits any more
	done  sync.WaitGroup
}

func (o *overflow) start(s *Store) {
	o.store = s
	o.wake, o.aging = make(chan struct{}, 1), make(chan struct{}, 1)
	o.stop, o.ended = make(chan struct{}), make(chan struct{})
	o.done.Go(o.run)
	o.done.Go(o.refuseOverdue)
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
	p.waitsSinceMS = o.store.elapsedMS() // under mu, so that they stand in the order of their times
	o.active.Add(1)
	o.mu.Unlock()
	o.store.metrics.PutsDelayed.Add(1)
	tell(o.wake)
	tell(o.aging)
	return true
}

// putBack gives back what pop has taken: there was no room for it yet.
func (o *overflow) putBack(p *PutRequest) {
	o.mu.Lock()
	p.next = o.head
	o.head = p
	if o.tail == nil {
		o.tail = p
	}
	o.bytes += len(p.records)
	o.mu.Unlock()
}

// tell fills the one slot of a channel.
func tell(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// pop takes the first one, if it waits since sinceMS or longer. The rest is how many are left, the one that is being appended included.
func (o *overflow) pop(sinceMS int64) (p *PutRequest, rest int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p = o.head
	if p == nil || p.waitsSinceMS > sinceMS {
		return nil, int(o.active.Load())
	}
	o.head = p.next
	if o.head == nil {
		o.tail = nil
	}
	p.next = nil
	o.bytes -= len(p.records)
	return p, int(o.active.Load()) - 1
}

// run appends what waits until close is called and nothing waits any more.
func (o *overflow) run() {
	defer close(o.ended)
	for {
		for o.appendFirst() {
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

// appendFirst appends the first request that waits, or waits until there is room for it; false when none waits. The log says so when there
// will never be any room. A request that waits for room is in the list, where it may be refused meanwhile.
func (o *overflow) appendFirst() bool {
	p, _ := o.pop(never)
	if p == nil {
		return false
	}
	size := len(p.records)
	who, err := o.store.append(p)
	if !errors.Is(err, commitlog.ErrBusy) {
		o.answered(p, who)
		return true
	}
	o.putBack(p)
	err = o.store.awaitRoom(size)
	if err == nil {
		return true
	}
	if p, _ = o.pop(never); p == nil {
		return false
	}
	if errors.Is(err, commitlog.ErrPoolFull) {
		o.answered(p, p.refuse(Busy, errPoolFull))
	} else {
		o.answered(p, p.refuse(Unavailable, o.store.refusal(err)))
	}
	return true
}

// answered ends the stay of a request that was popped: it may be used again by others unless the answer is ours.
func (o *overflow) answered(p *PutRequest, who outcome) {
	o.active.Add(-1)
	if who == answerNow {
		p.finish()
	}
}

// refuseOverdue looks for overdue requests while any wait.
func (o *overflow) refuseOverdue() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-o.aging:
		case <-o.ended:
			return
		}
		for o.refuseAt(o.store.elapsedMS()) {
			timer.Reset(overdueInterval)
			select {
			case <-timer.C:
			case <-o.ended:
				return
			}
		}
	}
}

// refuseAt refuses what has waited too long at a time, and tells whether others wait. They are not stored.
func (o *overflow) refuseAt(nowMS int64) (more bool) {
	allowed := o.store.limits.Load().PutWaitMS
	for {
		p, rest := o.pop(nowMS - allowed)
		if p == nil {
			return rest > 0
		}
		o.answered(p, p.refuse(Busy, fmt.Errorf("%w: %d ms, waitTimeMillsInSendQueue allows %d; %d more wait",
			ErrOverdue, nowMS-p.waitsSinceMS, allowed, rest)))
	}
}

// close appends what waits, or sees it refused, and ends the goroutines. Nothing is added any more.
func (o *overflow) close() {
	close(o.stop)
	o.done.Wait()
}
