package engine_test

import (
	"strings"
	"testing"

	"ringmq/engine"
)

// A record larger than the rest of its segment, and with that too large for the pool, closes the segment and then waits for room: the
// committer is told of both, though nothing was appended that would wake it.
func TestRollThatFillsThePool(t *testing.T) {
	t.Parallel()
	o := small(t.TempDir())
	o.SegmentSize, o.PoolSize = 1<<20, 64<<10
	s := open(t, o)
	for int64(s.Positions().End) < o.SegmentSize-50<<10 {
		put(t, s, 0, strings.Repeat("x", 8<<10))
	}
	settle(t, s)
	r := try(t, s, text(testTopic, 0, strings.Repeat("y", 52<<10), ""))
	if r.Status != engine.PutOK || int64(r.Offset) != o.SegmentSize {
		t.Errorf("%+v, want it at %d", r, o.SegmentSize)
	}
	audit(t, s)
}
