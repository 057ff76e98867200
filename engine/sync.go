package engine

import "ringmq/engine/flush"

// syncer makes segments durable: nearly always it is one file, at a roll it is two.
func (s *Store) syncer() flush.Syncer {
	if s.options.Syncer != nil {
		return s.options.Syncer
	}
	return flush.NewRing(s.ring)
}

// Ring tells how several files at once become durable: "ring" or "plain", and if plain, why.
func (s *Store) Ring() (mode, reason string) { return s.ring.Mode(), s.ring.Reason() }
