package segment

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestPacerKeepsTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pacer{bytesPerSecond: 1 << 20, hurry: func() bool { return false }}
		start := time.Now()
		for written := int64(0); written <= 10<<20; written += 1 << 20 {
			if !p.pause(start, written) {
				t.Fatal("told to stop")
			}
		}
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("10 MiB at 1 MiB/s took %v", took)
		}
	})
}

func TestPacerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quit := make(chan struct{})
		var hurry atomic.Bool
		p := pacer{bytesPerSecond: 1, quit: quit, hurry: hurry.Load}
		start := time.Now()
		stop := func(do func()) {
			t.Helper()
			go func() {
				time.Sleep(time.Minute)
				do()
			}()
			if p.pause(start, 1<<40) {
				t.Error("not told to stop")
			}
		}
		stop(func() { hurry.Store(true) })
		hurry.Store(false)
		stop(func() { close(quit) })
		if took := time.Since(start); took > 2*time.Minute+time.Second {
			t.Errorf("stopping took %v", took)
		}
		if p.pause(start, 0) {
			t.Error("not told to stop when nothing is due")
		}
	})
}
