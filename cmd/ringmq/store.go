package main

import (
	"log/slog"

	"ringmq/engine"
	"ringmq/engine/flush"
	"ringmq/internal/config"
)

// storeOptions are the settings that the store acts on; t are those that change.
func storeOptions(v *config.Values, t *tuning, logger *slog.Logger) engine.Options {
	limits := t.set.Load().limits
	return engine.Options{
		Dir:              v.Text("storePathRootDir"),
		LogDir:           v.Text("storePathCommitLog"),
		SegmentSize:      v.Int("mappedFileSizeCommitLog"),
		QueueFileSize:    v.Int("mappedFileSizeConsumeQueue"),
		NoIndex:          !v.Bool("messageIndexEnable"),
		IndexSlots:       v.Int("maxHashSlotNum"),
		IndexEntries:     v.Int("maxIndexNum"),
		MaxMessageSize:   limits.MaxMessageSize,
		SyncFlush:        v.Text("flushDiskType") == "SYNC_FLUSH",
		MappedAppend:     v.Text("ringmq.appendPath") == "mmap",
		PoolSize:         v.Int("ringmq.poolSize"),
		TransientPool:    v.Bool("transientStorePoolEnable"),
		TransientBuffers: int(v.Int("transientStorePoolSize")),
		ZeroAhead:        v.Bool("ringmq.zeroSegments"),
		Ring:             v.Text("ringmq.uring") == "auto",
		AllowPending:     v.Bool("ringmq.allowPending"),
		DelayLevels:      v.Text("messageDelayLevel"),
		MaxOpenQueues:    int(v.Int("ringmq.openQueueFiles")),
		DiskWarningRatio: limits.DiskWarningRatio,
		PutWaitMS:        limits.PutWaitMS,
		Flush:            func() flush.Settings { return t.set.Load().flush },
		QueueFlush:       func() engine.QueueFlushSettings { return t.set.Load().queueFlush },
		Retention:        func() engine.RetentionSettings { return t.set.Load().retention },
		Scrub:            func() engine.ScrubSettings { return t.set.Load().scrub },
		Logger:           logger.With("part", "store"),
	}
}
