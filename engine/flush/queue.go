package flush

import (
	"fmt"
	"sync"

	"ringmq/engine/message"
)

// Wait is one caller's place in a Queue; it is part of the caller's request, so waiting allocates nothing. It belongs to the
// queue from Add until Reached is called.
type Wait struct {
	End        message.Offset
	DeadlineMS int64 // 0: none
	Waiter     Waiter
	next       *Wait
}

// Waiter is told exactly once that its position has been passed (nil) or why not. It is called under no lock and must not
// block: others wait behind it.
type Waiter interface{ Reached(err error) }

// Queue holds waits ordered by position. The zero Queue is empty and ready. Add is called in the order of the log (under the
// put lock), the rest by any goroutine.
type Queue struct {
	// pops lets one goroutine at a time take waits from the head, so that it can look for the last one to take without mu:
	// between head and a tail seen earlier nothing changes but by who holds pops. Taken before mu.
	pops sync.Mutex

	mu     sync.Mutex // short: Add holds it under the put lock
	head   *Wait
	tail   *Wait
	failed error
}

// Add lets w wait for w.End. In a queue that has failed it is answered at once, on a goroutine of its own since the caller
// holds the put lock: that happens to the few who were under way when it failed.
func (q *Queue) Add(w *Wait) {
	w.next = nil
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed != nil {
		go w.Waiter.Reached(q.failed)
		return
	}
	if q.tail == nil {
		q.head, q.tail = w, w
		return
	}
	if w.End < q.tail.End {
		panic(fmt.Sprintf("BUG: flush: wait for %d joined behind one for %d", w.End, q.tail.End))
	}
	q.tail.next = w
	q.tail = w
}

// Release answers all waits for positions up to upTo, in order, and says how many.
func (q *Queue) Release(upTo message.Offset) int {
	return answer(q.take(func(w *Wait) bool { return w.End <= upTo }), nil)
}

// Expire answers the waits at the head whose deadline has come, in order, and says how many. Those behind one that is not due
// yet stay: all waits of a queue have the same time-out, so the first are the oldest.
func (q *Queue) Expire(nowMS int64, err error) int {
	return answer(q.take(func(w *Wait) bool { return w.DeadlineMS != 0 && w.DeadlineMS <= nowMS }), err)
}

// Fail answers all waits with err, and every later Add too. It says how many were waiting. The first error stays.
func (q *Queue) Fail(err error) int {
	q.mu.Lock()
	if q.failed == nil {
		q.failed = err
	}
	err = q.failed
	q.mu.Unlock()
	return answer(q.take(func(*Wait) bool { return true }), err)
}

// take removes waits from the head as long as they pass and returns them as a list.
func (q *Queue) take(passes func(*Wait) bool) *Wait {
	q.pops.Lock()
	defer q.pops.Unlock()
	q.mu.Lock()
	first, tail := q.head, q.tail
	q.mu.Unlock()
	if first == nil || !passes(first) {
		return nil
	}
	last := first
	for last != tail && passes(last.next) {
		last = last.next
	}
	q.mu.Lock()
	q.head = last.next // joined meanwhile, if last is the tail we saw
	if q.head == nil {
		q.tail = nil
	}
	q.mu.Unlock()
	last.next = nil
	return first
}

// answer tells the waits of a list, each of which belongs to its caller again from then on.
func answer(w *Wait, err error) int {
	n := 0
	for w != nil {
		next := w.next
		w.next = nil
		w.Waiter.Reached(err)
		w = next
		n++
	}
	return n
}
