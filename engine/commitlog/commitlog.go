// Package commitlog is the log itself: append under the put lock, writing the pool out, scan, cut.
package commitlog

import (
	"errors"

	"ringmq/engine/message"
	"ringmq/engine/segment"
)

// Log is the commit log. Positions only grow, but for Cut. Writers: Append under the put lock, WriteOut by one committer.
type Log struct{}

type Options struct {
	Storage      segment.Storage
	SegmentSize  int64
	MappedAppend bool  // appendPath=mmap: copy straight into a writable mapping; appended is committed
	PoolSize     int64 // bytes of the pool otherwise
	LockPool     bool
	ZeroAhead    bool         // write zeros into the next segment ahead of time
	Now          func() int64 // ms
}

// Appended tells where records stand.
type Appended struct {
	Start, End  message.Offset
	QueueOffset message.QueueOffset // of the first record
	StoreTimeMS int64
}

var (
	// ErrBusy: no room in the pool, or the next segment is not ready: call Room, then Append again.
	ErrBusy   = errors.New("commitlog: no room yet")
	ErrClosed = errors.New("commitlog: closed")
)

// Placer is told, under the put lock and in the order of the log, where its records stand: the place to join a queue that is
// ordered by position. It must not block, allocate or call the log.
type Placer interface{ Placed(a Appended) }

// Open loads the segments. Nothing may be appended before Start.
func Open(o Options) (*Log, error) { panic("unbuilt") }

// Start declares end to be the end of everything: appended, committed and flushed.
func (l *Log) Start(end message.Offset) error { panic("unbuilt") }

// Append stamps and copies records that stand one behind the other in recs, all of one queue, whole or not at all; they
// get consecutive queue offsets from *next, which is guarded by the put lock and moved on. It returns ErrBusy instead of waiting, the
// latch's error after Latch. No allocation.
func (l *Log) Append(recs []byte, next *message.QueueOffset, p Placer) (Appended, error) {
	panic("unbuilt")
}

// Room waits until Append of n bytes would not say ErrBusy.
func (l *Log) Room(n int) error { panic("unbuilt") }

// AppendRaw appends bytes of a master at exactly at; they are verified first. One caller (the replica).
func (l *Log) AppendRaw(at message.Offset, b []byte) error { panic("unbuilt") }

func (l *Log) Min() message.Offset       { panic("unbuilt") } // first byte of the first segment
func (l *Log) End() message.Offset       { panic("unbuilt") } // appended
func (l *Log) Committed() message.Offset { panic("unbuilt") }
func (l *Log) Flushed() message.Offset   { panic("unbuilt") }

// WriteOut hands everything appended so far to the page cache and returns the new committed position. One caller.
func (l *Log) WriteOut() (message.Offset, error) { panic("unbuilt") }

// Unsynced appends to dst the segments with committed bytes in [Flushed, upTo).
func (l *Log) Unsynced(upTo message.Offset, dst []*segment.File) []*segment.File { panic("unbuilt") }

// SetFlushed publishes that the device has everything before to.
func (l *Log) SetFlushed(to message.Offset) { panic("unbuilt") }

// Latch refuses every later append with err (wrapped); the first one stays. Latched returns it or nil.
func (l *Log) Latch(err error) { panic("unbuilt") }
func (l *Log) Latched() error  { panic("unbuilt") }

// View returns up to n bytes at from, of one segment, never beyond End: from the mapping what is committed, from the pool what is not.
func (l *Log) View(from message.Offset, n int) (segment.View, bool) { panic("unbuilt") }

// Damage is a stretch of the log that holds no whole record.
type Damage struct {
	From, To message.Offset
	Reason   string
}

// Scan walks [from, end of files) and calls each for every whole record, in order; each may stop it by an error. Below mark what is not whole is
// skipped and reported to damaged; at or above mark the first such place is the end. Returns the end of the log.
func (l *Log) Scan(from, mark message.Offset, each func(r *message.Record) error, damaged func(Damage)) (message.Offset, error) {
	panic("unbuilt")
}

// Cut saves what stands behind end below dir (fsynced), erases it durably, and removes the later segments. Says how many bytes it saved. Before Start only.
func (l *Log) Cut(end message.Offset, dir string) (saved int64, err error) { panic("unbuilt") }

// RemoveFirst removes the oldest segment, never the last one.
func (l *Log) RemoveFirst() error     { panic("unbuilt") }
func (l *Log) Segments() *segment.Set { panic("unbuilt") }
func (l *Log) Close() error           { panic("unbuilt") }
