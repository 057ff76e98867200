package server

import "time"

const (
	scanMost  = time.Second // between two looks at idle connections
	scanLeast = 10 * time.Millisecond
	// backlogInterval is how often backlogged connections are looked at, while there are any.
	backlogInterval = 10 * time.Millisecond
)

// watch is the server's only clock: no connection has a timer of its own.
func (s *Server) watch() {
	scan := time.NewTicker(min(max(s.opts.IdleTimeout/8, scanLeast), scanMost))
	defer scan.Stop()
	var soon <-chan time.Time
	for {
		select {
		case <-s.quit:
			return
		case <-scan.C:
			s.look(dueScan)
		case <-s.nudge:
			if soon == nil {
				soon = time.After(backlogInterval)
			}
		case <-soon:
			soon = nil
			if s.crowded() {
				s.makeRoom(0, nil)
			}
			s.look(dueBacklogs)
			if s.crowded() || s.Stats().Backlogged > 0 {
				soon = time.After(backlogInterval)
			}
		}
	}
}

func (s *Server) look(due uint32) {
	for _, l := range *s.loops.Load() {
		l.due.Or(due)
		l.post()
	}
}

// lookSoon asks for a look at backlogs; it never waits.
func (s *Server) lookSoon() {
	select {
	case s.nudge <- struct{}{}:
	default:
	}
}

func (s *Server) crowded() bool { return s.memory.Load() > s.opts.MemoryLimit }

// makeRoom ends connections, those first that are most to blame, until more bytes are within the limit. It does not end asker, who wants
// these bytes (nil: nobody does): if nobody is more to blame, it says false, and asker has to do without.
func (s *Server) makeRoom(more int64, asker *conn) bool {
	for {
		worst, ending := s.mostToBlame(asker, more)
		over := s.memory.Load() - ending + more - s.opts.MemoryLimit
		switch {
		case over <= 0:
			return true
		case worst == nil || worst == asker:
			return false
		}
		worst.fail("all connections together hold too much, this one most for the longest time",
			"bytes", worst.accounted.Load(), "limit", s.opts.MemoryLimit)
		worst.Close()
	}
}

// mostToBlame is the connection that is to end when memory is short, nil if none holds any, and the bytes of those that are ending.
func (s *Server) mostToBlame(asker *conn, more int64) (worst *conn, ending int64) {
	most, now := 0.0, s.now()
	for _, l := range *s.loops.Load() {
		l.connsMu.Lock()
		for c := range l.conns {
			if c.closing.Load() {
				ending += c.accounted.Load()
				continue
			}
			held := c.accounted.Load()
			if c == asker {
				held += more
			}
			if blame := c.blame(held, now); blame > most {
				worst, most = c, blame
			}
		}
		l.connsMu.Unlock()
	}
	return worst, ending
}

// blame weighs what c holds. An unfinished frame counts by its bytes times its age in seconds: a large one on its way is young, one that
// is never meant to be whole is not. Replies count as if they were a second old.
func (c *conn) blame(held int64, now time.Duration) float64 {
	waiting := min(c.waiting.Load(), held)
	age := max(now-time.Duration(c.frameSince.Load()), 0) + time.Millisecond
	return float64(waiting) + float64(held-waiting)*age.Seconds()
}
