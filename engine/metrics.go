package engine

import (
	"sync/atomic"

	"ringmq/engine/consumequeue"
	"ringmq/engine/flush"
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

// QueueMetrics are the counters of the consume queues.
func (s *Store) QueueMetrics() *consumequeue.Metrics { return &s.queueMetrics }

// Metrics are the store's own counters; read only.
func (s *Store) Metrics() *Metrics { return &s.metrics }

// FlushMetrics are the counters of the flush service.
func (s *Store) FlushMetrics() *flush.Metrics { return s.flusher.Metrics() }
