package engine

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"ringmq/engine/consumequeue"
	"ringmq/engine/dispatch"
	"ringmq/engine/flush"
	"ringmq/engine/message"
	"ringmq/engine/retention"
	"ringmq/engine/scrub"
	"ringmq/engine/segment"
)

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
	gib = int64(1) << 30

	// recordOverhead is what a record may need beyond its body: fixed fields, topic, properties.
	recordOverhead = 128 * kib

	maxSegmentSize = gib // an end record and a record's size field are 31 bits; what the original can map, too
	minSegmentSize = 4 * kib
	entrySize      = 20
	maxIndexSize   = 1<<31 - 1 - 40 // what the original can map, without the header

	// maxPutWaitMS is an hour.
	maxPutWaitMS = 3_600_000

	// zeroRate bounds, in bytes a second, what zeroing the next segment takes from the device while messages are flushed to it.
	zeroRate = 256 * mib
)

// Options of a store. Zero values mean the defaults of RocketMQ; the key it stands for in a configuration file is named beside each.
type Options struct {
	Dir            string // storePathRootDir; needed
	LogDir         string // storePathCommitLog; default Dir/commitlog
	SegmentSize    int64  // mappedFileSizeCommitLog 1 GiB
	QueueFileSize  int64  // mappedFileSizeConsumeQueue 6,000,000
	MaxMessageSize int    // maxMessageSize 4 MiB: body bytes of a message
	SyncFlush      bool   // flushDiskType=SYNC_FLUSH
	MappedAppend   bool   // ringmq.appendPath=mmap
	PoolSize       int64  // ringmq.poolSize 32 MiB
	UnlockedPool   bool   // do not lock the pool's memory
	ZeroAhead      bool   // ringmq.zeroSegments

	// With ASYNC_FLUSH: a put is answered when it is in the pool, which has TransientBuffers times SegmentSize, whatever PoolSize says. The
	// committer follows the commit settings; what it has not written yet, a kill loses.
	TransientPool    bool // transientStorePoolEnable
	TransientBuffers int  // transientStorePoolSize 5

	Ring         bool   // ringmq.uring=auto
	AllowPending bool   // ringmq.allowPending
	DelayLevels  string // messageDelayLevel: tags codes of the schedule topic

	NoIndex      bool  // messageIndexEnable=false: messages are not found by key
	IndexSlots   int64 // maxHashSlotNum 5,000,000
	IndexEntries int64 // maxIndexNum 20,000,000

	DiskWarningRatio float64 // diskSpaceWarningLevelRatio 0.90: above it the store refuses messages
	PutWaitMS        int64   // waitTimeMillsInSendQueue 1000: a put that waits longer for room in the log is refused
	MaxOpenQueues    int     // ringmq.openQueueFiles 1024: descriptors kept open

	Flush      func() flush.Settings     // read before each round; nil: defaults
	QueueFlush func() QueueFlushSettings // read before each round; nil: defaults
	Retention  func() RetentionSettings  // read before each round; nil: defaults
	Scrub      func() ScrubSettings      // read before each block; nil: defaults
	Now        func() int64              // ms since 1970; nil: the clock of the machine

	Released   func()     // called after each batch of Done calls of the flush service, not after single ones by others; may be nil
	Arrivals   Arrivals   // may be nil
	Replicator Replicator // may be nil: no replicas
	Logger     *slog.Logger

	// Storage replaces the directory of the log, for tests with faults. Nil: files below LogDir.
	Storage func(dir string) (segment.Storage, error)
	// Syncer replaces the way files of the log become durable. Nil: the ring, or plain fdatasync.
	Syncer flush.Syncer
	// DerivedSyncer replaces the way files of queues and index become durable. Nil: the ring, or plain fdatasync.
	DerivedSyncer DerivedSyncer
	// DiskUsage tells how full the file system of dir is, 0 to 1. Nil: statfs, as df counts.
	DiskUsage func(dir string) (float64, error)
	// Memory tells how many bytes of memory the process may have. Nil: what the machine and its cgroup say.
	Memory func() int64
}

// QueueFlushSettings have the original's names and meaning.
type QueueFlushSettings = dispatch.Settings

// Arrivals is told, by the dispatcher, that queue entries became readable. It must not block.
type Arrivals interface {
	Arrived(q *consumequeue.Queue, tagsCode int64, max message.QueueOffset)
}

// Replicator lets a put wait for replicas as it waits for the device. Await is called under the put lock, in the order of the log: it
// must not block or call the store. It answers by p.Replicated, exactly once, under no lock.
type Replicator interface {
	Await(end message.Offset, p *PutRequest)
}

// DerivedSyncer makes files of queues and index durable; *uring.Queue satisfies it. Every file is synced, also when another one fails; the
// error is that of the first that failed.
type DerivedSyncer interface {
	SyncFds(fds []int) error
	SyncFdsEach(fds []int, errs []error) error // tells of each how it went, unless errs is nil
}

func (o Options) withDefaults() Options {
	setDefault(&o.LogDir, filepath.Join(o.Dir, "commitlog"))
	setDefault(&o.SegmentSize, gib)
	setDefault(&o.QueueFileSize, 6_000_000)
	o.QueueFileSize = consumequeue.RoundFileSize(o.QueueFileSize) // whole entries, as in the original
	setDefault(&o.MaxMessageSize, int(4*mib))
	setDefault(&o.PoolSize, 32*mib)
	if o.TransientPool {
		setDefault(&o.TransientBuffers, 5)
		o.PoolSize = int64(o.TransientBuffers) * o.SegmentSize
	}
	setDefault(&o.DelayLevels, dispatch.DefaultDelays)
	setDefault(&o.IndexSlots, 5_000_000)
	setDefault(&o.IndexEntries, 20_000_000)
	setDefault(&o.DiskWarningRatio, 0.90)
	setDefault(&o.PutWaitMS, 1000)
	setDefault(&o.MaxOpenQueues, 1024)
	if o.Flush == nil {
		o.Flush = defaultFlush
	}
	if o.QueueFlush == nil {
		o.QueueFlush = defaultQueueFlush
	}
	if o.Retention == nil {
		o.Retention = retention.Defaults
	}
	if o.Scrub == nil {
		o.Scrub = scrub.Defaults
	}
	if o.Now == nil {
		o.Now = func() int64 { return time.Now().UnixMilli() }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.DiskUsage == nil {
		o.DiskUsage = diskUsage
	}
	if o.Memory == nil {
		o.Memory = machineMemory
	}
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func defaultFlush() flush.Settings {
	return flush.Settings{
		FlushIntervalMS: 500, FlushLeastPages: 4, FlushThoroughIntervalMS: 10_000, FlushTimed: true, SyncFlushTimeoutMS: 5000,
		CommitIntervalMS: 200, CommitLeastPages: 4, CommitThoroughIntervalMS: 200,
	}
}

func defaultQueueFlush() QueueFlushSettings {
	return QueueFlushSettings{IntervalMS: 1000, ThoroughIntervalMS: 60_000, LeastPages: 2}
}

// Validate tells the first setting that cannot work: its key, its value and what is allowed. It looks at the options as Open would use
// them, with the defaults filled in.
func (o Options) Validate() error {
	queueFileSize := o.QueueFileSize // before it is rounded
	if o = o.withDefaults(); queueFileSize == 0 {
		queueFileSize = o.QueueFileSize
	}
	within := func(key string, value, low, high int64) error {
		if value < low || value > high {
			return fmt.Errorf("engine: %s is %d, allowed are %d to %d", key, value, low, high)
		}
		return nil
	}
	if o.Dir == "" {
		return fmt.Errorf("engine: storePathRootDir is empty, must name a folder")
	}
	if o.DiskWarningRatio <= 0 || o.DiskWarningRatio > 1 {
		return fmt.Errorf("engine: diskSpaceWarningLevelRatio is %g, allowed is above 0 and up to 1", o.DiskWarningRatio)
	}
	if _, err := dispatch.ParseDelays(o.DelayLevels); err != nil {
		return fmt.Errorf("engine: messageDelayLevel: %w", err)
	}
	settings, scrubbing := o.Retention(), o.Scrub()
	checks := []error{
		settings.Validate(),
		scrubbing.Validate(),
		within("mappedFileSizeCommitLog", o.SegmentSize, minSegmentSize, maxSegmentSize),
		within("mappedFileSizeConsumeQueue", queueFileSize, entrySize, gib),
		within("maxMessageSize", int64(o.MaxMessageSize), 1, maxSegmentSize-recordOverhead),
		within("waitTimeMillsInSendQueue", o.PutWaitMS, 1, maxPutWaitMS),
		within("maxHashSlotNum", o.IndexSlots, 1, maxIndexSize/4),
		within("maxIndexNum", o.IndexEntries, 2, (maxIndexSize-4*o.IndexSlots)/20),
		o.checkPool(),
	}
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	return nil
}
