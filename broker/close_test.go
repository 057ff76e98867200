package broker

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ringmq/engine/flush"
	"ringmq/engine/segment"
	"ringmq/net/remoting"
)

// look is a Syncer that looks at something at each sync.
type look func()

func (l look) Sync(files []*segment.File) error {
	l()
	return flush.Plain{}.Sync(files)
}

// A store that takes long to close, longer than its broker was given to say goodbye, is closed all the same, and without an error.
func TestCloseTakesItsTime(t *testing.T) {
	t.Parallel()
	b := start(t, options(t.TempDir()))
	p := dial(t, b.Addrs()[0])
	p.send(t, "T", "m")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := b.Close(ctx); err != nil {
		t.Error(err)
	}
}

// When the store flushes for the last time, which is before it gives its lock back, the tables are on the disk.
func TestSettingsAreSavedUnderTheLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var stopping, looked atomic.Bool
	o := options(dir)
	o.SaveOffsetsEvery = time.Hour
	o.Engine.Flush = func() flush.Settings {
		return flush.Settings{FlushIntervalMS: 3_600_000, FlushThoroughIntervalMS: 3_600_000, FlushTimed: true}
	}
	o.Engine.Syncer = look(func() {
		if !stopping.Load() {
			return
		}
		looked.Store(true)
		text, err := os.ReadFile(filepath.Join(dir, "config", "consumerOffset.json"))
		if err != nil || !strings.Contains(string(text), "T@G") {
			t.Errorf("offsets when the store flushes for the last time: %q, %v", text, err)
		}
	})
	b := start(t, o)
	p := dial(t, b.Addrs()[0])
	p.send(t, "T", "m")
	commit := []string{"consumerGroup", "G", "topic", "T", "queueId", "0", "commitOffset", "1"}
	if a := p.ask(t, remoting.UpdateConsumerOffset, nil, commit...); a.Code != 0 {
		t.Fatalf("commit: %d %q", a.Code, a.Remark)
	}
	stopping.Store(true)
	stop(t, b)
	if !looked.Load() {
		t.Error("the store did not flush at its end")
	}
}
