package flush

import (
	"errors"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"ringmq/engine/commitlog"
	"ringmq/engine/message"
	"ringmq/engine/segment"
	"ringmq/engine/segment/memstore"
)

func TestSyncFlush(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T) {
		r := newRig(t, true, nil)
		var all []*waiter
		for range 40 { // over two rolls
			committed := r.put(&r.service.Committed, 0)
			flushed := r.put(&r.service.Flushed, 0)
			synctest.Wait()
			answered(t, "put", nil, committed, flushed)
			if r.log.Flushed() != r.log.End() || r.log.Committed() != r.log.End() {
				t.Fatalf("flushed %d of %d", r.log.Flushed(), r.log.End())
			}
			all = append(all, committed, flushed)
		}
		first := r.storage.Durable("00000000000000000000")
		if message.Size(first) != len(r.record) {
			t.Error("answered, but not durable")
		}
		r.end(true)
		answered(t, "after close", nil, all...)
		m := r.service.Metrics()
		if m.Flushes.Load() == 0 || m.FlushedBytes.Load() != int64(r.log.Flushed()) || m.Released.Load() != 80 || m.Latched.Load() {
			t.Errorf("metrics: %d flushes of %d bytes, %d released", m.Flushes.Load(), m.FlushedBytes.Load(), m.Released.Load())
		}
	})
}

// TestGroupCommit: everything that comes while the device works leaves with the next sync, in order and with one Released.
func TestGroupCommit(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T) {
		r := newRig(t, true, nil)
		hold, entered := make(chan struct{}), make(chan struct{})
		r.storage.Inject(&memstore.Fault{Op: memstore.OpSync, Hold: hold, Entered: entered})
		first := r.put(&r.service.Flushed, 0)
		<-entered
		advanced := r.advanced.Load()
		if advanced == 0 || r.log.Committed() != first.End {
			t.Error("replicas are not told before the sync")
		}
		var order []message.Offset
		var group []*waiter
		for range 40 {
			w := r.put(&r.service.Flushed, 0)
			w.then = func(w *waiter) { order = append(order, w.End) }
			group = append(group, w)
		}
		waiting(t, "while the device works", append(group, first)...)
		close(hold)
		synctest.Wait()
		answered(t, "first", nil, first)
		answered(t, "group", nil, group...)
		if !slices.IsSorted(order) || r.released.Load() != 2 || r.service.Metrics().Flushes.Load() != 2 {
			t.Errorf("order %v, released %d times, %d flushes", order, r.released.Load(), r.service.Metrics().Flushes.Load())
		}
		r.end(true)
	})
}

func TestGroupCommitInterval(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T) {
		r := newRig(t, true, nil)
		r.set(func(s *Settings) { s.GroupCommitIntervalMS = 10 })
		start := time.Now()
		first := r.put(&r.service.Flushed, 0)
		time.Sleep(9 * time.Millisecond)
		second := r.put(&r.service.Flushed, 0)
		synctest.Wait()
		waiting(t, "within the interval", first, second)
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		answered(t, "behind it", nil, first, second)
		if time.Since(start) != 11*time.Millisecond {
			t.Errorf("took %v", time.Since(start))
		}
		third := r.put(&r.service.Flushed, 0)
		r.end(true) // does not wait for the interval
		answered(t, "at close", nil, third)
		if time.Since(start) != 11*time.Millisecond {
			t.Errorf("close took until %v", time.Since(start))
		}
	})
}

// TestStuckSync: waits are answered at their deadline while the flusher hangs, and not again when it goes on.
func TestStuckSync(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T) {
		r := newRig(t, true, nil)
		hold := make(chan struct{})
		r.storage.Inject(&memstore.Fault{Op: memstore.OpSync, Hold: hold})
		deadline := nowMS() + 5000
		first := r.put(&r.service.Flushed, deadline)
		second := r.put(&r.service.Flushed, deadline+1000)
		patient := r.put(&r.service.Flushed, 0)
		time.Sleep(4999 * time.Millisecond)
		waiting(t, "before the deadline", first, second, patient)
		time.Sleep(101 * time.Millisecond)
		synctest.Wait()
		answered(t, "at the deadline", ErrTimeout, first)
		waiting(t, "later deadline", second, patient)
		time.Sleep(time.Second)
		synctest.Wait()
		answered(t, "at its deadline", ErrTimeout, second)
		if r.released.Load() != 2 || r.service.Metrics().TimedOut.Load() != 2 {
			t.Errorf("released %d times, %d timed out", r.released.Load(), r.service.Metrics().TimedOut.Load())
		}
		close(hold)
		synctest.Wait()
		answered(t, "after the sync", ErrTimeout, first, second)
		answered(t, "after the sync", nil, patient)
		r.end(true)
	})
}

// TestFailure: a failed sync or write is final. Everybody is told once, nothing is tried again, and Close still ends.
func TestFailure(t *testing.T) {
	t.Parallel()
	f := func(sync bool, op memstore.Op) {
		t.Helper()
		in(t, func(t *testing.T) {
			r := newRig(t, sync, nil)
			before := r.put(&r.service.Committed, 0)
			synctest.Wait()
			answered(t, "before", nil, before)

			r.storage.Inject(&memstore.Fault{Op: op, Err: syscall.EIO})
			flushed := r.put(&r.service.Flushed, 0)
			time.Sleep(time.Minute)
			cause := flushed.got()
			if !errors.Is(cause, ErrLatched) || !errors.Is(cause, syscall.EIO) {
				t.Fatalf("%v %s: wait got %v", sync, op, cause)
			}
			answered(t, "failed", cause, flushed)
			if _, failures := r.told(); len(failures) != 1 || failures[0] != cause || !r.service.Metrics().Latched.Load() {
				t.Errorf("%v %s: failures %v", sync, op, failures)
			}
			if _, err := r.log.Append(r.record, &r.next, nil); !errors.Is(err, commitlog.ErrLatched) || !errors.Is(err, syscall.EIO) {
				t.Errorf("%v %s: append: %v", sync, op, err)
			}
			if err := r.service.FlushAll(); err != cause {
				t.Errorf("%v %s: FlushAll: %v", sync, op, err)
			}
			count := r.storage.Count(op)
			r.service.Wake()
			time.Sleep(time.Minute)
			late := waitFor(r.log.End(), 0, nil)
			r.service.Flushed.Add(&late.Wait)
			synctest.Wait()
			answered(t, "late", cause, late)
			r.end(false)
			if r.storage.Count(op) != count {
				t.Errorf("%v %s: tried again %d times", sync, op, r.storage.Count(op)-count)
			}
			answered(t, "at the end", cause, flushed, late)
		})
	}
	f(true, memstore.OpSync)
	f(true, memstore.OpWrite)
	f(false, memstore.OpSync)
	f(false, memstore.OpWrite)
}

// TestAsyncFlush follows the settings: committed at once, flushed at the interval if enough waits, thoroughly if not.
func TestAsyncFlush(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T) {
		r := newRig(t, false, nil)
		small := r.put(&r.service.Committed, 0)
		synctest.Wait()
		answered(t, "committed", nil, small)
		time.Sleep(9900 * time.Millisecond)
		if r.log.Flushed() != 0 {
			t.Error("flushed although less than the least pages are waiting")
		}
		time.Sleep(200 * time.Millisecond)
		if marks, _ := r.told(); r.log.Flushed() != small.End || !slices.Equal(marks, []message.Offset{small.End}) {
			t.Errorf("thorough: flushed %d, marks %v, want %d", r.log.Flushed(), marks, small.End)
		}
		time.Sleep(time.Minute)
		if marks, _ := r.told(); len(marks) != 1 {
			t.Errorf("marks without news: %v", marks)
		}

		flushed := r.put(&r.service.Flushed, 0)
		for r.log.End() < 3*pageSize {
			r.put(&r.service.Committed, 0)
		}
		time.Sleep(501 * time.Millisecond)
		waiting(t, "three pages", flushed)
		for r.log.End() < 4*pageSize-1500 {
			r.put(&r.service.Committed, 0)
		}
		r.put(&r.service.Committed, 0)
		rolled := r.put(&r.service.Flushed, 0)
		synctest.Wait()
		waiting(t, "before the interval", flushed)
		time.Sleep(501 * time.Millisecond)
		answered(t, "four pages", nil, flushed, rolled)

		r.set(func(s *Settings) { s.FlushLeastPages = 1 << 20 })
		time.Sleep(501 * time.Millisecond)
		w := r.put(&r.service.Flushed, 0)
		for r.log.End() < 32<<10 {
			waiting(t, "one segment", w)
			r.put(&r.service.Committed, 0)
		}
		time.Sleep(501 * time.Millisecond)
		answered(t, "a segment has ended", nil, w)

		r.set(func(s *Settings) { s.FlushTimed, s.FlushLeastPages = false, 0 })
		time.Sleep(501 * time.Millisecond) // the interval under way was timed
		woken := r.put(&r.service.Flushed, 0)
		synctest.Wait()
		answered(t, "not timed", nil, woken)
		last := r.put(&r.service.Flushed, 0)
		r.end(true)
		answered(t, "at close", nil, last)
	})
}

func TestFlushAll(t *testing.T) {
	t.Parallel()
	f := func(sync bool) {
		t.Helper()
		in(t, func(t *testing.T) {
			r := newRig(t, sync, func(r *rig) { r.settings.FlushThoroughIntervalMS = never })
			if err := New(r.options).FlushAll(); !errors.Is(err, ErrClosed) {
				t.Errorf("not started: %v", err)
			}
			w := r.put(&r.service.Flushed, 0)
			if err := r.service.FlushAll(); err != nil || r.log.Flushed() != r.log.End() {
				t.Errorf("%v, flushed %d of %d", err, r.log.Flushed(), r.log.End())
			}
			answered(t, "flush all", nil, w)
			r.end(true)
			if err := r.service.FlushAll(); !errors.Is(err, ErrClosed) {
				t.Errorf("closed: %v", err)
			}
			late := waitFor(r.log.End(), 0, nil)
			r.service.Flushed.Add(&late.Wait)
			synctest.Wait()
			answered(t, "late", ErrClosed, late)
		})
	}
	f(true)
	f(false)
}

// TestCloseUnstarted answers what has joined.
func TestCloseUnstarted(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	w := waitFor(10, 0, nil)
	s.Committed.Add(&w.Wait)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	answered(t, "closed", ErrClosed, w)
}

// TestMarkWithSyncFlush: also here the position for the mark is handed out every thorough interval, when it has moved.
func TestMarkWithSyncFlush(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T) {
		r := newRig(t, true, nil)
		var want []message.Offset
		for range 3 {
			want = append(want, r.put(&r.service.Flushed, 0).End)
			time.Sleep(25 * time.Second)
		}
		if marks, _ := r.told(); !slices.Equal(marks, want) {
			t.Errorf("marks %v, want %v", marks, want)
		}
		r.end(true)
	})
}

// TestSeveralFiles: what is waiting may lie in several segments; all are synced before the position moves.
func TestSeveralFiles(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T) {
		var lists []int
		syncer := syncerFunc(func(files []*segment.File) error {
			lists = append(lists, len(files))
			return Plain{}.Sync(files)
		})
		r := newRig(t, false, func(r *rig) {
			r.options.Syncer = syncer
			r.settings.FlushIntervalMS = never / int64(time.Millisecond)
		})
		for r.log.End() < 40<<10 {
			r.put(&r.service.Committed, 0)
		}
		if err := r.service.FlushAll(); err != nil || !slices.Equal(lists, []int{3}) {
			t.Errorf("%v, synced %v files", err, lists)
		}
		r.end(true)
	})
}

type syncerFunc func(files []*segment.File) error

func (f syncerFunc) Sync(files []*segment.File) error { return f(files) }

func TestWakeAllocatesNothing(t *testing.T) {
	s := New(Options{})
	if n := testing.AllocsPerRun(100, s.Wake); n != 0 || len(s.wake) != 1 {
		t.Errorf("%v allocations, %d tokens", n, len(s.wake))
	}
}
