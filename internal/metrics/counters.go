package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"ringmq/engine"
	"ringmq/internal/histogram"
)

// registerCounters exposes what the store and its parts count. They are read at each scrape.
func registerCounters(registry *prometheus.Registry, c engine.Counters) {
	counter := func(name, help string, unit float64, value *atomic.Int64) {
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
			func() float64 { return float64(value.Load()) * unit }))
	}
	const seconds, micros = 1e-9, 1e-6 // of a nanosecond, of a microsecond
	counter("ringmq_puts_total", "Messages appended.", 1, &c.Store.Puts)
	counter("ringmq_put_bytes_total", "Bytes of their records.", 1, &c.Store.PutBytes)
	counter("ringmq_puts_failed_total", "Sends that were not answered as promised.", 1, &c.Store.PutsFailed)
	counter("ringmq_puts_delayed_total", "Sends that had to wait for room in the log.", 1, &c.Store.PutsDelayed)
	counter("ringmq_gets_total", "Pulls looked up.", 1, &c.Store.Gets)
	counter("ringmq_get_messages_total", "Messages found by pulls.", 1, &c.Store.GetRecords)
	counter("ringmq_get_bytes_total", "Bytes found by pulls.", 1, &c.Store.GetBytes)
	counter("ringmq_gets_cold_total", "Pulls that had to wait for the disk.", 1, &c.Store.ColdGets)
	counter("ringmq_damaged_messages_total", "Messages passed over because no whole record stood there.", 1, &c.Store.Damaged)

	counter("ringmq_flushes_total", "Flushes of the commit log that succeeded.", 1, &c.Flush.Flushes)
	counter("ringmq_flush_bytes_total", "Bytes of the log that they covered.", 1, &c.Flush.FlushedBytes)
	counter("ringmq_flush_seconds_total", "Time spent in them.", seconds, &c.Flush.FlushNS)
	counter("ringmq_commits_total", "Rounds in which the pool was written out.", 1, &c.Flush.Commits)
	counter("ringmq_commit_bytes_total", "Bytes that they wrote.", 1, &c.Flush.CommittedBytes)
	counter("ringmq_flush_timeouts_total", "Sends answered FLUSH_DISK_TIMEOUT.", 1, &c.Flush.TimedOut)

	counter("ringmq_segment_rolls_total", "Segments begun.", 1, &c.Log.Rolls)
	counter("ringmq_segments_prepared_total", "Segments made ahead.", 1, &c.Segments.Prepared)
	counter("ringmq_segments_prepare_failed_total", "Attempts to make one that failed.", 1, &c.Segments.PrepareFailed)
	counter("ringmq_segments_prepare_seconds_total", "Time spent making them.", seconds, &c.Segments.PrepareNS)
	counter("ringmq_segment_zeroed_bytes_total", "Zeros written ahead.", 1, &c.Segments.ZeroedBytes)
	counter("ringmq_segment_waits_total", "Times that somebody had to wait for a segment.", 1, &c.Segments.PrepareWaits)
	counter("ringmq_segments_removed_total", "Segments removed, by retention or when the torn end was cut.", 1, &c.Segments.Removed)
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ringmq_pool_locked_bytes", Help: "Bytes of the pool that are locked in memory.",
	}, func() float64 { return float64(c.Segments.PoolLockedBytes.Load()) }))

	counter("ringmq_queue_entries_total", "Queue entries put.", 1, &c.Queues.Entries)
	counter("ringmq_queue_flushes_total", "Flushes of queue files.", 1, &c.Queues.Flushes)
	counter("ringmq_queue_files_synced_total", "Queue files synced.", 1, &c.Queues.SyncedFiles)
	counter("ringmq_queue_files_removed_total", "Queue files removed, as their messages had gone from the log.", 1, &c.Queues.RemovedFiles)
	counter("ringmq_seals_total", "Segments of the log that got a seal.", 1, &c.Scrub.Sealed)
	counter("ringmq_seals_again_total", "Of those, because another broker had written the segment anew.", 1, &c.Scrub.Resealed)
	counter("ringmq_seal_bytes_total", "Bytes of segments hashed for seals.", 1, &c.Scrub.SealedBytes)
	counter("ringmq_seal_failures_total", "Segments that could not be sealed or compared.", 1, &c.Scrub.Failed)
	counter("ringmq_scrub_segments_total", "Segments compared with their seals.", 1, &c.Scrub.Compared)
	counter("ringmq_scrub_bytes_total", "Bytes read from the device for that.", 1, &c.Scrub.ScrubbedBytes)
	counter("ringmq_scrub_damaged_total", "Stretches of the log found damaged.", 1, &c.Scrub.Damaged)
	counter("ringmq_index_keys_total", "Keys put into the index.", 1, &c.Index.Keys)
	counter("ringmq_index_written_bytes_total", "Bytes of index entries written.", 1, &c.Index.WrittenBytes)
	counter("ringmq_index_flushes_total", "Flushes of the index.", 1, &c.Index.Flushes)
	counter("ringmq_index_failures_total", "Times the index could not be written or synced.", 1, &c.Index.Failures)
	counter("ringmq_index_lookups_total", "Lookups by key.", 1, &c.Index.Lookups)

	registry.MustRegister(
		newHistogram("ringmq_flush_duration_seconds", "How long a flush of the commit log took.", micros, &c.Flush.FlushMicros),
		newHistogram("ringmq_flush_batch_messages", "How many waiting sends one flush answered, with SYNC_FLUSH.", 1, &c.Flush.FlushWaits),
		newHistogram("ringmq_flush_size_bytes", "Bytes of the commit log that one flush covered.", 1, &c.Flush.FlushSizes),
		newHistogram("ringmq_commit_duration_seconds", "How long it took to write out the pool.", micros, &c.Flush.CommitMicros),
		newHistogram("ringmq_commit_size_bytes", "Bytes that were written out of the pool at once.", 1, &c.Flush.CommitSizes),
		newHistogram("ringmq_queue_flush_duration_seconds", "How long a flush of the queue files took.", micros, &c.Queues.FlushMicros),
		newHistogram("ringmq_queue_flush_files", "Queue files that one flush synced.", 1, &c.Queues.FlushFiles),
		newHistogram("ringmq_queue_flush_size_bytes", "Bytes of queue entries that one flush made durable.", 1, &c.Queues.FlushSizes),
		newHistogram("ringmq_index_flush_duration_seconds", "How long a flush of the index took, with that of the queues between its parts.", micros, &c.Index.FlushMicros),
		newHistogram("ringmq_index_flush_size_bytes", "Bytes of keys and slots that one flush made durable.", 1, &c.Index.FlushSizes))
}

// exposed shows a histogram.Histogram as Prometheus wants it.
type exposed struct {
	desc   *prometheus.Desc
	unit   float64
	counts *histogram.Histogram
}

func newHistogram(name, help string, unit float64, counts *histogram.Histogram) *exposed {
	return &exposed{desc: prometheus.NewDesc(name, help, nil, nil), unit: unit, counts: counts}
}

// Describe tells its name.
func (h *exposed) Describe(to chan<- *prometheus.Desc) { to <- h.desc }

// Collect reads the counts.
func (h *exposed) Collect(to chan<- prometheus.Metric) {
	buckets := make(map[float64]uint64)
	count, sum := h.counts.Counts(func(upTo, count int64) { buckets[float64(upTo)*h.unit] = uint64(count) })
	to <- prometheus.MustNewConstHistogram(h.desc, uint64(count), float64(sum)*h.unit, buckets)
}
