package uring

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// refusalsMax bounds how often in a row the kernel may answer EAGAIN or EBUSY without anything moving, about a second
	// with the pauses in between; then the ring counts as broken.
	refusalsMax     = 60
	refusalPauseMax = 20 * time.Millisecond

	// After enter has failed, completions may still arrive: the kernel writes them by itself. They are looked for this long.
	drainPause = time.Millisecond
	drainTries = 5000
)

// batch is the operations of one call. Its caller fills it and waits for done; in between it is the owner's.
type batch struct {
	ops  []Op
	next int // first operation that is not given to the ring; those before it are settled or in a slot
	left int // operations not settled
	done chan struct{}
	link *batch // next in a batchList

	syncOps []Op // memory for SyncFds, kept with the batch
}

func (b *batch) fed() bool { return b.next == len(b.ops) }

// batchList is a first-in first-out queue.
type batchList struct{ first, last *batch }

func (l *batchList) push(b *batch) {
	b.link = nil
	if l.first == nil {
		l.first = b
	} else {
		l.last.link = b
	}
	l.last = b
}

func (l *batchList) pop() *batch {
	b := l.first
	l.first = b.link
	if l.first == nil {
		l.last = nil
	}
	b.link = nil
	return b
}

// slot is the place of one operation that was pushed into the ring and has no result yet. Its number is the user_data.
type slot struct {
	b  *batch // nil: free
	op int
}

// owner runs batches through a ring. All of it belongs to one thread.
//
// In each step it fills the ring, enters the kernel once, takes back what the kernel did not consume, collects the
// completions, settles their operations, and only then answers the batches that are complete: an answered batch belongs to
// its caller again and is never looked at afterwards.
//
// At most len(slots) operations are pushed and without result at any time. That is the size of the submission queue, which
// is empty between steps, and half the size of the completion queue: neither can overflow.
type owner struct {
	ring      *ring
	slots     []slot
	free      []int     // numbers of free slots
	pushed    []int     // slots pushed since the last enter, in order
	waiting   batchList // the first ones may be fed, all others are not
	finished  []*batch  // settled in full, to be answered at the end of the step
	collected []completion
	refusals  int                 // EAGAIN and EBUSY in a row without anything moving
	hold      bool                // the kernel wants completions to be waited for before it takes more
	pause     func(time.Duration) // time.Sleep; tests count
}

func newOwner(r *ring) *owner {
	n := len(r.sqes)
	o := &owner{
		ring:      r,
		slots:     make([]slot, n),
		free:      make([]int, 0, n),
		pushed:    make([]int, 0, n),
		collected: make([]completion, 0, len(r.cqes)),
		pause:     time.Sleep,
	}
	for i := n - 1; i >= 0; i-- {
		o.free = append(o.free, i)
	}
	return o
}

// add takes over a batch of at least one operation.
func (o *owner) add(b *batch) {
	b.next, b.left = 0, len(b.ops)
	o.waiting.push(b)
}

func (o *owner) inFlight() int { return len(o.slots) - len(o.free) }

func (o *owner) idle() bool { return o.waiting.first == nil && o.inFlight() == 0 }

// step moves the batches on. An error means that the ring is of no use any more; the batches are as far as they came, and
// abandon brings them to their end.
func (o *owner) step() error {
	o.fill()
	var err error
	if o.inFlight() > 0 {
		err = o.ring.enter(o.wanted())
	}
	moved := o.takeBack()
	for o.waiting.first != nil && o.waiting.first.fed() {
		o.waiting.pop()
	}
	if o.reap() {
		moved = true
	}
	o.answer()
	return o.judge(err, moved)
}

// fill pushes operations in the order of their batches until a chain does not fit.
func (o *owner) fill() {
	if o.hold {
		o.hold = false
		return
	}
	for b := o.waiting.first; b != nil; b = b.link {
		if !o.feed(b) {
			return
		}
	}
}

// feed pushes b's remaining operations, chain by chain. False: something has to complete first.
//
// A chain is pushed whole or not at all, since the kernel ends it with the last entry it is offered. Should the kernel
// consume only a part of it, the rest would run without waiting for the part; takeBack has made it ours again, and it goes
// on only when the operation before it is settled.
func (o *owner) feed(b *batch) bool {
	for !b.fed() {
		if i := b.next; follows(b.ops, i) {
			if !b.ops[i-1].settled {
				return false
			}
			if afterFailure(b.ops, i) {
				b.next++
				b.ops[i].settle(ErrCanceled)
				o.settled(b)
				continue
			}
		}
		n := chainLen(b.ops[b.next:])
		if n > len(o.free) {
			return false
		}
		for range n {
			o.push(b)
		}
	}
	return true
}

func (o *owner) push(b *batch) {
	number := o.free[len(o.free)-1]
	o.free = o.free[:len(o.free)-1]
	o.slots[number] = slot{b, b.next}
	o.pushed = append(o.pushed, number)
	prepare(o.ring.push(), &b.ops[b.next], uint64(number))
	b.next++
}

// wanted is how many completions enter waits for: with more to push, the first one, which makes room; otherwise as many as
// the batch that lacks fewest, so that one enter serves a whole batch and a small batch does not wait for a large one.
func (o *owner) wanted() int {
	if o.waiting.last != nil && !o.waiting.last.fed() {
		return 1
	}
	n := o.inFlight()
	for i := range o.slots {
		if b := o.slots[i].b; b != nil {
			n = min(n, b.left)
		}
	}
	return n
}

// takeBack returns the operations that the kernel did not consume to their batches and tells whether it consumed any.
func (o *owner) takeBack() (moved bool) {
	back := o.ring.takeBack()
	if back > len(o.pushed) {
		panic(fmt.Sprintf("BUG: uring: %d entries were not consumed, only %d were pushed", back, len(o.pushed)))
	}
	moved = back < len(o.pushed)
	for ; back > 0; back-- {
		number := o.pushed[len(o.pushed)-1]
		o.pushed = o.pushed[:len(o.pushed)-1]
		s := o.slots[number]
		s.b.next = s.op // youngest first: the oldest one taken back remains
		o.release(number)
	}
	o.pushed = o.pushed[:0]
	return moved
}

func (o *owner) release(number int) {
	o.slots[number] = slot{}
	o.free = append(o.free, number)
}

// reap collects the completions that are there, then settles their operations. It tells whether there were any.
func (o *owner) reap() bool {
	o.collected = o.ring.collect(o.collected[:0])
	for _, c := range o.collected {
		if c.slot >= uint64(len(o.slots)) || o.slots[c.slot].b == nil {
			panic(fmt.Sprintf("BUG: uring: completion for slot %d of %d, which is not under way", c.slot, len(o.slots)))
		}
		s := o.slots[c.slot]
		o.release(int(c.slot))
		if op := &s.b.ops[s.op]; c.res == -int32(unix.ECANCELED) && follows(s.b.ops, s.op) {
			op.settle(ErrCanceled)
		} else {
			op.finish(int(c.res))
		}
		o.settled(s.b)
	}
	return len(o.collected) > 0
}

// settled counts one more operation of b that has its final result.
func (o *owner) settled(b *batch) {
	b.left--
	if b.left == 0 {
		o.finished = append(o.finished, b)
	}
}

func (o *owner) answer() {
	for i, b := range o.finished {
		o.finished[i] = nil
		b.done <- struct{}{} // has room for one, and there is one answer
	}
	o.finished = o.finished[:0]
}

// judge decides what an error of enter means. EINTR means nothing: the next step goes on from what the queues say, as long
// as the device takes. EAGAIN and EBUSY ask for patience, a bounded one.
func (o *owner) judge(err error, moved bool) error {
	if moved {
		o.refusals = 0
	}
	switch {
	case err == nil, errors.Is(err, unix.EINTR):
		return nil
	case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EBUSY):
		return err
	}
	o.hold = o.inFlight() > 0
	if moved {
		return nil
	}
	o.refusals++
	if o.refusals > refusalsMax {
		return err
	}
	o.pause(min(time.Duration(o.refusals)*time.Millisecond, refusalPauseMax))
	return nil
}

// abandon brings every batch to its end after the ring has failed. What the kernel consumed keeps the result it still gets,
// or is lost; what it did not consume was never begun and is done by plain calls.
func (o *owner) abandon() {
	for try := 0; o.inFlight() > 0 && try < drainTries; try++ {
		if !o.reap() {
			o.pause(drainPause)
		}
	}
	for number := range o.slots {
		if s := o.slots[number]; s.b != nil {
			o.release(number)
			s.b.ops[s.op].settle(ErrLost)
			o.settled(s.b)
		}
	}
	for o.waiting.first != nil {
		b := o.waiting.pop()
		for !b.fed() {
			i := b.next
			b.next++
			runPlain(b.ops, i)
			o.settled(b)
		}
	}
	o.answer()
}
