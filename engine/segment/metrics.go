package segment

import "sync/atomic"

// Metrics counts what the parts of this package do. One Metrics may serve several of them; all fields only grow, but
// PoolLockedBytes falls when a pool is closed.
type Metrics struct {
	Created         atomic.Int64 // files made, ahead or at once
	Opened          atomic.Int64 // existing files opened
	Removed         atomic.Int64 // files removed or moved away
	Prepared        atomic.Int64 // files made ahead and ready
	PrepareReused   atomic.Int64 // of those: leftovers of an earlier run
	PrepareFailed   atomic.Int64 // attempts that failed
	PrepareNS       atomic.Int64 // time spent making files ahead
	PrepareWaits    atomic.Int64 // times somebody had to wait for a file that was not ready
	ZeroedBytes     atomic.Int64 // written as zeros ahead of time
	Writes          atomic.Int64 // WriteAt calls
	WrittenBytes    atomic.Int64
	Syncs           atomic.Int64
	SyncNS          atomic.Int64
	SyncFailed      atomic.Int64
	PoolViews       atomic.Int64 // views copied from the pool
	PoolViewMisses  atomic.Int64 // bytes were overwritten or about to be
	PoolReaderWaits atomic.Int64 // appends that had to let a reader's copy end first
	PoolLockedBytes atomic.Int64
}

// orNew makes metrics optional in options.
func (m *Metrics) orNew() *Metrics {
	if m == nil {
		return new(Metrics)
	}
	return m
}
