package flush

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"ringmq/engine/commitlog"
	"ringmq/engine/message"
	"ringmq/engine/segment/memstore"
)

// transient makes a rig one of the transient pool, with the least pages that half a segment of it has.
func transient(r *rig) {
	r.options.Transient, r.options.SegmentSize = true, rigSegment
	r.settings.CommitIntervalMS, r.settings.CommitLeastPages, r.settings.CommitThoroughIntervalMS = 200, 2, 200
}

// fillTo puts records until the next one would end at or behind end.
func (r *rig) fillTo(end message.Offset) {
	r.t.Helper()
	for r.log.End()+message.Offset(len(r.record)) < end {
		r.put(&r.service.Committed, 0)
	}
}

func TestTransientFollowsTheCommitSettings(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T) {
		r := newRig(t, false, transient)
		few := r.put(&r.service.Committed, 0)
		synctest.Wait()
		waiting(t, "less than the least pages", few)
		if len(r.service.wake) != 0 || r.service.Metrics().Commits.Load() != 0 {
			t.Error("the committer was woken for nothing")
		}
		time.Sleep(199 * time.Millisecond)
		waiting(t, "within the thorough interval", few)
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		answered(t, "thorough", nil, few)

		r.fillTo(2 * pageSize)
		synctest.Wait()
		if r.log.Committed() != few.End {
			t.Errorf("committed %d before two pages were appended, end %d", r.log.Committed(), r.log.End())
		}
		enough := r.put(&r.service.Committed, 0)
		synctest.Wait()
		answered(t, "two pages", nil, enough)
		if r.service.Metrics().Commits.Load() != 2 || r.service.Metrics().CommittedBytes.Load() != int64(r.log.End()) {
			t.Errorf("%d commits of %d bytes", r.service.Metrics().Commits.Load(), r.service.Metrics().CommittedBytes.Load())
		}

		// Changed while it runs, with an interval under way.
		slow := r.put(&r.service.Committed, 0)
		r.change(func(s *Settings) { s.CommitLeastPages, s.CommitThoroughIntervalMS = 1<<20, 1000 })
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		waiting(t, "thorough interval of a second", slow)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		answered(t, "after a second", nil, slow)
		slow = r.put(&r.service.Committed, 0)
		time.Sleep(500 * time.Millisecond)
		r.change(func(s *Settings) { s.CommitThoroughIntervalMS = 100 })
		answered(t, "the thorough interval is over by the new setting", nil, slow)

		// A segment that has ended is written, however many pages are asked for.
		r.change(func(s *Settings) { s.CommitThoroughIntervalMS = never })
		late := r.put(&r.service.Committed, 0)
		for r.log.End() < rigSegment {
			waiting(t, "in the segment", late)
			late = r.put(&r.service.Committed, 0)
		}
		synctest.Wait()
		answered(t, "segment has ended", nil, late)

		// Fewer least pages count for what is there, none means at once.
		some := r.put(&r.service.Committed, 0)
		r.fillTo(rigSegment + 2*pageSize)
		synctest.Wait()
		waiting(t, "many least pages", some)
		r.change(func(s *Settings) { s.CommitLeastPages = 1 })
		answered(t, "a page", nil, some)
		r.change(func(s *Settings) { s.CommitLeastPages = 0 })
		now := r.put(&r.service.Committed, 0)
		synctest.Wait()
		answered(t, "no least pages", nil, now)

		// The shorter interval is how often it looks.
		r.change(func(s *Settings) {
			s.CommitLeastPages, s.CommitIntervalMS, s.CommitThoroughIntervalMS = 100, 60_000, 300
		})
		one := r.put(&r.service.Committed, 0)
		time.Sleep(301 * time.Millisecond)
		synctest.Wait()
		answered(t, "long commit interval", nil, one)

		// A clean stop loses nothing, and does not wait.
		r.change(func(s *Settings) { s.CommitThoroughIntervalMS = never })
		last := r.put(&r.service.Flushed, 0)
		start := time.Now()
		r.end(true)
		answered(t, "at close", nil, last)
		if r.log.Flushed() != r.log.End() || time.Since(start) != 0 {
			t.Errorf("flushed %d of %d after %v", r.log.Flushed(), r.log.End(), time.Since(start))
		}
	})
}

// Flushes follow what is committed, as with every ASYNC_FLUSH; FlushAll commits first.
func TestTransientIsFlushed(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T) {
		r := newRig(t, false, func(r *rig) {
			transient(r)
			r.settings.FlushLeastPages = 0
		})
		w := r.put(&r.service.Flushed, 0)
		time.Sleep(450 * time.Millisecond)
		waiting(t, "committed, not flushed", w)
		if r.log.Committed() != w.End {
			t.Errorf("committed %d, want %d", r.log.Committed(), w.End)
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		answered(t, "flush interval", nil, w)
		w = r.put(&r.service.Flushed, 0)
		if err := r.service.FlushAll(); err != nil || r.log.Flushed() != w.End {
			t.Errorf("%v, flushed %d of %d", err, r.log.Flushed(), w.End)
		}
		r.end(true)
	})
}

// Who waits for room in a full pool does not wait for the settings.
func TestTransientRoomIsMadeAtOnce(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T) {
		r := newRig(t, false, func(r *rig) {
			transient(r)
			r.settings.CommitLeastPages, r.settings.CommitIntervalMS, r.settings.CommitThoroughIntervalMS = 1<<20, never, never
			r.options.SegmentSize = 1 << 40 // nor for the end of a segment
		})
		start := time.Now()
		for r.log.End() < 200<<10 { // three laps of the pool
			r.put(&r.service.Committed, 0)
		}
		if time.Since(start) != 0 || r.log.Metrics().Waits.Load() == 0 {
			t.Errorf("took %v with %d waits", time.Since(start), r.log.Metrics().Waits.Load())
		}
		r.end(true)
	})
}

// A failed write is final here as well, and the committer does not run in circles over what it cannot write.
func TestTransientWriteFails(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T) {
		r := newRig(t, false, transient)
		r.fillTo(pageSize)
		time.Sleep(time.Second)
		kept := r.log.Committed()
		r.storage.Inject(&memstore.Fault{Op: memstore.OpWrite, Err: syscall.EIO})
		w := r.put(&r.service.Committed, 0)
		r.fillTo(3 * pageSize)
		r.put(&r.service.Committed, 0)
		time.Sleep(time.Minute)
		if err := w.got(); !errors.Is(err, ErrLatched) || !errors.Is(err, syscall.EIO) || r.log.Committed() != kept {
			t.Errorf("%v, committed %d, want %d", err, r.log.Committed(), kept)
		}
		if _, err := r.log.Append(r.record, &r.next, nil); !errors.Is(err, commitlog.ErrLatched) {
			t.Errorf("append: %v", err)
		}
		writes := r.storage.Count(memstore.OpWrite)
		r.service.Wake()
		r.service.Hurry()
		time.Sleep(time.Minute)
		r.end(false)
		if r.storage.Count(memstore.OpWrite) != writes {
			t.Error("written again")
		}
	})
}

func TestDueEnd(t *testing.T) {
	t.Parallel()
	f := func(committed message.Offset, leastPages int, want message.Offset) {
		t.Helper()
		if got := dueEnd(committed, leastPages, 5*pageSize); got != want {
			t.Errorf("committed %d, least pages %d: due at %d, want %d", committed, leastPages, got, want)
		}
	}
	f(0, 0, 1)
	f(100, 0, 101)
	f(0, 1, pageSize)
	f(pageSize-1, 1, pageSize)
	f(pageSize, 4, 5*pageSize)
	f(pageSize+1, 4, 5*pageSize)
	f(3*pageSize, 4, 5*pageSize) // the segment ends before
	f(5*pageSize, 4, 9*pageSize)
	f(5*pageSize-1, 1<<20, 5*pageSize)
	f(5*pageSize, 1<<20, 10*pageSize)
}

func TestTransientWakeAllocatesNothing(t *testing.T) {
	r := newRig(t, false, transient)
	defer r.end(true)
	if n := testing.AllocsPerRun(100, r.service.Wake); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
