package consumequeue

import (
	"sync/atomic"

	"ringmq/internal/histogram"
)

// Metrics counts what a Table does; all fields only grow, but for Open and TailBytes.
type Metrics struct {
	Entries      atomic.Int64 // put behind the end
	Skipped      atomic.Int64 // put again, equal
	Replaced     atomic.Int64 // put again, another one
	Fillers      atomic.Int64
	Repairs      atomic.Int64 // lines logged by Open, Put and Cut about something put right
	Writes       atomic.Int64 // pwrite calls
	WrittenBytes atomic.Int64
	Flushes      atomic.Int64
	FlushMicros  histogram.Histogram // how long each took
	FlushFiles   histogram.Histogram // files that each synced
	FlushSizes   histogram.Histogram // bytes written since the one before
	SyncedFiles  atomic.Int64
	SyncedDirs   atomic.Int64
	RemovedFiles atomic.Int64 // whose records are gone
	Opens        atomic.Int64 // descriptors opened
	Open         atomic.Int64 // descriptors now open
	TailBytes    atomic.Int64 // memory of entries not yet written
}
