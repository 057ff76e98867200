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
				s.closeLargest()
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

// closeLargest ends the connections that hold most until the rest is within the limit.
func (s *Server) closeLargest() {
	over := s.memory.Load() - s.opts.MemoryLimit
	for over > 0 {
		var largest *conn
		for _, l := range *s.loops.Load() {
			l.connsMu.Lock()
			for c := range l.conns {
				if !c.closing.Load() && (largest == nil || c.accounted.Load() > largest.accounted.Load()) {
					largest = c
				}
			}
			l.connsMu.Unlock()
		}
		if largest == nil {
			return
		}
		held := largest.accounted.Load()
		if held == 0 {
			return // ended meanwhile
		}
		over -= held
		largest.fail("all connections together hold too much, this one most", "bytes", held, "limit", s.opts.MemoryLimit)
		largest.Close()
	}
}
