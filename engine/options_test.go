package engine_test

import (
	"strings"
	"testing"

	"ringmq/engine"
)

func TestValidate(t *testing.T) {
	f := func(alter func(o *engine.Options), says ...string) {
		t.Helper()
		o := engine.Options{Dir: "store"}
		alter(&o)
		err := o.Validate()
		if len(says) == 0 {
			if err != nil {
				t.Errorf("%v", err)
			}
			return
		}
		for _, part := range says {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("error %v, want one with %q", err, part)
			}
		}
	}
	f(func(*engine.Options) {})
	f(func(o *engine.Options) { o.SegmentSize, o.QueueFileSize = 131072, 1000 })
	f(func(o *engine.Options) { o.QueueFileSize = 1003 }) // rounded up
	f(func(o *engine.Options) { o.QueueFileSize = 7 }, "mappedFileSizeConsumeQueue is 7")
	f(func(o *engine.Options) { o.DiskWarningRatio = 1 })
	f(func(o *engine.Options) { o.DelayLevels = "1s 2d" })
	f(func(o *engine.Options) { o.Dir = "" }, "storePathRootDir")
	f(func(o *engine.Options) { o.SegmentSize = 100 }, "mappedFileSizeCommitLog is 100", "4096 to 1073741824")
	f(func(o *engine.Options) { o.SegmentSize = 2 << 30 }, "mappedFileSizeCommitLog is 2147483648")
	f(func(o *engine.Options) { o.SegmentSize = -1 }, "mappedFileSizeCommitLog is -1")
	f(func(o *engine.Options) { o.QueueFileSize = -20 }, "mappedFileSizeConsumeQueue is -20")
	f(func(o *engine.Options) { o.MaxMessageSize = -1 }, "maxMessageSize is -1")
	f(func(o *engine.Options) { o.MaxMessageSize = 1 << 30 }, "maxMessageSize is 1073741824")
	f(func(o *engine.Options) { o.PoolSize = 1 }, "ringmq.poolSize is 1", "allowed are")
	f(func(o *engine.Options) { o.DiskWarningRatio = 1.5 }, "diskSpaceWarningLevelRatio is 1.5")
	f(func(o *engine.Options) { o.DelayLevels = "1s 7" }, "messageDelayLevel", `"7"`)
	if _, err := engine.Open(engine.Options{}); err == nil {
		t.Error("a store without a folder was opened")
	}
}

// Where few files may be open, queue files leave room for segments and connections.
func TestOpenQueuesWithin(t *testing.T) {
	for descriptors, want := range map[uint64]int{0: 1, 3: 1, 64: 16, 1024: 256, 1 << 20: 1 << 18, 1<<64 - 1: 1 << 30} {
		if got := engine.OpenQueuesWithin(descriptors); got != want {
			t.Errorf("%d descriptors: %d queue files, want %d", descriptors, got, want)
		}
	}
}
