package sim

import (
	"ringmq/engine"
	"ringmq/engine/dispatch"
	"ringmq/engine/flush"
	"ringmq/engine/retention"
)

// Shape is a set of options under which the same runs are made. What is not named is as in base.
type Shape struct {
	Name     string
	Ring     bool // syncs of queues and index really go through io_uring
	Few      bool // so few queue files are open that one is synced under the lock of its queue: it must not hang there
	OneByOne bool // messages are never put without waiting: how much is flushed would be luck
	Change   func(o *engine.Options)
}

// Shapes are all there are. A new mode of the store gets its line here.
func Shapes() []Shape {
	return []Shape{
		{Name: "sync", Change: func(o *engine.Options) { o.SyncFlush = true }},
		{Name: "async", Change: func(*engine.Options) {}},
		{Name: "sync mapped", Change: func(o *engine.Options) { o.SyncFlush, o.MappedAppend = true, true }},
		{Name: "async mapped", Change: func(o *engine.Options) { o.MappedAppend = true }},
		{Name: "sync, segments of two pages", Change: func(o *engine.Options) { o.SyncFlush, o.SegmentSize = true, 8<<10 }},
		{Name: "async, segments of two pages", Change: func(o *engine.Options) { o.SegmentSize = 8 << 10 }},
		{Name: "async mapped, segments of two pages", Change: func(o *engine.Options) { o.MappedAppend, o.SegmentSize = true, 8<<10 }},
		{Name: "async, segments of odd size", Change: func(o *engine.Options) { o.SegmentSize = 12_345 }},
		{Name: "sync mapped, segments of odd size", Change: func(o *engine.Options) { o.SyncFlush, o.MappedAppend, o.SegmentSize = true, true, 20_001 }},
		{Name: "sync, segments larger than the pool", Change: func(o *engine.Options) { o.SyncFlush, o.SegmentSize = true, 128<<10 }},
		{Name: "async, flushed when written", OneByOne: true, Change: func(o *engine.Options) {
			o.Flush = func() flush.Settings { s := baseFlush(); s.FlushTimed, s.FlushLeastPages = false, 2; return s }
		}},
		{Name: "sync, groups wait", Change: func(o *engine.Options) {
			o.SyncFlush = true
			o.Flush = func() flush.Settings { s := baseFlush(); s.GroupCommitIntervalMS = 3; return s }
		}},
		{Name: "sync, no index", Change: func(o *engine.Options) { o.SyncFlush, o.NoIndex = true, true }},
		{Name: "async, small queue files, few open", Few: true, Change: func(o *engine.Options) { o.QueueFileSize, o.MaxOpenQueues = 200, 2 }},
		{Name: "sync, queues flushed at each entry", Change: func(o *engine.Options) {
			o.SyncFlush, o.QueueFileSize = true, 400
			o.QueueFlush = func() engine.QueueFlushSettings { return dispatch.Settings{IntervalMS: 47, ThoroughIntervalMS: 1009} }
		}},
		{Name: "async, transient pool", Change: transientPool(2, 4)},
		{Name: "async, transient pool of one segment, written now and then", OneByOne: true, Change: transientPool(1, 1000)},
		{Name: "async, ring", Ring: true, Change: func(o *engine.Options) { o.Ring = true }},
		{Name: "sync, ring, large key files", Ring: true, Change: func(o *engine.Options) {
			o.SyncFlush, o.Ring, o.IndexSlots, o.IndexEntries = true, true, 500, 2000
		}},
	}
}

// transientPool is a pool of so many segments, written out when so many pages are in it, or by the clock.
func transientPool(buffers, leastPages int) func(o *engine.Options) {
	return func(o *engine.Options) {
		o.TransientPool, o.TransientBuffers = true, buffers
		o.SegmentSize = 64 << 10 // as large as a pool has to be
		o.Flush = func() flush.Settings {
			s := baseFlush()
			s.CommitIntervalMS, s.CommitLeastPages, s.CommitThoroughIntervalMS = 193, leastPages, 397
			return s
		}
	}
}

const segmentSize = 32 << 10

// base is a small store. No two of its intervals have a common divisor, so that its clocks hardly ever strike at once.
func base() engine.Options {
	return engine.Options{
		SegmentSize: segmentSize, PoolSize: 64 << 10, UnlockedPool: true, QueueFileSize: 2000, IndexSlots: 20, IndexEntries: 60,
		Flush: baseFlush, Retention: baseRetention,
		QueueFlush: func() engine.QueueFlushSettings {
			return dispatch.Settings{IntervalMS: 211, ThoroughIntervalMS: 4001, LeastPages: 1}
		},
	}
}

func baseFlush() flush.Settings {
	return flush.Settings{
		FlushIntervalMS: 487, FlushLeastPages: 4, FlushThoroughIntervalMS: 2503, FlushTimed: true, SyncFlushTimeoutMS: syncFlushTimeoutMS,
	}
}

const (
	syncFlushTimeoutMS = 50
	reservedMS         = 20_000
)

func baseRetention() engine.RetentionSettings {
	s := retention.Defaults()
	s.ReservedMS, s.IntervalMS = reservedMS, 1<<40 // by order only, and once a minute after each start
	return s
}
