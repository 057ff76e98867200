package flush

import (
	"sync/atomic"

	"ringmq/internal/histogram"
)

// Metrics counts what a Service does. All fields only grow, but for Latched.
type Metrics struct {
	Commits        atomic.Int64 // rounds of the committer that wrote something
	CommittedBytes atomic.Int64
	CommitMicros   histogram.Histogram // how long each took
	CommitSizes    histogram.Histogram // bytes of each
	Flushes        atomic.Int64        // syncs that succeeded
	FlushedBytes   atomic.Int64
	FlushNS        atomic.Int64 // time in them
	FlushMaxNS     atomic.Int64
	FlushMicros    histogram.Histogram // how long each took
	FlushSizes     histogram.Histogram // bytes of the log that each covered
	FlushWaits     histogram.Histogram // how many waits each answered, with SYNC_FLUSH
	Released       atomic.Int64        // waits answered as reached
	ReleasedMax    atomic.Int64        // most of them in one batch
	TimedOut       atomic.Int64        // waits answered with ErrTimeout
	Latched        atomic.Bool
}

// raise sets v to n if that is more.
func raise(v *atomic.Int64, n int64) {
	for old := v.Load(); n > old && !v.CompareAndSwap(old, n); old = v.Load() {
	}
}
