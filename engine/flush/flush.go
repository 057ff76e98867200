// Package flush moves the committed and flushed positions of the log and releases those who wait for them.
//
// Nobody waits with a goroutine of his own. A Wait joins a Queue under the put lock, in the order of the log; when the
// position of the queue passes its end, all waits below are answered together.
//
// The goroutines of a Service, each the only one that does its work:
//
//	committer  writes out what was appended, releases Committed; with SYNC_FLUSH it also syncs and releases Flushed;
//	           with the transient pool it waits until the commit settings make it worth while
//	flusher    with ASYNC_FLUSH: syncs what is committed, at the intervals of the settings, releases Flushed
//	marker     every thorough interval sees to it that all is flushed, and hands out the position for the flush mark
//	expirer    answers waits that are overdue, also while the others hang in a sync
//
// A write or sync that fails is final: the log is latched, every wait is answered with the error, nothing is tried again.
package flush

import (
	"errors"

	"ringmq/engine/message"
	"ringmq/engine/segment"
)

var (
	// ErrLatched is wrapped, beside the cause, by what waits get after a failed write or sync.
	ErrLatched = errors.New("flush: stopped by a failed write or sync")
	// ErrTimeout answers a wait whose deadline has passed. What it waits for is in the log and may yet become durable.
	ErrTimeout = errors.New("flush: not durable in time")
	// ErrClosed answers what is still waiting after Close, and every later Add and FlushAll.
	ErrClosed = errors.New("flush: closed")
)

// Log is what the services drive; *commitlog.Log satisfies it.
type Log interface {
	End() message.Offset
	Committed() message.Offset
	Flushed() message.Offset
	WriteOut() (message.Offset, error)
	Unsynced(upTo message.Offset, dst []*segment.File) []*segment.File
	SetFlushed(to message.Offset)
	Latch(err error)
}

// Settings have the original's names and meaning; read before each round, so they may change while running.
type Settings struct {
	FlushIntervalMS         int64 // flushIntervalCommitLog 500
	FlushLeastPages         int   // flushCommitLogLeastPages 4
	FlushThoroughIntervalMS int64 // flushCommitLogThoroughInterval 10000
	FlushTimed              bool  // flushCommitLogTimed: flush at the interval only, not already when something was written
	GroupCommitIntervalMS   int64 // ringmq.groupCommitInterval 0
	SyncFlushTimeoutMS      int64 // syncFlushTimeout 5000; for who sets the deadline of a Wait

	// With the transient pool only.
	CommitIntervalMS         int64 // commitIntervalCommitLog 200
	CommitLeastPages         int   // commitCommitLogLeastPages 4
	CommitThoroughIntervalMS int64 // commitCommitLogThoroughInterval 200
	FailFast                 bool  // fastFailIfNoBufferInStorePool: no put waits for room in the pool; for who appends
}

// Options of a Service. The hooks may be nil. They run on the goroutines of the service, under no lock; Released and Advanced
// may run on several at once, and what they delay is the next flush.
type Options struct {
	Log      Log
	Syncer   Syncer
	Sync     bool // SYNC_FLUSH
	Settings func() Settings

	// Transient: who appends does not wait for the committer, which therefore follows the commit settings. Not with Sync.
	Transient   bool
	SegmentSize int64 // of the log; with Transient

	Now      func() int64                 // ms since any moment, the one that the deadlines of waits count from; never back
	Released func()                       // after each batch of released waits: replies of one batch leave together
	Advanced func()                       // committed or flushed has moved (dispatch, replication); must not block
	Thorough func(flushed message.Offset) // after a thorough flush that found something new: the flush mark; may take its time
	Failed   func(err error)              // the store has latched
}
