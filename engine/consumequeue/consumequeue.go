// Package consumequeue keeps the queues derived from the log: 20-byte entries, one folder a queue, files written by pwrite and
// read by pread through a bounded set of descriptors, the newest entries in memory.
package consumequeue

import (
	"ringmq/engine/message"
	"ringmq/engine/segment"
)

type ID struct {
	Topic   string
	QueueID int32
}

// Entry points to one record.
type Entry struct {
	Offset   message.Offset
	Size     int32
	TagsCode int64
}

// Queue is one consume queue. One dispatcher puts; any number read.
type Queue struct {
	ID ID
	// Next is the queue offset of the next append, guarded by the put lock of the log.
	Next message.QueueOffset
}

// Put stores e as entry at. An entry that is already there and equal is skipped; below Max another one replaces it (rebuilding); above Max the gap
// is filled with fillers and said.
func (q *Queue) Put(at message.QueueOffset, e Entry) error               { panic("unbuilt") }
func (q *Queue) Max() message.QueueOffset                                { panic("unbuilt") } // entries that readers may see
func (q *Queue) Min() message.QueueOffset                                { panic("unbuilt") } // first entry at or above the log's minimum
func (q *Queue) Read(from message.QueueOffset, dst []Entry) (int, error) { panic("unbuilt") }
func (q *Queue) LastOffset() message.Offset                              { panic("unbuilt") } // end (offset+size) of the last entry's record, 0 when empty

type Options struct {
	Dir      string // store/consumequeue
	FileSize int64  // mappedFileSizeConsumeQueue, a multiple of 20
	MaxOpen  int    // descriptors kept open
	Sync     Syncer
}

// Syncer is the ring batch: write-back started on all, then all flushed.
type Syncer interface{ SyncFds(fds []int) error }

// Table is all queues of a store.
type Table struct{}

func Open(o Options) (*Table, error)                             { panic("unbuilt") } // loads and repairs; repairs are logged one line each
func (t *Table) Find(topic []byte, id int32) *Queue              { panic("unbuilt") } // nil if absent; no allocation
func (t *Table) Get(id ID) *Queue                                { panic("unbuilt") } // made if absent, in memory until its first entry
func (t *Table) Range(fn func(*Queue) bool)                      { panic("unbuilt") }
func (t *Table) SetLogMin(min message.Offset)                    { panic("unbuilt") }
func (t *Table) Cut(end message.Offset) (dropped int, err error) { panic("unbuilt") } // entries of records at or above end, durably
func (t *Table) Flush() error                                    { panic("unbuilt") } // everything put so far is durable when it returns nil
func (t *Table) Delete(topic string) error                       { panic("unbuilt") }
func (t *Table) Close() error                                    { panic("unbuilt") }

var _ segment.Info
