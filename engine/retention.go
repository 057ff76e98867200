package engine

import "ringmq/engine/retention"

// RetentionSettings have the original's names and meaning.
type RetentionSettings = retention.Settings

// DeleteExpired has expired segments removed whatever the hour, beginning at once. It does not wait for it.
func (s *Store) DeleteExpired() { s.cleaner.Order() }

// retentionSettings are those asked for, but a disk on which messages are refused is above the forcible ratio, too.
func (s *Store) retentionSettings() retention.Settings {
	settings := s.options.Retention()
	settings.CleanForcibly = min(settings.CleanForcibly, s.limits.Load().DiskWarningRatio)
	return settings
}

// expiring is the store as retention sees it. It adds what must stay whatever its age: a segment that a start could still need.
type expiring struct{ *Store }

var _ retention.Store = expiring{}

func (e expiring) Oldest() (retention.Segment, bool, error) {
	o, ok, err := e.log.Oldest()
	return retention.Segment{Name: o.Name, ModifiedMS: o.ModifiedMS, Left: o.Left}, ok, err
}

func (e expiring) LastStored() int64 { return e.log.LastStored() }

// RemoveOldest first makes sure that a mark on the device tells of queue entries behind the segment, and is known by a record behind it: else
// a start after a kill would find a queue that has lost its end and a log that cannot give it back, or not believe its mark.
func (e expiring) RemoveOldest() (bool, error) {
	o, ok, err := e.log.Oldest()
	if err != nil || !ok {
		return false, err
	}
	if o.End > e.keeper.Outlived() {
		if err := e.keeper.Keep(); err != nil {
			return false, err
		}
	}
	if o.End > e.keeper.Outlived() {
		return false, nil // the dispatcher is behind, or nothing stands in a later segment yet
	}
	e.queues.SetLogMin(o.End) // before the segment goes, so that no queue's Min is ever below the log
	if err := e.scrubber.Retire(e.log.Min(), e.log.RemoveFirst); err != nil {
		e.queues.SetLogMin(e.log.Min())
		return false, err
	}
	e.queues.RefreshMins() // until then a pull of a queue whose Min may have moved goes by a worker
	return true, nil
}

// Expire removes the key files without a record at or above the log's minimum, and finds the queue files without an entry there. A mark that
// does not expect these any more is on the device when it returns.
func (e expiring) Expire() (bool, error) {
	if e.index != nil {
		if _, err := e.index.DropBelow(e.log.Min()); err != nil {
			return false, err
		}
	}
	if !e.queues.Expire() {
		return false, nil
	}
	return true, e.keeper.Keep()
}

func (e expiring) RemoveQueueFiles() (more bool, err error) { return e.queues.RemoveExpired() }

func (e expiring) Usage() (used retention.Usage, err error) {
	if used.Log, err = e.options.DiskUsage(e.options.LogDir); err != nil {
		return retention.Usage{}, err
	}
	used.Queues, err = e.options.DiskUsage(e.paths.queues)
	return used, err
}
