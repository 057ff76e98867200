package engine

import (
	"ringmq/engine/flush"
	"ringmq/engine/segment"
	"ringmq/uring"
)

// logSyncer makes segments durable. Nearly always it is one file, for which the plain call is quicker than the ring; at a roll it is
// two.
type logSyncer struct {
	ring  *uring.Queue
	fds   []int           // of one call
	begun []*segment.File // of one call
}

// Sync has one caller at a time, the flush service.
func (s *logSyncer) Sync(files []*segment.File) error {
	if len(files) == 1 || s.ring.Mode() == uring.ModePlain {
		for _, f := range files {
			if err := f.Sync(); err != nil {
				return err
			}
		}
		return nil
	}
	s.fds, s.begun = s.fds[:0], s.begun[:0]
	defer func() {
		for _, f := range s.begun {
			f.Release()
		}
	}()
	for _, f := range files {
		if !f.Hold() {
			return segment.ErrClosed
		}
		s.begun = append(s.begun, f)
		if err := f.BeginSync(); err != nil {
			return err
		}
		s.fds = append(s.fds, f.Fd())
	}
	err := s.ring.SyncFds(s.fds)
	for _, f := range files {
		if failed := f.EndSync(err); failed != nil {
			err = failed
		}
	}
	return err
}

var _ flush.Syncer = (*logSyncer)(nil)

func (s *Store) syncer() flush.Syncer {
	if s.options.Syncer != nil {
		return s.options.Syncer
	}
	return &logSyncer{ring: s.ring}
}

// Ring tells how files become durable: "ring" or "plain", and if plain, why.
func (s *Store) Ring() (mode, reason string) { return s.ring.Mode(), s.ring.Reason() }
