// Package flush moves the committed and flushed positions of the log and releases those who wait for them.
package flush

import (
	"ringmq/engine/message"
	"ringmq/engine/segment"
)

// Wait is one caller's place in a Queue; it is part of the caller's request, so waiting allocates nothing.
type Wait struct {
	End        message.Offset
	DeadlineMS int64 // 0: none
	Waiter     Waiter
	next       *Wait
}

// Waiter is told once that its position has been passed (nil) or why not.
type Waiter interface{ Reached(err error) }

// Queue holds waits ordered by position. Add is called in the order of the log (under the put lock).
type Queue struct{}

func (q *Queue) Add(w *Wait)                       { panic("unbuilt") }
func (q *Queue) Release(upTo message.Offset) int   { panic("unbuilt") } // runs the waiters outside its lock
func (q *Queue) Expire(nowMS int64, err error) int { panic("unbuilt") }
func (q *Queue) Fail(err error) int                { panic("unbuilt") } // all of them, and every later Add at once

// Syncer makes the written bytes of files durable; one error fails all.
type Syncer interface {
	Sync(files []*segment.File) error
}

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
	FlushTimed              bool  // flushCommitLogTimed
	GroupCommitIntervalMS   int64 // ringmq.groupCommitInterval 0
	SyncFlushTimeoutMS      int64 // syncFlushTimeout 5000
}

type Options struct {
	Log      Log
	Syncer   Syncer
	Sync     bool // SYNC_FLUSH
	Settings func() Settings
	Now      func() int64
	Released func()                       // after each batch of released waits: replies of one batch leave together
	Advanced func()                       // committed or flushed has moved (dispatch, replication); must not block
	Thorough func(flushed message.Offset) // after a thorough flush: the flush mark
	Failed   func(err error)              // the store has latched
}

// Service runs the committer, and with ASYNC_FLUSH the real-time flusher beside it.
type Service struct {
	Committed Queue // waits for page cache (or device)
	Flushed   Queue // waits for the device
}

func New(o Options) *Service       { panic("unbuilt") }
func (s *Service) Start()          { panic("unbuilt") }
func (s *Service) Wake()           { panic("unbuilt") } // something was appended; never blocks
func (s *Service) FlushAll() error { panic("unbuilt") } // everything appended so far is on the device when it returns nil
func (s *Service) Close() error    { panic("unbuilt") } // flushes all, answers every wait
