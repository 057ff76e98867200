package flush

import (
	"runtime"
	"time"

	"ringmq/engine/message"
)

// commitTransient is the committer when puts have been answered before it comes to their bytes (Options.Transient). It writes everything out
// when at least the least pages were appended, or a segment has ended, or when the thorough interval has passed since it wrote last. So the
// work is that of few large writes, and what a kill can lose is what the settings say.
//
// Appenders wake it only when there is something to do: they compare End with due, which it has left behind. Else it looks by the clock, as
// often as the shorter of the two intervals says. Settings are read before each round.
func (s *Service) commitTransient() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	timer := time.NewTimer(0)
	defer timer.Stop()
	last, begun := s.o.Now(), time.Now() // when it wrote, and when it looked by the clock or wrote
	for {
		settings := s.o.Settings()
		s.expect(settings.CommitLeastPages)
		timer.Reset(left(begun, min(settings.CommitIntervalMS, settings.CommitThoroughIntervalMS)))
		select {
		case <-timer.C:
			if s.o.Now()-last < settings.CommitThoroughIntervalMS {
				begun = time.Now()
				continue
			}
		case <-s.wake:
			s.awake.Store(false)
			if !s.wanted.Swap(false) && int64(s.o.Log.End()) < s.due.Load() {
				continue // the round before has written what it was woken for, or the settings have changed
			}
		case reply := <-s.commitNow:
			reply <- s.round()
			last, begun = s.o.Now(), time.Now()
			continue
		case <-s.committer.stop:
			_ = s.round()
			return
		}
		if s.o.Log.End() > s.o.Log.Committed() {
			_ = s.round() // a failure has latched the log
			last = s.o.Now()
		}
		begun = time.Now()
	}
}

// expect leaves behind from which End on it is worth while to write out.
func (s *Service) expect(leastPages int) {
	s.due.Store(int64(dueEnd(s.o.Log.Committed(), leastPages, s.o.SegmentSize)))
	// An append that came before may have compared with an older, higher one; it published End before it did. After a failure nothing
	// will ever be written.
	if s.o.Log.End() > s.o.Log.Committed() && s.failure() == nil {
		s.Wake()
	}
}

// dueEnd is the first End at which so many pages have begun behind committed, or its segment has ended.
func dueEnd(committed message.Offset, leastPages int, segmentSize int64) message.Offset {
	if leastPages <= 0 {
		return committed + 1
	}
	at := int64(committed)
	pages := (at/pageSize + int64(leastPages)) * pageSize
	segmentEnd := (at/segmentSize + 1) * segmentSize
	return message.Offset(min(pages, segmentEnd))
}

// Hurry has the committer write out what there is, whatever the commit settings say: somebody waits for room in the pool. Never blocks.
func (s *Service) Hurry() {
	s.wanted.Store(true)
	s.token()
}
