package segment_test

import (
	"testing"

	"ringmq/engine/segment"
)

func TestZeroViewRelease(t *testing.T) {
	t.Parallel()
	var v segment.View
	v.Release()
	v.Release()
}

func TestViewMayBeCutShorter(t *testing.T) {
	t.Parallel()
	spy := &closeSpy{Storage: storeOf(fileSize, 0)}
	set := openSet(t, spy, fileSize)
	v, _ := set.View(0, 100)
	v.Bytes = v.Bytes[10:20]
	moved := v
	if err := set.Close(); err != nil || spy.open.Load() != 1 {
		t.Errorf("Close: %v, %d files open, want the one in view", err, spy.open.Load())
	}
	moved.Release()
	if spy.open.Load() != 0 || moved.Bytes != nil {
		t.Errorf("%d files open after Release", spy.open.Load())
	}
}
