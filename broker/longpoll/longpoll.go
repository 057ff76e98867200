// Package longpoll keeps pulls that found nothing until something arrives in their queue, their time is over or their connection
// has died. A parked pull costs no goroutine and no allocation: its place in the lists is part of the caller's own request.
//
// No wake-up is missed: Park looks at the end of the queue under the lock, after it has made itself visible to Arrived; Arrived
// is called after the end of the queue has moved. Whichever comes second sees the other.
package longpoll

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
	"ringmq/internal/clock"
)

// Why a wait is over.
type Why uint8

const (
	Arrived Why = iota // something that matches has arrived
	Expired            // its deadline has passed
	Gone               // its connection has closed: nobody waits for an answer
	Stopped            // the broker stops
)

// Waiter is told once per successful Park that the wait is over, on a goroutine of the Holder, under no lock. The Wait is its
// own again.
type Waiter interface{ Woken(why Why) }

// Filter decides by tags code whether an entry is worth a wake-up.
type Filter interface{ Match(tagsCode int64) bool }

// End is the end of a queue as readers see it. It is asked under the Holder's lock: it must not call back.
type End interface{ Max() message.QueueOffset }

// Wait is one parked pull. The exported fields are set before Park and not touched until it is over.
type Wait struct {
	Queue      consumequeue.ID
	From       message.QueueOffset // the first entry that is wanted
	Filter     Filter              // nil: any entry
	End        End
	DeadlineMS int64  // of Holder.Deadline
	Conn       uint64 // id of its connection
	Waiter     Waiter

	why    Why
	bucket int64 // of the wheel
	parked bool  // guarded by Holder.mu
	links  [kinds]link
}

// Each Wait is in three lists while parked; in byQueue's place in the list of those to be woken afterwards.
const (
	byQueue = iota
	byConn
	byTime
	kinds
)

type link struct{ prev, next *Wait }

// list is doubly linked through the links of one kind.
type list struct{ first, last *Wait }

func (l *list) push(w *Wait, kind int) {
	w.links[kind] = link{prev: l.last}
	if l.last != nil {
		l.last.links[kind].next = w
	} else {
		l.first = w
	}
	l.last = w
}

func (l *list) remove(w *Wait, kind int) {
	at := w.links[kind]
	if at.prev != nil {
		at.prev.links[kind].next = at.next
	} else {
		l.first = at.next
	}
	if at.next != nil {
		at.next.links[kind].prev = at.prev
	} else {
		l.last = at.prev
	}
	w.links[kind] = link{}
}

const (
	tickMS  = 50   // deadlines are kept this exactly
	buckets = 1024 // of the wheel: one turn takes 51 s
)

// Options of a Holder; zero values mean the defaults.
type Options struct {
	Max     int          // waits parked at most: 200,000
	Workers int          // goroutines that run Woken: number of CPUs
	Now     func() int64 // ms since any moment, never back; nil: since New
}

// Holder is all parked pulls of a broker.
type Holder struct {
	opts Options

	count atomic.Int64 // waits parked or about to be: tells Arrived when there is nothing to do

	mu      sync.Mutex
	queues  map[consumequeue.ID]list
	conns   map[uint64]list
	wheel   [buckets]list
	turned  int64 // ticks that were looked at
	stopped bool

	readyMu sync.Mutex // never taken under mu's holder's callbacks; may be taken under mu
	ready   list       // waits that are over, linked by queue
	some    sync.Cond  // ready is not empty, or closing
	closing bool

	ticker chan struct{} // closed by Close
	ended  sync.WaitGroup
}

// New starts a Holder's goroutines.
func New(o Options) *Holder {
	if o.Max == 0 {
		o.Max = 200_000
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Now == nil {
		o.Now = clock.Elapsed()
	}
	h := &Holder{opts: o, queues: make(map[consumequeue.ID]list), conns: make(map[uint64]list), ticker: make(chan struct{})}
	h.some.L = &h.readyMu
	h.turned = o.Now() / tickMS
	for range o.Workers {
		h.ended.Go(h.work)
	}
	h.ended.Go(h.turn)
	return h
}

// Outcome of Park.
type Outcome uint8

const (
	Parked  Outcome = iota // the Waiter will be told
	NewData                // the queue has more than From already: pull again
	Full                   // too many wait, or the broker stops: answer now
)

// Deadline is the Wait.DeadlineMS of who has so much patience from now on. The clock counts whole milliseconds, of which one has begun:
// without one more the wait would end before its time.
func (h *Holder) Deadline(patienceMS int64) int64 { return h.opts.Now() + patienceMS + 1 }

// Park lets w wait. If it is not Parked, w is still the caller's and its Waiter is not told.
func (h *Holder) Park(w *Wait) Outcome {
	if h.count.Add(1) > int64(h.opts.Max) { // visible to Arrived from here on
		h.count.Add(-1)
		return Full
	}
	h.mu.Lock()
	if h.stopped {
		h.mu.Unlock()
		h.count.Add(-1)
		return Full
	}
	if w.End.Max() > w.From {
		h.mu.Unlock()
		h.count.Add(-1)
		return NewData
	}
	h.insertLocked(w)
	h.mu.Unlock()
	return Parked
}

func (h *Holder) insertLocked(w *Wait) {
	if w.parked {
		panic("BUG: longpoll: a wait is parked twice")
	}
	w.parked = true
	queue := h.queues[w.Queue]
	queue.push(w, byQueue)
	h.queues[w.Queue] = queue
	conn := h.conns[w.Conn]
	conn.push(w, byConn)
	h.conns[w.Conn] = conn
	// Rounded up: a wait never ends before its deadline. One that has passed goes where the next turn looks.
	w.bucket = max((w.DeadlineMS+tickMS-1)/tickMS, h.turned+1) % buckets
	h.wheel[w.bucket].push(w, byTime)
}

// detachLocked takes w out of all lists.
func (h *Holder) detachLocked(w *Wait) {
	queue := h.queues[w.Queue]
	queue.remove(w, byQueue)
	if queue.first == nil {
		delete(h.queues, w.Queue)
	} else {
		h.queues[w.Queue] = queue
	}
	conn := h.conns[w.Conn]
	conn.remove(w, byConn)
	if conn.first == nil {
		delete(h.conns, w.Conn)
	} else {
		h.conns[w.Conn] = conn
	}
	h.wheel[w.bucket].remove(w, byTime)
	w.parked = false
	h.count.Add(-1)
}

// releaseLocked ends w's wait: a worker tells its Waiter.
func (h *Holder) releaseLocked(w *Wait, why Why) {
	h.detachLocked(w)
	w.why = why
	h.readyMu.Lock()
	h.ready.push(w, byQueue)
	h.readyMu.Unlock()
	h.some.Signal()
}

// Arrived wakes those who wait for the entry before max of q, which has tagsCode. It is called by the dispatcher, after q.Max has
// become max, with no lock of the queues held; it never blocks for long.
func (h *Holder) Arrived(q *consumequeue.Queue, tagsCode int64, max message.QueueOffset) {
	if h.count.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := h.queues[q.ID].first; w != nil; {
		next := w.links[byQueue].next
		if max > w.From && (w.Filter == nil || w.Filter.Match(tagsCode)) {
			h.releaseLocked(w, Arrived)
		}
		w = next
	}
}

// Closed ends the waits of a connection that has died.
func (h *Holder) Closed(conn uint64) {
	if h.count.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := h.conns[conn].first; w != nil; {
		next := w.links[byConn].next
		h.releaseLocked(w, Gone)
		w = next
	}
}

// Count is how many pulls wait.
func (h *Holder) Count() int { return int(h.count.Load()) }

// turn looks for passed deadlines.
func (h *Holder) turn() {
	t := time.NewTicker(tickMS * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			h.expire(h.opts.Now())
		case <-h.ticker:
			return
		}
	}
}

// expire ends the waits whose deadline is not after now.
func (h *Holder) expire(nowMS int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	upTo := nowMS / tickMS
	if h.count.Load() == 0 {
		h.turned = max(h.turned, upTo)
		return
	}
	// After a long pause each bucket is looked at once.
	for t := max(h.turned+1, upTo-buckets+1); t <= upTo; t++ {
		for w := h.wheel[t%buckets].first; w != nil; {
			next := w.links[byTime].next
			if w.DeadlineMS <= nowMS {
				h.releaseLocked(w, Expired)
			}
			w = next
		}
	}
	h.turned = max(h.turned, upTo)
}

// work tells waiters until Close and until nothing is left to tell.
func (h *Holder) work() {
	for {
		h.readyMu.Lock()
		for h.ready.first == nil && !h.closing {
			h.some.Wait()
		}
		w := h.ready.first
		if w == nil {
			h.readyMu.Unlock()
			return
		}
		h.ready.remove(w, byQueue)
		h.readyMu.Unlock()
		w.Waiter.Woken(w.why)
	}
}

// Close ends all waits with Stopped and returns when every Waiter has been told. Later Parks are refused.
func (h *Holder) Close() {
	h.mu.Lock()
	if h.stopped {
		h.mu.Unlock()
		return
	}
	h.stopped = true
	for _, queue := range h.queues {
		for w := queue.first; w != nil; {
			next := w.links[byQueue].next
			h.releaseLocked(w, Stopped)
			w = next
		}
	}
	h.mu.Unlock()
	close(h.ticker)
	h.readyMu.Lock()
	h.closing = true
	h.readyMu.Unlock()
	h.some.Broadcast()
	h.ended.Wait()
}
