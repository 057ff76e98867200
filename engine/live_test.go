package engine_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"ringmq/engine"
)

// Limits that are changed count from then on; a disk that is too full by the new ratio refuses, and the other way round.
func TestChangeLimits(t *testing.T) {
	t.Parallel()
	var used atomic.Int64 // percent
	used.Store(80)
	o := small(t.TempDir())
	o.MaxMessageSize, o.DiskWarningRatio = 1000, 0.90
	o.DiskUsage = func(string) (float64, error) { return float64(used.Load()) / 100, nil }
	var retained atomic.Int32
	o.Retention = func() engine.RetentionSettings {
		retained.Add(1)
		r := engine.RetentionSettings{DeleteWhen: "04", IntervalMS: 10_000, BatchMax: 10, MaxUsed: 0.99, CleanForcibly: 0.99}
		return r
	}
	s := open(t, o)
	status := func(size int) engine.PutStatus {
		return try(t, s, text(testTopic, 0, strings.Repeat("x", size), "")).Status
	}
	if got := status(1001); got != engine.Illegal {
		t.Errorf("above the limit: %v", got)
	}
	asked := retained.Load()
	s.Change(engine.Limits{MaxMessageSize: 2000, DiskWarningRatio: 0.90, PutWaitMS: 60_000})
	if got := status(2000); got != engine.PutOK {
		t.Errorf("at the new limit: %v", got)
	}
	if got := status(2001); got != engine.Illegal {
		t.Errorf("above the new limit: %v", got)
	}
	until(t, func() bool { return retained.Load() > asked }) // the cleaner has read its settings
	s.Change(engine.Limits{MaxMessageSize: 2000, DiskWarningRatio: 0.70, PutWaitMS: 60_000})
	until(t, func() bool { return status(1) == engine.Unavailable })
	s.Change(engine.Limits{MaxMessageSize: 2000, DiskWarningRatio: 0.90, PutWaitMS: 60_000})
	until(t, func() bool { return status(1) == engine.PutOK })
	closeStore(t, s)
}
