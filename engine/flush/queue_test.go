package flush

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"ringmq/engine/message"
)

// waiter notes how often and with what it was answered.
type waiter struct {
	Wait
	times atomic.Int32
	err   atomic.Pointer[error]
	then  func(w *waiter)
}

func (w *waiter) Reached(err error) {
	w.times.Add(1)
	w.err.Store(&err)
	if w.then != nil {
		w.then(w)
	}
}

func (w *waiter) got() error {
	if p := w.err.Load(); p != nil {
		return *p
	}
	return nil
}

func waitFor(end message.Offset, deadlineMS int64, then func(*waiter)) *waiter {
	w := &waiter{then: then}
	w.End, w.DeadlineMS, w.Waiter = end, deadlineMS, w
	return w
}

var errBroken = errors.New("broken")

func TestQueue(t *testing.T) {
	t.Parallel()
	var q Queue
	var order []message.Offset
	var all []*waiter
	note := func(w *waiter) { order = append(order, w.End) }
	for _, end := range []message.Offset{10, 20, 20, 30, 40, 50} {
		w := waitFor(end, int64(end)+1000, note)
		all = append(all, w)
		q.Add(&w.Wait)
	}
	f := func(what string, got, want int, wantOrder ...message.Offset) {
		t.Helper()
		if got != want || !slices.Equal(order, wantOrder) {
			t.Errorf("%s: answered %d in order %v, want %d, %v", what, got, order, want, wantOrder)
		}
		order = nil
	}
	f("release none", q.Release(9), 0)
	f("release", q.Release(20), 3, 10, 20, 20)
	f("expire none", q.Expire(1029, ErrTimeout), 0)
	f("expire", q.Expire(1039, ErrTimeout), 1, 30)
	f("fail", q.Fail(errBroken), 2, 40, 50)
	f("empty", q.Release(1000)+q.Expire(1<<60, ErrTimeout)+q.Fail(errors.New("later")), 0)
	for i, want := range []error{nil, nil, nil, ErrTimeout, errBroken, errBroken} {
		if all[i].times.Load() != 1 || all[i].got() != want {
			t.Errorf("wait %d: answered %d times, %v, want %v", i, all[i].times.Load(), all[i].got(), want)
		}
	}
}

// TestQueueFailed: a wait that joins late is answered once, by another goroutine than the one that holds the put lock.
func TestQueueFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var q Queue
		q.Fail(errBroken)
		var putLock sync.Mutex
		answered := false // guarded by putLock
		w := waitFor(10, 0, func(*waiter) {
			putLock.Lock()
			defer putLock.Unlock()
			answered = true
		})
		putLock.Lock()
		q.Add(&w.Wait)
		putLock.Unlock()
		synctest.Wait()
		if w.times.Load() != 1 || w.got() != errBroken || !answered {
			t.Errorf("answered %d times, %v", w.times.Load(), w.got())
		}
	})
}

// TestQueueWaiterMayCall: an answered wait is free, and may join a queue again while others are being answered.
func TestQueueWaiterMayCall(t *testing.T) {
	t.Parallel()
	var q, other Queue
	w := waitFor(10, 0, func(w *waiter) {
		w.End = 100
		other.Add(&w.Wait)
	})
	again := waitFor(20, 0, func(w *waiter) {
		if w.times.Load() == 1 {
			w.End = 30
			q.Add(&w.Wait)
		}
	})
	q.Add(&w.Wait)
	q.Add(&again.Wait)
	if n := q.Release(20); n != 2 {
		t.Errorf("released %d, want 2", n)
	}
	if n := q.Release(30) + other.Release(100); n != 2 {
		t.Errorf("released %d, want 2", n)
	}
}

func TestQueueOrderIsAsserted(t *testing.T) {
	t.Parallel()
	defer func() {
		if r := recover(); r == nil || !strings.HasPrefix(r.(string), "BUG: ") {
			t.Errorf("got panic %v", r)
		}
	}()
	var q Queue
	q.Add(&waitFor(20, 0, nil).Wait)
	q.Add(&waitFor(19, 0, nil).Wait)
}

func TestQueueAllocatesNothing(t *testing.T) {
	var q Queue
	var waits [16]*waiter
	for i := range waits {
		waits[i] = waitFor(0, 0, nil)
		waits[i].err.Store(new(error))
	}
	silent := func(*waiter) {}
	at := message.Offset(0)
	if n := testing.AllocsPerRun(1000, func() {
		for _, w := range waits {
			at++
			w.End, w.then, w.Waiter = at, silent, quiet{}
			q.Add(&w.Wait)
		}
		q.Expire(1, ErrTimeout)
		q.Release(at)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

type quiet struct{}

func (quiet) Reached(error) {}

// TestQueueConcurrent: with one who adds in order and several who take, every wait is answered exactly once.
func TestQueueConcurrent(t *testing.T) {
	t.Parallel()
	var q Queue
	const n = 20000
	waits := make([]*waiter, n)
	for i := range waits {
		waits[i] = waitFor(message.Offset(i), int64(i+1), nil)
	}
	var added atomic.Int64
	var takers sync.WaitGroup
	taker := func(take func(upTo int64)) {
		takers.Go(func() {
			for added.Load() < n {
				take(added.Load())
				runtime.Gosched()
			}
		})
	}
	taker(func(upTo int64) { q.Release(message.Offset(upTo / 2)) })
	taker(func(upTo int64) { q.Release(message.Offset(upTo)) })
	taker(func(upTo int64) { q.Expire(upTo/3, ErrTimeout) })
	for i, w := range waits {
		if i == n-n/10 {
			takers.Go(func() { q.Fail(errBroken) })
		}
		q.Add(&w.Wait)
		added.Add(1)
	}
	takers.Wait()
	for i, w := range waits {
		for w.times.Load() == 0 {
			runtime.Gosched() // the goroutine that answers a late one
		}
		if w.times.Load() != 1 {
			t.Fatalf("wait %d was answered %d times", i, w.times.Load())
		}
	}
}

func BenchmarkQueue(b *testing.B) {
	var q Queue
	waits := make([]Wait, 64)
	at := message.Offset(0)
	b.ReportAllocs()
	for b.Loop() {
		for i := range waits {
			at++
			waits[i].End, waits[i].Waiter = at, quiet{}
			q.Add(&waits[i])
		}
		q.Release(at)
	}
}
