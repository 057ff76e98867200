package longpoll

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
)

// queue is the end of one queue that a test moves.
type queue struct {
	id  consumequeue.ID
	end atomic.Int64
}

func (q *queue) Max() message.QueueOffset { return message.QueueOffset(q.end.Load()) }

// add appends an entry as the dispatcher does: the end first, then the word of it.
func (q *queue) add(h *Holder, tagsCode int64) {
	end := q.end.Add(1)
	h.Arrived(&consumequeue.Queue{ID: q.id}, tagsCode, message.QueueOffset(end))
}

// pull is a parked request that remembers how it ended.
type pull struct {
	Wait
	done chan Why
}

func newPull(h *Holder, q *queue, from message.QueueOffset, deadline time.Duration) *pull {
	p := &pull{done: make(chan Why, 1)}
	p.Wait = Wait{Queue: q.id, From: from, End: q, Waiter: p, DeadlineMS: h.Deadline(deadline.Milliseconds()), Conn: 1}
	return p
}

func (p *pull) Woken(why Why) { p.done <- why }

// over tells how p ended, if it has.
func (p *pull) over() (Why, bool) {
	select {
	case why := <-p.done:
		return why, true
	default:
		return 0, false
	}
}

type tag int64

func (t tag) Match(code int64) bool { return code == int64(t) }

func topicQueue(n int) *queue {
	return &queue{id: consumequeue.ID{Topic: "T", QueueID: int32(n)}}
}

func TestWake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := New(Options{})
		defer h.Close()
		q, other := topicQueue(0), topicQueue(1)
		any, tagged, ahead, elsewhere := newPull(h, q, 0, time.Hour), newPull(h, q, 0, time.Hour), newPull(h, q, 5, time.Hour), newPull(h, other, 0, time.Hour)
		tagged.Filter = tag(7)
		for _, p := range []*pull{any, tagged, ahead, elsewhere} {
			if got := h.Park(&p.Wait); got != Parked {
				t.Fatalf("Park: %v", got)
			}
		}
		check := func(p *pull, want bool, what string) {
			t.Helper()
			synctest.Wait()
			if why, ok := p.over(); ok != want || why != Arrived {
				t.Errorf("%s: %v %v", what, why, ok)
			}
		}
		q.add(h, 3)
		check(any, true, "any entry")
		check(tagged, false, "other tag")
		check(ahead, false, "entry before From")
		check(elsewhere, false, "other queue")
		q.add(h, 7)
		check(tagged, true, "its tag")
		if h.Count() != 2 {
			t.Errorf("%d wait", h.Count())
		}
		for range 4 {
			q.add(h, 0)
		}
		check(ahead, true, "its entry")
		late := newPull(h, q, 3, time.Hour)
		if got := h.Park(&late.Wait); got != NewData {
			t.Errorf("Park behind the end: %v", got)
		}
	})
}

func TestDeadlines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := New(Options{})
		q := topicQueue(0)
		start := time.Now()
		for _, d := range []time.Duration{-time.Second, 0, time.Millisecond, 49 * time.Millisecond, 50 * time.Millisecond,
			time.Second, 20 * time.Second, buckets * tickMS * time.Millisecond, 200 * time.Second} {
			p := newPull(h, q, 0, d)
			parkedAt := time.Now()
			if got := h.Park(&p.Wait); got != Parked {
				t.Fatalf("%v: Park: %v", d, got)
			}
			why := <-p.done
			if took := time.Since(parkedAt); why != Expired || took < d || took > max(d, 0)+2*tickMS*time.Millisecond {
				t.Errorf("%v: %v after %v", d, why, took)
			}
		}
		if h.Count() != 0 {
			t.Errorf("%d wait", h.Count())
		}
		if time.Since(start) < 200*time.Second {
			t.Error("the clock of the test did not move")
		}
		h.Close()
	})
}

func TestClosedConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := New(Options{})
		defer h.Close()
		q := topicQueue(0)
		dead, alive := newPull(h, q, 0, time.Hour), newPull(h, q, 0, time.Hour)
		alive.Conn = 2
		h.Park(&dead.Wait)
		h.Park(&alive.Wait)
		h.Closed(1)
		h.Closed(1)
		h.Closed(3)
		synctest.Wait()
		if why, ok := dead.over(); !ok || why != Gone {
			t.Errorf("dead connection: %v %v", why, ok)
		}
		q.add(h, 0)
		synctest.Wait()
		if why, ok := alive.over(); !ok || why != Arrived {
			t.Errorf("other connection: %v %v", why, ok)
		}
	})
}

func TestFullAndClose(t *testing.T) {
	t.Parallel()
	h := New(Options{Max: 3, Workers: 1})
	q := topicQueue(0)
	var parked []*pull
	for range 3 {
		p := newPull(h, q, 0, time.Hour)
		if got := h.Park(&p.Wait); got != Parked {
			t.Fatal(got)
		}
		parked = append(parked, p)
	}
	if got := h.Park(&newPull(h, q, 0, time.Hour).Wait); got != Full {
		t.Errorf("Park beyond the limit: %v", got)
	}
	h.Close()
	h.Close()
	for _, p := range parked {
		if why, ok := p.over(); !ok || why != Stopped {
			t.Errorf("after Close: %v %v", why, ok)
		}
	}
	if got := h.Park(&newPull(h, q, 0, time.Hour).Wait); got != Full {
		t.Errorf("Park after Close: %v", got)
	}
	if h.Count() != 0 || len(h.queues) != 0 || len(h.conns) != 0 {
		t.Errorf("left: %d, %v, %v", h.Count(), h.queues, h.conns)
	}
}

// Park and arrival at the same moment, many times: none may sleep on (the deadline is far away).
func TestNoMissedWakeUp(t *testing.T) {
	t.Parallel()
	rounds := 50_000
	if testing.Short() {
		rounds = 5_000
	}
	h := New(Options{})
	defer h.Close()
	q := topicQueue(0)
	send := make(chan struct{})
	var sender sync.WaitGroup
	sender.Go(func() {
		for range send {
			q.add(h, 0)
		}
	})
	p := newPull(h, q, 0, time.Hour)
	limit := time.NewTimer(30 * time.Second)
	for n := range rounds {
		p.From = message.QueueOffset(n)
		send <- struct{}{}
		switch h.Park(&p.Wait) {
		case NewData:
		case Parked:
			select {
			case why := <-p.done:
				if why != Arrived {
					t.Fatalf("round %d: %v", n, why)
				}
			case <-limit.C:
				t.Fatalf("round %d: asleep, end %d", n, q.end.Load())
			}
		}
	}
	close(send)
	sender.Wait()
}

// 2,000 pulls on 2,000 queues, one entry each.
func TestManyQueues(t *testing.T) {
	t.Parallel()
	h := New(Options{})
	defer h.Close()
	var pulls []*pull
	var queues []*queue
	for n := range 2000 {
		q := topicQueue(n)
		p := newPull(h, q, 0, time.Hour)
		p.Conn = uint64(n % 50)
		queues, pulls = append(queues, q), append(pulls, p)
		h.Park(&p.Wait)
	}
	rand.Shuffle(len(queues), func(i, j int) { queues[i], queues[j] = queues[j], queues[i] })
	for _, q := range queues {
		q.add(h, 0)
	}
	for n, p := range pulls {
		if why := <-p.done; why != Arrived {
			t.Fatalf("queue %d: %v", n, why)
		}
	}
}

// Everything at once, for the race detector and for the lists.
func TestAgainstEachOther(t *testing.T) {
	t.Parallel()
	h := New(Options{Max: 50})
	var parked, told atomic.Int64
	var wg sync.WaitGroup
	queues := []*queue{topicQueue(0), topicQueue(1), topicQueue(2)}
	for g := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(g)))
			for range 2000 {
				q := queues[rng.IntN(len(queues))]
				switch rng.IntN(4) {
				case 0:
					q.add(h, int64(rng.IntN(3)))
				case 1:
					h.Closed(uint64(rng.IntN(5)))
				default:
					p := newPull(h, q, q.Max(), time.Duration(rng.IntN(100))*time.Millisecond)
					p.Conn = uint64(rng.IntN(5))
					p.Filter = tag(rng.IntN(3))
					p.Waiter = counter{&told}
					if h.Park(&p.Wait) == Parked {
						parked.Add(1)
					}
				}
			}
		})
	}
	wg.Wait()
	h.Close()
	if parked.Load() != told.Load() || h.Count() != 0 || len(h.queues) != 0 || len(h.conns) != 0 {
		t.Errorf("%d parked, %d told, left %d, %d, %d", parked.Load(), told.Load(), h.Count(), len(h.queues), len(h.conns))
	}
	for i := range h.wheel {
		if h.wheel[i] != (list{}) {
			t.Errorf("bucket %d is not empty", i)
		}
	}
}

type counter struct{ n *atomic.Int64 }

func (c counter) Woken(Why) { c.n.Add(1) }

// woken is a Waiter that only says so.
type woken chan struct{}

func (w woken) Woken(Why) { w <- struct{}{} }

func TestAllocations(t *testing.T) {
	h := New(Options{Workers: 1})
	defer h.Close()
	q := topicQueue(0)
	done := make(woken, 1)
	w := &Wait{Queue: q.id, End: q, Waiter: done, DeadlineMS: h.Deadline(time.Hour.Milliseconds())}
	entry := &consumequeue.Queue{ID: q.id}
	if n := testing.AllocsPerRun(1000, func() {
		w.From = q.Max()
		if h.Park(w) != Parked {
			t.Fatal("not parked")
		}
		h.Arrived(entry, 0, message.QueueOffset(q.end.Add(1)))
		<-done
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkArrived(b *testing.B) {
	for _, parked := range []int{0, 1, 10_000} {
		b.Run(fmt.Sprint("parkedElsewhere=", parked), func(b *testing.B) {
			h := New(Options{})
			defer h.Close()
			for n := range parked {
				h.Park(&newPull(h, topicQueue(n+1), 0, time.Hour).Wait)
			}
			entry := &consumequeue.Queue{ID: topicQueue(0).id}
			b.ReportAllocs()
			for b.Loop() {
				h.Arrived(entry, 0, 1)
			}
		})
	}
}

func BenchmarkParkAndWake(b *testing.B) {
	h := New(Options{Workers: 1})
	defer h.Close()
	q := topicQueue(0)
	done := make(woken, 1)
	w := &Wait{Queue: q.id, End: q, Waiter: done, DeadlineMS: h.Deadline(time.Hour.Milliseconds())}
	entry := &consumequeue.Queue{ID: q.id}
	b.ReportAllocs()
	for b.Loop() {
		w.From = q.Max()
		h.Park(w)
		h.Arrived(entry, 0, message.QueueOffset(q.end.Add(1)))
		<-done
	}
}
