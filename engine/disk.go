package engine

import (
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const diskCheckInterval = time.Second

// diskGuard watches how full the file system of the log is. Above the ratio the store refuses messages; it opens again by itself.
type diskGuard struct {
	dir    string
	ratio  func() float64
	usage  func(dir string) (float64, error)
	report func(err error) // called on a change: nil when there is room again

	full atomic.Pointer[error] // nil: there is room
	stop chan struct{}
	done chan struct{}
}

func (g *diskGuard) start() {
	g.stop, g.done = make(chan struct{}), make(chan struct{})
	g.check()
	go func() {
		defer close(g.done)
		ticker := time.NewTicker(diskCheckInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				g.check()
			case <-g.stop:
				return
			}
		}
	}()
}

func (g *diskGuard) close() {
	close(g.stop)
	<-g.done
}

// err is why messages are refused, nil if they are not.
func (g *diskGuard) err() error {
	if p := g.full.Load(); p != nil {
		return *p
	}
	return nil
}

func (g *diskGuard) check() {
	used, err := g.usage(g.dir)
	if err != nil {
		return // nothing is known: the next write will tell
	}
	was := g.full.Load() != nil
	ratio := g.ratio()
	if used <= ratio {
		g.full.Store(nil)
		if was {
			g.report(nil)
		}
		return
	}
	full := fmt.Errorf("%w: %s is %.1f %% full, diskSpaceWarningLevelRatio allows %.1f %%", errDiskFull, g.dir, used*100, ratio*100)
	g.full.Store(&full)
	if !was {
		g.report(full)
	}
}

// diskUsage counts as df does: what only root could still use is neither used nor available.
func diskUsage(dir string) (float64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("engine: statfs %s: %w", dir, err)
	}
	used, available := float64(st.Blocks-st.Bfree), float64(st.Bavail)
	if used+available == 0 {
		return 0, nil
	}
	return used / (used + available), nil
}
