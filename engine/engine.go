// Package engine is the store: Open (recovers), Put, Get, Close, importable by any Go program without a network.
package engine

import (
	"ringmq/engine/consumequeue"
	"ringmq/engine/flush"
	"ringmq/engine/message"
	"ringmq/engine/segment"
)

// Options: zero values mean the defaults of RocketMQ.
type Options struct {
	Dir            string // storePathRootDir
	LogDir         string // storePathCommitLog; default Dir/commitlog
	SegmentSize    int64  // mappedFileSizeCommitLog 1 GiB
	QueueFileSize  int64  // mappedFileSizeConsumeQueue 6,000,000
	MaxMessageSize int    // 4 MiB: body bytes
	SyncFlush      bool   // flushDiskType
	MappedAppend   bool   // ringmq.appendPath=mmap
	PoolSize       int64  // ringmq.poolSize
	ZeroAhead      bool   // ringmq.zeroSegments
	Ring           bool   // ringmq.uring=auto
	AllowPending   bool   // ringmq.allowPending
	DelayLevels    string // messageDelayLevel: tags codes of the schedule topic
	Flush          func() flush.Settings
	QueueFlush     func() QueueFlushSettings
	Now            func() int64 // ms
	Released       func()       // after each batch of Done calls
	Arrivals       Arrivals
	// Log, Replicator, Storage seams follow
}

type QueueFlushSettings struct {
	IntervalMS, ThoroughIntervalMS int64 // flushIntervalConsumeQueue 1000, flushConsumeQueueThoroughInterval 60000
	LeastPages                     int   // flushConsumeQueueLeastPages 2
}

// Arrivals is told, by the dispatcher, that queue entries became readable. It must not block.
type Arrivals interface {
	Arrived(q *consumequeue.Queue, tagsCode int64, max message.QueueOffset)
}

// Replicator lets a put wait for replicas as it waits for the device. Nil: no replicas.
type Replicator interface {
	Await(end message.Offset, p *PutRequest)
}

type Store struct{}

func Open(o Options) (*Store, error) { panic("unbuilt") }
func (s *Store) Close() error        { panic("unbuilt") } // answers everything, flushes, removes abort

// PutRequest is one send, single or batch (Records > 1), pooled by the caller: everything in it is the caller's again when Done is called.
type PutRequest struct {
	Message message.Message   // single message, or what all items of a batch share
	Batch   []message.Message // if not nil: the items; Message is unused but for Topic and QueueID
	NoWait  bool              // WAIT=false: answered at appended
	Done    Putter
	wait    flush.Wait
	records []byte
}

// Putter is called exactly once for each Put, from the caller's or a service's goroutine, under no lock; it must not block.
type Putter interface {
	PutDone(p *PutRequest, r *PutResult)
}

type PutStatus uint8

const (
	PutOK              PutStatus = iota
	FlushTimeout                 // 10: stored, not promised
	ReplicaUnavailable           // 11
	ReplicaTimeout               // 12
	Illegal                      // 13: sizes
	Unavailable                  // 14: latched, disk full, closed
	Busy                         // 2
)

type PutResult struct {
	Status      PutStatus
	Err         error // text for the caller when Status is not PutOK
	Offset      message.Offset
	Offsets     []message.Offset    // of a batch: each record's
	QueueOffset message.QueueOffset // of the first
	StoreTimeMS int64
}

func (s *Store) Put(p *PutRequest) { panic("unbuilt") }

type GetStatus uint8

const (
	Found         GetStatus = iota
	NoMatched               // nothing matched the filter: go on at Next
	NoQueue                 // NO_MATCHED_LOGIC_QUEUE
	NoMessage               // NO_MESSAGE_IN_QUEUE: the queue is empty
	OverflowOne             // at the end: park
	OverflowBadly           // beyond the end
	TooSmall                // below Min
	Removing                // the record's segment is gone
)

// Filter decides by tags code (and later properties).
type Filter interface{ Match(tagsCode int64) bool }

// GetResult is reused by the caller; Release gives back every view, exactly once.
type GetResult struct {
	Status   GetStatus
	Next     message.QueueOffset
	Min, Max message.QueueOffset
	Count    int
	Bytes    int
	Views    []segment.View // neighbouring records joined
	Cold     bool           // some bytes are not resident: do not write them from an event loop
}

func (r *GetResult) Release() { panic("unbuilt") }

// Get collects up to max records (and maxBytes bytes, at least one record) from queue offset from on. No allocation once res has grown.
func (s *Store) Get(topic []byte, queueID int32, from message.QueueOffset, max, maxBytes int, f Filter, res *GetResult) {
	panic("unbuilt")
}

func (s *Store) Queue(topic []byte, queueID int32) *consumequeue.Queue { panic("unbuilt") } // nil if absent
func (s *Store) OffsetByTime(topic []byte, queueID int32, timeMS int64) (message.QueueOffset, bool) {
	panic("unbuilt")
}
func (s *Store) StoreTime(topic []byte, queueID int32, at message.QueueOffset) (int64, bool) {
	panic("unbuilt")
}                                                              // ms
func (s *Store) Record(at message.Offset) (segment.View, bool) { panic("unbuilt") } // one whole record
func (s *Store) Positions() Positions                          { panic("unbuilt") }
func (s *Store) Latched() error                                { panic("unbuilt") }

type Positions struct {
	Min, End, Committed, Flushed, Readable, Dispatched message.Offset
}
