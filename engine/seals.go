package engine

import (
	"ringmq/engine/message"
	"ringmq/engine/scrub"
	"ringmq/engine/seal"
)

// ScrubSettings say how fast and how often the log is read again.
type ScrubSettings = scrub.Settings

// dropSeals removes the seals of segments that are not there, or in which the log ends: before anything of them is cut, for a seal must not
// outlive the bytes it speaks of. Seals are derived: what goes wrong here is told, and no reason not to open the store. One that stays behind
// all the same is found out when its segment is full again, for that holds other records then.
func (s *Store) dropSeals(end message.Offset) {
	stay, removed, err := seal.Keep(s.paths.seals, func(base message.Offset) bool {
		f := s.log.Segments().Find(int64(base))
		return f != nil && f.Base() == int64(base) && f.End() <= int64(end)
	})
	if err != nil {
		s.options.Logger.Warn("seals of segments could not be listed or removed", "error", err)
	}
	if removed > 0 {
		s.options.Logger.Info("seals without a full segment were removed", "seals", removed)
	}
	s.sealed = stay
}

// newScrubber makes the scrubber, before the lock says that the store is ours.
func (s *Store) newScrubber() *scrub.Scrubber {
	o := &s.options
	return scrub.New(scrub.Options{
		Log: s.log, LogDir: o.LogDir, Dir: s.paths.seals, Sealed: s.sealed, Began: s.recovery.End, Foreign: !s.lock.LastWasOwn(),
		Settings: o.Scrub, Now: o.Now, Metrics: &s.scrubMetrics, Logger: o.Logger,
	})
}

// Damages are the stretches of the log that were found damaged by the scrub and are still there: bytes have changed since they were written. The
// store works all the same.
func (s *Store) Damages() []scrub.Damage { return s.scrubber.Damages() }
