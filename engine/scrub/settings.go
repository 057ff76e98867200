package scrub

import (
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// askAgain bounds a sleep, for the settings may change meanwhile.
	askAgain = time.Minute

	// memoryRate bounds, in bytes a second, the work on what is in memory: at this rate it costs some percent of one CPU.
	memoryRate = 256 << 20
)

// Settings are read before each block, so they may change while running.
type Settings struct {
	BytesPerSecond int64 // ringmq.scrubRate: read from the device; 0: only segments that become full in this run are sealed, nothing else is read
	IntervalMS     int64 // ringmq.scrubInterval, which is in hours: between two looks at the same segment
}

// minRate reads a block in 16 s. Who asks for less has most likely another unit in mind, and would wait years for a gigabyte.
const minRate = 64 << 10

// Defaults read a terabyte a day at most.
func Defaults() Settings {
	return Settings{BytesPerSecond: 16 << 20, IntervalMS: int64(24 * time.Hour / time.Millisecond)}
}

// Validate tells the first setting that cannot work: its key, its value and what is allowed.
func (s *Settings) Validate() error {
	if s.BytesPerSecond < 0 || s.BytesPerSecond > 0 && s.BytesPerSecond < minRate {
		return fmt.Errorf("scrub: ringmq.scrubRate is %d bytes a second, allowed are 0 (off) and %d and above", s.BytesPerSecond, minRate)
	}
	if s.IntervalMS < 1 {
		return fmt.Errorf("scrub: ringmq.scrubInterval is %d ms, allowed is 1 and above", s.IntervalMS)
	}
	return nil
}

// Metrics counts what a Scrubber does. All fields only grow.
type Metrics struct {
	Sealed        atomic.Int64 // segments that got a seal
	Resealed      atomic.Int64 // of those: because another broker had written them anew
	SealedBytes   atomic.Int64 // of blocks hashed for seals
	ScrubbedBytes atomic.Int64 // read from the device and compared
	Compared      atomic.Int64 // segments compared with their seals
	Damaged       atomic.Int64 // stretches that were found damaged
	Failed        atomic.Int64 // seals that could not be made or written
}

// pace spreads work over time. It gives no credit: who was slow need not hurry.
type pace struct {
	start time.Time
	spent time.Duration // that the work so far should have taken
}

// after is how long to wait after n bytes of work.
func (p *pace) after(n, rate int64) time.Duration {
	if p.start.IsZero() {
		p.start = time.Now()
	}
	p.spent += time.Duration(float64(n) / float64(rate) * float64(time.Second))
	left := p.spent - time.Since(p.start)
	if left <= 0 {
		p.start, p.spent = time.Now(), 0
	}
	return left
}

// pause waits after n bytes of work; false: it is to end. Segments that become full meanwhile are sealed, unless that is the work.
func (s *Scrubber) pause(p *pace, n, rate int64, sealing bool) bool {
	left := p.after(n, rate)
	if left <= 0 {
		if !sealing {
			s.takeWake()
		}
		return !s.stopped()
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	for {
		wake := s.wake
		if sealing {
			wake = nil
		}
		select {
		case <-timer.C:
			return !s.stopped()
		case <-wake:
			s.sealNew()
		case <-s.stop:
			return false
		}
	}
}

func (s *Scrubber) takeWake() {
	select {
	case <-s.wake:
		s.sealNew()
	default:
	}
}
