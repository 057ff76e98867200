package main

import (
	"sync/atomic"

	"ringmq/broker"
	"ringmq/broker/api"
	"ringmq/broker/topic"
	"ringmq/engine"
	"ringmq/engine/flush"
	"ringmq/internal/config"
)

// tuning is the settings that change while the broker runs, as its parts want them. They read them without a lock, and always see a whole set.
type tuning struct{ set atomic.Pointer[tuned] }

type tuned struct {
	flush      flush.Settings
	queueFlush engine.QueueFlushSettings
	retention  engine.RetentionSettings
	scrub      engine.ScrubSettings
	limits     engine.Limits
	policy     broker.Policy
}

func newTuning(v *config.Values) *tuning {
	t := new(tuning)
	t.use(v)
	return t
}

// use has the parts see the values of v, at their next look.
func (t *tuning) use(v *config.Values) *tuned {
	set := &tuned{flushSettings(v), queueFlushSettings(v), retentionSettings(v), scrubSettings(v), limits(v), policy(v)}
	t.set.Store(set)
	return set
}

func flushSettings(v *config.Values) flush.Settings {
	return flush.Settings{
		FlushIntervalMS:         v.Int("flushIntervalCommitLog"),
		FlushLeastPages:         int(v.Int("flushCommitLogLeastPages")),
		FlushThoroughIntervalMS: v.Int("flushCommitLogThoroughInterval"),
		FlushTimed:              v.Bool("flushCommitLogTimed"),
		GroupCommitIntervalMS:   v.Int("ringmq.groupCommitInterval"),
		SyncFlushTimeoutMS:      v.Int("syncFlushTimeout"),

		CommitIntervalMS:         v.Int("commitIntervalCommitLog"),
		CommitLeastPages:         int(v.Int("commitCommitLogLeastPages")),
		CommitThoroughIntervalMS: v.Int("commitCommitLogThoroughInterval"),
		FailFast:                 v.Bool("fastFailIfNoBufferInStorePool"),
	}
}

func queueFlushSettings(v *config.Values) engine.QueueFlushSettings {
	return engine.QueueFlushSettings{
		IntervalMS:         v.Int("flushIntervalConsumeQueue"),
		ThoroughIntervalMS: v.Int("flushConsumeQueueThoroughInterval"),
		LeastPages:         int(v.Int("flushConsumeQueueLeastPages")),
	}
}

func retentionSettings(v *config.Values) engine.RetentionSettings {
	return engine.RetentionSettings{
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
}

func scrubSettings(v *config.Values) engine.ScrubSettings {
	return engine.ScrubSettings{BytesPerSecond: v.Int("ringmq.scrubRate"), IntervalMS: v.Int("ringmq.scrubInterval") * 3_600_000}
}

func limits(v *config.Values) engine.Limits {
	return engine.Limits{
		MaxMessageSize:   int(v.Int("maxMessageSize")),
		DiskWarningRatio: float64(v.Int("diskSpaceWarningLevelRatio")) / 100,
		PutWaitMS:        v.Int("waitTimeMillsInSendQueue"),
	}
}

func policy(v *config.Values) broker.Policy {
	return broker.Policy{
		Policy: api.Policy{
			Withheld:         (topic.PermRead | topic.PermWrite) &^ int32(v.Int("brokerPermission")),
			NoTrace:          !v.Bool("traceOn"),
			MaxTransferCount: int(v.Int("maxTransferCountOnMessageInMemory")),
			MaxTransferBytes: int(v.Int("maxTransferBytesOnMessageInMemory")),
			NoLongPolling:    !v.Bool("longPollingEnable"),
			ShortPollingMS:   v.Int("shortPollingTimeMills"),
			NoLitePull:       !v.Bool("litePullMessageEnable"),
		},
		NoAutoCreateTopic: !v.Bool("autoCreateTopicEnable"),
		NoAutoCreateGroup: !v.Bool("autoCreateSubscriptionGroup"),
		NoNotify:          !v.Bool("notifyConsumerIdsChangedEnable"),
	}
}
