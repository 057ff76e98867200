// Package stats turns counters that only grow into rates over the last ten seconds, minute and ten minutes, and into the totals of
// days, as RocketMQ's tools show them.
package stats

import (
	"fmt"
	"sync"
	"time"
)

// Interval is how far apart samples are taken.
const Interval = 10 * time.Second

// kept is enough samples for ten minutes.
const kept = 61

// Counts is what is counted.
type Counts struct {
	Puts     int64 // messages stored
	PutBytes int64
	Gets     int64 // pulls
	Records  int64 // messages pulled
	GetBytes int64
}

// sample is the counts at one moment.
type sample struct {
	at time.Time
	Counts
}

// Sampler keeps the last samples. Methods may be called from any goroutine.
type Sampler struct {
	source func() Counts
	now    func() time.Time

	mu        sync.Mutex
	samples   []sample // the oldest first, at most kept
	day       int      // day of the year that today counts from
	yesterday Counts   // when yesterday began
	today     Counts   // when today began
}

// New takes its first sample at once. now may be nil for the real clock.
func New(source func() Counts, now func() time.Time) *Sampler {
	if now == nil {
		now = time.Now
	}
	s := &Sampler{source: source, now: now}
	s.day = now().YearDay()
	s.Sample()
	return s
}

// Sample is to be called every Interval.
func (s *Sampler) Sample() {
	at, counts := s.now(), s.source()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.samples) == kept {
		copy(s.samples, s.samples[1:])
		s.samples = s.samples[:kept-1]
	}
	s.samples = append(s.samples, sample{at, counts})
	if day := at.YearDay(); day != s.day {
		s.day, s.yesterday, s.today = day, s.today, counts
	}
}

// Rates are a count's growth per second over ten seconds, a minute and ten minutes, or what there is of them: three numbers with a
// blank between, as the tools take it apart.
func (s *Sampler) Rates(pick func(*Counts) int64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := &s.samples[len(s.samples)-1]
	rate := func(back int) float64 {
		first := &s.samples[max(len(s.samples)-1-back, 0)]
		seconds := last.at.Sub(first.at).Seconds()
		if seconds <= 0 {
			return 0
		}
		return float64(pick(&last.Counts)-pick(&first.Counts)) / seconds
	}
	return fmt.Sprintf("%.4f %.4f %.4f", rate(1), rate(6), rate(60))
}

// Totals are the counts when yesterday and today began, since the start of the broker, and now.
func (s *Sampler) Totals() (yesterday, today, now Counts) {
	now = s.source()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.yesterday, s.today, now
}
