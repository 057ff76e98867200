package server

import (
	"log/slog"
	"sync"
	"time"
)

// noise writes log lines that any peer can provoke: at most one a second as a warning with the number of those left out, and
// each one at debug level.
type noise struct {
	log *slog.Logger

	mu      sync.Mutex
	next    time.Time // before it nothing is written
	skipped int
}

func (n *noise) warn(msg string, args ...any) {
	n.mu.Lock()
	now := time.Now()
	if now.Before(n.next) {
		n.skipped++
		n.mu.Unlock()
		n.log.Debug(msg, args...)
		return
	}
	skipped := n.skipped
	n.skipped, n.next = 0, now.Add(time.Second)
	n.mu.Unlock()
	if skipped > 0 {
		args = append(args, "notLogged", skipped)
	}
	n.log.Warn(msg, args...)
}
