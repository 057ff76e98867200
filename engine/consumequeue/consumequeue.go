// Package consumequeue keeps the queues derived from the log: 20-byte entries, one folder a queue, files written by pwrite and
// read by pread through a bounded set of descriptors, the newest entries in memory.
//
// One goroutine at a time puts entries (recovery, then the dispatcher, also a replica's) and one at a time flushes; any number
// read. Nothing is mapped, and a queue costs a few hundred bytes until it is used: 50,000 queues are an ordinary store.
//
// Positions of a queue, all entry numbers:
//
//	First        Min             written            Max
//	  |           |                 |                |
//	  v           v                 v                v
//	  [ records gone | in the files | tail in memory ]
//
// Entry n is at byte 20*n of the queue. An entry is visible to readers once Max has passed it, which is stored after the tail
// holds the entry. The tail is written at 4 KiB and by Flush; entries before written never change once the store has started.
//
// Locks, in this order: Table.flushMu (Flush, Cut, Delete, Close), Queue.mu, then one of Table.mu, Table.dirtyMu, the
// descriptors' lock. No read of a file happens under Queue.mu but those of Put below Max.
package consumequeue

import (
	"errors"

	"ringmq/engine/message"
)

var (
	// ErrClosed is the error of every change after Close.
	ErrClosed = errors.New("consumequeue: closed")
	// ErrDeleted is the error of a change to a queue whose topic has been deleted.
	ErrDeleted = errors.New("consumequeue: topic deleted")
	// ErrWouldWait is what ReadNow says of entries that are not in memory.
	ErrWouldWait = errors.New("consumequeue: not in memory")
	// ErrGap is wrapped when an entry's number is so far beyond Max that filling the gap cannot be meant.
	ErrGap = errors.New("consumequeue: gap too large")
)

// ID names a queue.
type ID struct {
	Topic   string
	QueueID int32
}

// Syncer is the ring batch: write-back started on all, then all flushed.
type Syncer interface{ SyncFds(fds []int) error }

// Entry points to one record.
type Entry struct {
	Offset   message.Offset
	Size     int32
	TagsCode int64
}

// End is where the entry's record ends.
func (e Entry) End() message.Offset { return e.Offset + message.Offset(e.Size) }

// Filler tells whether e only fills a gap and points to no record.
func (e Entry) Filler() bool { return e == filler }

// valid tells whether e is an entry at all; the first unit of a queue that is not valid is its end. No log reaches as far as to where End
// would overflow.
func (e Entry) valid() bool { return e.Offset >= 0 && e.Size > 0 && e.End() > 0 }
