package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ringmq/engine"
	"ringmq/engine/message"
	"ringmq/engine/segment"
	"ringmq/engine/segment/memstore"
)

// A put that waits for room longer than it may is refused and not stored, also the one that the overflow has in its hands; those that came later have
// their own time. A write of the disk hangs meanwhile. The clock is that of the bubble.
func TestOverduePutsAreRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		alter func(o *engine.Options)
	}{
		{"async", func(*engine.Options) {}},
		{"sync", func(o *engine.Options) { o.SyncFlush = true }},
		{"transient", func(o *engine.Options) { o.TransientPool, o.TransientBuffers = true, 1 }},
	} {
		dir := t.TempDir()
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := memstore.New()
				o := small(dir)
				o.Ring, o.PoolSize, o.PutWaitMS = false, 64<<10, 1000
				o.SegmentSize = 1 << 20
				o.Storage = func(string) (segment.Storage, error) { return disk, nil }
				c.alter(&o)
				holdAndWait(t, open(t, o), disk)
			})
		})
	}
}

func holdAndWait(t *testing.T, s *engine.Store, disk *memstore.Storage) {
	gate := make(chan struct{})
	disk.Inject(&memstore.Fault{Op: memstore.OpWrite, Hold: gate})
	var calls []*call
	send := func(n int) (sent []*call) {
		for range n {
			c := newCall()
			c.request.Message = text(testTopic, 0, strings.Repeat("x", 8<<10), fmt.Sprint(len(calls)))
			c.request.NoWait = true // answered when it is in the log: who is not answered waits for room
			s.Put(&c.request)
			calls, sent = append(calls, c), append(sent, c)
		}
		synctest.Wait()
		return sent
	}
	waiting := func(list []*call) (n int) {
		for _, c := range list {
			if len(c.done) == 0 {
				n++
			}
		}
		return n
	}
	for waiting(send(1)) == 0 { // until the pool is full
	}
	send(3)
	first := calls[len(calls)-4:]
	time.Sleep(500 * time.Millisecond)
	second := send(3)
	time.Sleep(499 * time.Millisecond)
	synctest.Wait()
	if n := waiting(first) + waiting(second); n != 7 {
		t.Fatalf("%d of 7 wait before their time is over", n)
	}
	time.Sleep(51 * time.Millisecond)
	synctest.Wait()
	if waiting(first) != 0 || waiting(second) != 3 {
		t.Errorf("%d of 4 wait longer than they may, %d of 3 in time", waiting(first), waiting(second))
	}
	for _, c := range first {
		if r := c.wait(t); r.Status != engine.Busy || !errors.Is(r.Err, engine.ErrOverdue) || r.Offset != -1 ||
			!strings.Contains(r.Err.Error(), "waitTimeMillsInSendQueue allows 1000") {
			t.Errorf("%+v", r)
		}
	}
	s.Change(engine.Limits{MaxMessageSize: 4 << 20, DiskWarningRatio: 1, PutWaitMS: 600})
	time.Sleep(51 * time.Millisecond)
	synctest.Wait()
	if waiting(second) != 0 {
		t.Error("a shorter time does not hold for those who wait")
	}
	third := send(2)
	close(gate)
	disk.Heal()
	synctest.Wait()
	for _, c := range third {
		if r := c.wait(t); r.Status != engine.PutOK {
			t.Errorf("one that has waited for no time: %+v", r)
		}
	}
	for _, c := range second {
		if r := c.wait(t); !errors.Is(r.Err, engine.ErrOverdue) {
			t.Errorf("%+v", r)
		}
	}
	put(t, s, 0, "last")
	settle(t, s)
	stored := records(t, s, testTopic, 0)
	if want := len(calls) - 7 + 1; len(stored) != want {
		t.Errorf("%d messages are stored, want %d: a refused one is among them, or one is missing", len(stored), want)
	}
	for i, r := range stored {
		if r.QueueOffset != message.QueueOffset(i) {
			t.Errorf("message %d has number %d", i, r.QueueOffset)
		}
	}
	audit(t, s)
	closeStore(t, s)
}
