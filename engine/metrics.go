package engine

import (
	"sync/atomic"

	"ringmq/engine/commitlog"
	"ringmq/engine/consumequeue"
	"ringmq/engine/flush"
	"ringmq/engine/index"
	"ringmq/engine/scrub"
	"ringmq/engine/segment"
)

// Metrics counts what the store did since Open. All fields only grow.
type Metrics struct {
	Puts        atomic.Int64 // records appended, items of batches counted
	PutBytes    atomic.Int64 // of their records
	PutsFailed  atomic.Int64 // requests not answered PutOK
	PutsDelayed atomic.Int64 // requests that had to wait for room in the log
	Gets        atomic.Int64
	GetRecords  atomic.Int64
	GetBytes    atomic.Int64
	ColdGets    atomic.Int64 // with bytes that were not resident
	Damaged     atomic.Int64 // entries skipped while serving, because no whole record stood there
}

// Metrics are the store's own counters; read only.
func (s *Store) Metrics() *Metrics { return &s.metrics }

// Counters are those of the store and of its parts; read only.
type Counters struct {
	Store    *Metrics
	Log      *commitlog.Metrics
	Flush    *flush.Metrics
	Segments *segment.Metrics
	Queues   *consumequeue.Metrics
	Index    *index.Metrics
	Scrub    *scrub.Metrics
}

// Counters gathers the counters of the store and of its parts.
func (s *Store) Counters() Counters {
	return Counters{Store: &s.metrics, Log: s.log.Metrics(), Flush: s.flusher.Metrics(), Segments: &s.segmentMetrics, Queues: &s.queueMetrics,
		Index: &s.indexMetrics, Scrub: &s.scrubMetrics}
}
