package stats

import (
	"testing"
	"time"
)

func TestRates(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	var counts Counts
	s := New(func() Counts { return counts }, func() time.Time { return at })
	puts := func(c *Counts) int64 { return c.Puts }
	if got := s.Rates(puts); got != "0.0000 0.0000 0.0000" {
		t.Errorf("at the start: %s", got)
	}
	for range 100 { // 1,000 s at 10 a second, then 10 s at 100
		counts.Puts += 100
		at = at.Add(Interval)
		s.Sample()
	}
	counts.Puts += 1000
	at = at.Add(Interval)
	s.Sample()
	if got, want := s.Rates(puts), "100.0000 25.0000 11.5000"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTotals(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 1, 23, 59, 55, 0, time.UTC)
	counts := Counts{Puts: 1}
	s := New(func() Counts { return counts }, func() time.Time { return at })
	counts.Puts = 10
	at = at.Add(Interval)
	s.Sample() // midnight
	counts.Puts = 30
	at = at.Add(24 * time.Hour)
	s.Sample() // the next one
	counts.Puts = 35
	if y, d, n := s.Totals(); y.Puts != 10 || d.Puts != 30 || n.Puts != 35 {
		t.Errorf("got %d %d %d", y.Puts, d.Puts, n.Puts)
	}
}
