package main

import (
	"log/slog"

	"ringmq/engine"
	"ringmq/engine/flush"
	"ringmq/internal/config"
)

// storeOptions are the settings that the store acts on.
func storeOptions(v *config.Values, logger *slog.Logger) engine.Options {
	flushes := flush.Settings{
		FlushIntervalMS:         v.Int("flushIntervalCommitLog"),
		FlushLeastPages:         int(v.Int("flushCommitLogLeastPages")),
		FlushThoroughIntervalMS: v.Int("flushCommitLogThoroughInterval"),
		FlushTimed:              v.Bool("flushCommitLogTimed"),
		GroupCommitIntervalMS:   v.Int("ringmq.groupCommitInterval"),
		SyncFlushTimeoutMS:      v.Int("syncFlushTimeout"),
	}
	queueFlushes := engine.QueueFlushSettings{
		IntervalMS:         v.Int("flushIntervalConsumeQueue"),
		ThoroughIntervalMS: v.Int("flushConsumeQueueThoroughInterval"),
		LeastPages:         int(v.Int("flushConsumeQueueLeastPages")),
	}
	retention := engine.RetentionSettings{
		ReservedMS:     v.Int("fileReservedTime") * 3_600_000,
		DeleteWhen:     v.Text("deleteWhen"),
		IntervalMS:     v.Int("cleanResourceInterval"),
		PauseMS:        v.Int("deleteCommitLogFilesInterval"),
		QueuePauseMS:   v.Int("deleteConsumeQueueFilesInterval"),
		BatchMax:       int(v.Int("deleteFileBatchMax")),
		MaxUsed:        float64(v.Int("diskMaxUsedSpaceRatio")) / 100,
		CleanForcibly:  float64(v.Int("diskSpaceCleanForciblyRatio")) / 100,
		ForciblyEnable: v.Bool("cleanFileForciblyEnable"),
	}
	return engine.Options{
		Dir:              v.Text("storePathRootDir"),
		LogDir:           v.Text("storePathCommitLog"),
		SegmentSize:      v.Int("mappedFileSizeCommitLog"),
		QueueFileSize:    v.Int("mappedFileSizeConsumeQueue"),
		NoIndex:          !v.Bool("messageIndexEnable"),
		IndexSlots:       v.Int("maxHashSlotNum"),
		IndexEntries:     v.Int("maxIndexNum"),
		MaxMessageSize:   int(v.Int("maxMessageSize")),
		SyncFlush:        v.Text("flushDiskType") == "SYNC_FLUSH",
		MappedAppend:     v.Text("ringmq.appendPath") == "mmap",
		PoolSize:         v.Int("ringmq.poolSize"),
		ZeroAhead:        v.Bool("ringmq.zeroSegments"),
		Ring:             v.Text("ringmq.uring") == "auto",
		AllowPending:     v.Bool("ringmq.allowPending"),
		DelayLevels:      v.Text("messageDelayLevel"),
		MaxOpenQueues:    int(v.Int("ringmq.openQueueFiles")),
		DiskWarningRatio: float64(v.Int("diskSpaceWarningLevelRatio")) / 100,
		Flush:            func() flush.Settings { return flushes },
		QueueFlush:       func() engine.QueueFlushSettings { return queueFlushes },
		Retention:        func() engine.RetentionSettings { return retention },
		Logger:           logger.With("part", "store"),
	}
}
