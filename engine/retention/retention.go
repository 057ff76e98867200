package retention

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// firstRound is how long after Start the first round comes, as in the original: a store that was stopped for a week is served first.
	firstRound = 60 * time.Second

	// minInterval keeps a small setting from becoming a busy loop.
	minInterval = 10 * time.Millisecond
)

// Store is what is removed from. Its methods are called by the Cleaner's goroutine only.
type Store interface {
	// Oldest describes the oldest segment; false when there is none but the one that is appended to.
	Oldest() (Segment, bool, error)
	// LastStored is when the last record of the oldest segment was stored, in ms; 0 if that cannot be found out. It may read a lot.
	LastStored() int64
	// RemoveOldest removes the oldest segment. False without an error: it is still needed, whatever its age.
	RemoveOldest() (bool, error)
	// Expire finds the queue files that were derived from segments that are gone, and tells whether there are any.
	Expire() (bool, error)
	// RemoveQueueFiles removes those of one queue, and tells whether others have some, too.
	RemoveQueueFiles() (more bool, err error)
	// Usage tells how full the disks are, 0 to 1.
	Usage() (Usage, error)
}

// Segment is one that may be removed.
type Segment struct {
	Name       string
	ModifiedMS int64 // of its file
	Left       int   // segments that stay when it has gone
}

// Usage is how full the file systems are that hold the log and the queues, as df counts.
type Usage struct{ Log, Queues float64 }

// Options of a Cleaner; all but Location are needed.
type Options struct {
	Store    Store
	Settings func() Settings
	Now      func() int64   // ms since 1970
	Location *time.Location // of the hours of deleteWhen; nil: local
	Logger   *slog.Logger
}

// Cleaner is one goroutine between Start and Close.
type Cleaner struct {
	o     Options
	order chan struct{}
	told  chan struct{} // the settings have changed
	stop  chan struct{}
	done  sync.WaitGroup

	// The goroutine's.
	ordered bool   // an order stands until a round finds nothing more to do
	trimmed bool   // what was derived from removed segments is gone, too
	found   bool   // it is known what that is
	known   string // segment whose last store time is known
	stored  int64  // that time
	stuck   bool   // the disk is too full and nothing can be removed; told
	failing bool   // the last attempt failed; told
}

// New makes a cleaner that does nothing yet.
func New(o Options) *Cleaner {
	if o.Location == nil {
		o.Location = time.Local
	}
	return &Cleaner{o: o, order: make(chan struct{}, 1), told: make(chan struct{}, 1), stop: make(chan struct{})}
}

// Start lets rounds begin.
func (c *Cleaner) Start() { c.done.Go(c.run) }

// Close ends after the removal that is under way, if one is.
func (c *Cleaner) Close() {
	close(c.stop)
	c.done.Wait()
}

// Order has all that is expired removed, beginning at once and whatever the hour. It never blocks.
func (c *Cleaner) Order() {
	select {
	case c.order <- struct{}{}:
	default:
	}
}

// SettingsChanged has the settings read anew: a shorter interval does not begin behind the one that is under way. It never blocks.
func (c *Cleaner) SettingsChanged() {
	select {
	case c.told <- struct{}{}:
	default:
	}
}

func (c *Cleaner) run() {
	timer := time.NewTimer(firstRound)
	defer timer.Stop()
	var ended time.Time // of the last round
	for {
		select {
		case <-c.stop:
			return
		case <-c.told:
			if settings := c.o.Settings(); !ended.IsZero() {
				timer.Reset(time.Until(ended.Add(interval(&settings))))
			}
			continue
		case <-c.order:
			c.ordered = true
		case <-timer.C:
		}
		settings := c.o.Settings()
		c.round(&settings)
		ended = time.Now()
		timer.Reset(interval(&settings))
	}
}

func interval(s *Settings) time.Duration {
	return max(time.Duration(s.IntervalMS)*time.Millisecond, minInterval)
}

// round removes what is due, a batch at most: unlinking a gigabyte costs the device something, and others use it.
func (c *Cleaner) round(s *Settings) {
	for removed := 0; removed < s.BatchMax && (removed == 0 || c.pause(s.PauseMS)) && c.removeOne(s); removed++ {
		c.trimmed, c.found = false, false
	}
	if c.trimmed {
		return
	}
	var err error
	if c.trimmed, err = c.trim(s); err != nil {
		c.o.Logger.Error("queue files without a message in the log could not be removed; it is tried again", "error", err)
	}
}

// trim removes queue files, those of one queue after the other, and tells whether none is left. It ends when the next look at the segments is
// due: the files of very many queues may take hours, and a disk that fills up does not wait for them.
func (c *Cleaner) trim(s *Settings) (done bool, err error) {
	if !c.found {
		if c.found, err = c.o.Store.Expire(); err != nil || !c.found {
			c.found = false
			return err == nil, err
		}
	}
	begun := time.Now()
	for {
		more, err := c.o.Store.RemoveQueueFiles()
		if err != nil || !more {
			c.found = false
			return err == nil, err
		}
		if !c.pause(s.QueuePauseMS) || time.Since(begun) >= time.Duration(s.IntervalMS)*time.Millisecond {
			return false, nil
		}
	}
}

func (c *Cleaner) pause(ms int64) bool {
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.stop:
		return false
	}
}

// removeOne removes the oldest segment if it is due; false when nothing is, or it must stay. The reason is looked for anew each time, so
// that a disk that was too full loses no more than it has to.
func (c *Cleaner) removeOne(s *Settings) bool {
	why, forced := c.reason(s)
	if why == "" {
		c.stuck = false
		return false
	}
	segment, ok, err := c.o.Store.Oldest()
	if err == nil && ok {
		age := c.o.Now() - c.lastMS(&segment, s, forced)
		if !forced && age < s.ReservedMS {
			c.ordered = false
			return false
		}
		var removed bool
		if removed, err = c.o.Store.RemoveOldest(); removed {
			c.stuck, c.failing = false, false
			c.o.Logger.Info("a segment of the commit log was removed", "segment", segment.Name,
				"age", (time.Duration(age) * time.Millisecond).Round(time.Second), "reason", why, "segments left", segment.Left)
			return true
		}
	}
	switch {
	case err != nil:
		if !c.failing {
			c.failing = true
			c.o.Logger.Error("the oldest segment of the commit log could not be removed; it is tried again", "reason", why, "error", err)
		}
		return false
	case !ok:
		c.ordered = false
	}
	if forced && !c.stuck {
		c.stuck = true
		c.o.Logger.Warn("the disk is too full, but no segment of the commit log can be removed", "reason", why)
	}
	return false
}

// reason says why segments are due now, and whether their age does not matter; empty: they are not.
func (c *Cleaner) reason(s *Settings) (why string, forced bool) {
	used, err := c.o.Store.Usage()
	if err != nil {
		used = Usage{} // nothing is known: no reason
	}
	// Only a full disk of the log itself justifies to remove what is not expired: on another one it would free next to nothing.
	if s.ForciblyEnable && used.Log > s.CleanForcibly {
		return fullText(used.Log, "diskSpaceCleanForciblyRatio", s.CleanForcibly) + ": the age does not matter", true
	}
	fullest := max(used.Log, used.Queues)
	at, _ := parseHours(s.DeleteWhen) // Validate has
	hour := time.UnixMilli(c.o.Now()).In(c.o.Location).Hour()
	switch {
	case c.ordered:
		return "expired, by order", false
	case fullest > s.MaxUsed:
		return "expired, " + fullText(fullest, "diskMaxUsedSpaceRatio", s.MaxUsed), false
	case at.has(hour):
		return fmt.Sprintf("expired, it is %02d o'clock", hour), false
	}
	return "", false
}

func fullText(used float64, key string, allowed float64) string {
	return fmt.Sprintf("the disk is %.1f %% full, %s is %.1f %%", used*100, key, allowed*100)
}

// lastMS is when the last thing happened to a segment: its last record was stored, or its file was modified, whichever is later. A copy
// that was restored is new, and so is a record whose file a backup has dated back. The record is looked for only if it can matter, and once.
func (c *Cleaner) lastMS(segment *Segment, s *Settings, forced bool) int64 {
	if !forced && c.o.Now()-segment.ModifiedMS < s.ReservedMS {
		return segment.ModifiedMS
	}
	if c.known != segment.Name {
		c.known, c.stored = segment.Name, c.o.Store.LastStored()
	}
	return max(segment.ModifiedMS, c.stored)
}
