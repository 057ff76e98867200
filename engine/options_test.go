package engine_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

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
	transient := func(alter func(o *engine.Options)) func(o *engine.Options) {
		return func(o *engine.Options) {
			o.TransientPool, o.Memory = true, func() int64 { return 8 << 30 }
			alter(o)
		}
	}
	f(transient(func(o *engine.Options) {}))
	f(transient(func(o *engine.Options) { o.TransientBuffers, o.PoolSize = 6, 1 })) // three quarters; the other size is not asked for
	f(transient(func(o *engine.Options) { o.TransientBuffers = 7 }), "transientStorePoolSize is 7", "allowed are 1 to 6", "8589934592")
	f(transient(func(o *engine.Options) { o.TransientBuffers = -1 }), "transientStorePoolSize is -1")
	f(transient(func(o *engine.Options) { o.TransientBuffers = math.MaxInt64 / 1000 }), "transientStorePoolSize is 9223372036854775")
	f(transient(func(o *engine.Options) { o.SegmentSize, o.TransientBuffers = 4096, 15 }), "transientStorePoolSize is 15", "allowed are 16 to")
	f(transient(func(o *engine.Options) { o.SyncFlush = true }), "transientStorePoolEnable", "ASYNC_FLUSH")
	f(transient(func(o *engine.Options) { o.MappedAppend = true }), "transientStorePoolEnable", "ringmq.appendPath=pool")
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

// A repair of many queues gets by with few descriptors, as a start does. Not in parallel: the limit is that of the process.
func TestRepairWithFewDescriptors(t *testing.T) {
	o := small(t.TempDir())
	const queues = 300
	s := open(t, o)
	for i := range queues {
		put(t, s, int32(i), "x")
	}
	closeStore(t, s)
	mustBe(t, os.RemoveAll(filepath.Join(o.Dir, "consumequeue")), nil)
	withDescriptors(t, 150, func() {
		if r, err := engine.Repair(o, func() (engine.Repairs, bool, error) { return engine.Repairs{}, true, nil }); err != nil || r.Records != queues {
			t.Errorf("%d records, %v", r.Records, err)
		}
	})
	audit(t, open(t, o))
}

// withDescriptors lets the process have so many open files while fn runs.
func withDescriptors(t *testing.T, most uint64, fn func()) {
	t.Helper()
	var limit unix.Rlimit
	mustBe(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit), nil)
	low := limit
	low.Cur = most
	mustBe(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low), nil)
	defer func() { mustBe(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit), nil) }()
	fn()
}
