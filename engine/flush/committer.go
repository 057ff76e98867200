package flush

import (
	"runtime"
	"time"

	"ringmq/engine/message"
	"ringmq/internal/failpoint"
	"ringmq/internal/mutant"
)

// pageSize is the page of flushCommitLogLeastPages.
const pageSize = 4096

// commit is the committer. Rounds follow each other without a pause as long as something is appended meanwhile: each takes
// all of it, so the load itself makes the groups. It has a thread of its own, since the Go scheduler may let a goroutine
// that comes back from a system call wait behind others for milliseconds.
func (s *Service) commit() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		select {
		case <-s.wake:
			s.awake.Store(false)
			s.gather()
			_ = s.round() // whoever waits has been told
		case reply := <-s.commitNow:
			reply <- s.round()
		case <-s.committer.stop:
			_ = s.round()
			return
		}
	}
}

// gather lets more senders join the group, if that is wanted.
func (s *Service) gather() {
	if !s.o.Sync {
		return
	}
	if ms := s.o.Settings().GroupCommitIntervalMS; ms > 0 {
		pause(ms, s.committer.stop)
	}
}

// round writes out everything appended so far and releases who waits for that; with SYNC_FLUSH it then makes it durable.
func (s *Service) round() error {
	if err := s.failure(); err != nil {
		return err
	}
	before := s.o.Log.Committed()
	start := time.Now()
	committed, err := s.o.Log.WriteOut()
	if err != nil {
		if mutant.NoLatch {
			return err
		}
		return s.fail(err)
	}
	if committed > before {
		s.metrics.Commits.Add(1)
		s.metrics.CommittedBytes.Add(int64(committed - before))
		s.metrics.CommitMicros.Add(time.Since(start).Microseconds())
		s.metrics.CommitSizes.Add(int64(committed - before))
	}
	s.released(s.Committed.Release(committed))
	if s.o.Sync {
		// Told before the sync, for replicas are sent the bytes while the device works.
		if committed > before {
			s.o.Advanced()
		}
		return s.sync(committed)
	}
	s.o.Advanced() // a mapped append commits by itself, so before tells nothing
	select {
	case s.written <- struct{}{}:
	default:
	}
	return nil
}

// sync makes everything before to durable and releases who waits for that. One goroutine, and to is committed.
func (s *Service) sync(to message.Offset) error {
	from := s.o.Log.Flushed()
	if to <= from {
		return nil
	}
	s.files = s.o.Log.Unsynced(to, s.files[:0])
	failpoint.Hit(failpoint.BeforeSync)
	start := time.Now()
	var err error
	if !mutant.NoFsync {
		err = s.o.Syncer.Sync(s.files)
	}
	clear(s.files)
	if err != nil && !mutant.NoLatch {
		return s.fail(err)
	}
	failpoint.Hit(failpoint.AfterSync)
	took := int64(time.Since(start))
	s.o.Log.SetFlushed(to)

	s.metrics.Flushes.Add(1)
	s.metrics.FlushedBytes.Add(int64(to - from))
	s.metrics.FlushNS.Add(took)
	raise(&s.metrics.FlushMaxNS, took)
	s.metrics.FlushMicros.Add(took / 1000)
	s.metrics.FlushSizes.Add(int64(to - from))
	released := s.Flushed.Release(to)
	if s.o.Sync {
		s.metrics.FlushWaits.Add(int64(released))
	}
	s.released(released)
	s.o.Advanced()
	return nil
}

// flush is the flusher of ASYNC_FLUSH. When timed it looks at the interval only, otherwise already after each write; both
// flush only if at least the least number of pages is waiting. The thorough flush of any amount is asked for by the marker.
func (s *Service) flush() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	timer := time.NewTimer(0)
	defer timer.Stop()
	begun := time.Now() // of the interval
	for {
		settings := s.o.Settings()
		written := s.written
		if settings.FlushTimed {
			written = nil
		}
		timer.Reset(left(begun, settings.FlushIntervalMS))
		select {
		case <-timer.C:
		case <-written:
		case <-s.flusherTold:
			continue
		case reply := <-s.flushNow:
			reply <- s.flushCommitted(0)
			begun = time.Now()
			continue
		case <-s.flusher.stop:
			_ = s.flushCommitted(0)
			return
		}
		_ = s.flushCommitted(settings.FlushLeastPages)
		begun = time.Now()
	}
}

// flushCommitted makes what is committed durable if that is at least so many pages, or a segment has ended.
func (s *Service) flushCommitted(leastPages int) error {
	if err := s.failure(); err != nil {
		return err
	}
	to, from := s.o.Log.Committed(), s.o.Log.Flushed()
	if to <= from {
		return nil
	}
	pages := int(to/pageSize - from/pageSize)
	if pages < leastPages {
		s.files = s.o.Log.Unsynced(to, s.files[:0])
		if len(s.files) < 2 {
			return nil
		}
	}
	return s.sync(to)
}
