package engine

// Limits are settings of Options that may change while the store runs.
type Limits struct {
	MaxMessageSize   int     // maxMessageSize
	DiskWarningRatio float64 // diskSpaceWarningLevelRatio; looked at once a second
	PutWaitMS        int64   // waitTimeMillsInSendQueue; holds for puts that wait already, too
}

// Change replaces the limits, and has the functions Flush, QueueFlush, Retention and Scrub of Options asked anew by those who wait by what they said.
// The limits have been checked as Options.Validate does.
func (s *Store) Change(l Limits) {
	s.limits.Store(&l)
	s.flusher.SettingsChanged()
	s.keeper.SettingsChanged()
	s.cleaner.SettingsChanged()
	s.scrubber.SettingsChanged()
}
