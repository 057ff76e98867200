package segment

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestPoolAppenderWaitsForACopyUnderWay stops a reader in the middle of its copy and lets the appender run into it.
func TestPoolAppenderWaitsForACopyUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var metrics Metrics
		p, err := NewPool(PoolOptions{Size: 16384, Metrics: &metrics})
		if err != nil {
			t.Fatal(err)
		}
		p.Zero(0, 16384)
		place, ok := p.pin(100)
		if !ok {
			t.Fatal("no pin on bytes that are not freed")
		}
		other, ok := p.pin(50)
		p.unpin(other) // a reader that is further back has gone
		if !ok {
			t.Fatal("no second pin")
		}
		p.Free(16384)
		p.Put(16384, make([]byte, 100)) // up to the pin: nobody waits
		if metrics.PoolReaderWaits.Load() != 0 {
			t.Error("the appender waited without need")
		}
		done := false
		go func() {
			p.Put(16484, make([]byte, 1))
			done = true
		}()
		synctest.Wait()
		if done || metrics.PoolReaderWaits.Load() != 1 {
			t.Errorf("done %v, waits %d: the appender overwrote what is being copied", done, metrics.PoolReaderWaits.Load())
		}
		if _, ok := p.pin(100); ok {
			t.Error("a reader came between the appender and what it waits for")
		}
		p.unpin(place)
		synctest.Wait()
		if !done {
			t.Error("the appender still waits")
		}
		closed := false
		place, _ = p.pin(10000)
		go func() {
			p.Close()
			closed = true
		}()
		synctest.Wait()
		if closed {
			t.Error("closed under a reader")
		}
		p.unpin(place)
		synctest.Wait()
		if !closed {
			t.Error("Close still waits")
		}
	})
}

// TestPoolDoomedReadersDoNotDisturb has readers ask for what is long gone; the appender must not even notice.
func TestPoolDoomedReadersDoNotDisturb(t *testing.T) {
	t.Parallel()
	var metrics Metrics
	p, err := NewPool(PoolOptions{Size: 16384, Metrics: &metrics})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var stop atomic.Bool
	var reader sync.WaitGroup
	reader.Go(func() {
		for !stop.Load() {
			v, _ := p.View(0, 100) // found in the first lap only
			v.Release()
		}
	})
	p.Put(0, make([]byte, 100))
	for at := int64(100); at < 16384*100; at += 64 {
		p.Free(at)
		p.Zero(at, 64)
	}
	stop.Store(true)
	reader.Wait()
	if got := metrics.PoolReaderWaits.Load(); got > 1 {
		t.Errorf("the appender waited %d times", got)
	}
}

func TestPoolPutAndViewAllocateNothing(t *testing.T) {
	if checksEnabled {
		t.Skip("the checks of the tag invariants allocate")
	}
	p, err := NewPool(PoolOptions{Size: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	record, at := make([]byte, 1024), int64(0)
	var pieces [2][]byte
	put := func() {
		p.Put(at, record)
		p.Pieces(at, at+1024, pieces[:0])
		at += 1024
		p.Free(at)
	}
	if got := testing.AllocsPerRun(5000, put); got != 0 {
		t.Errorf("Put, Pieces and Free allocate %v times", got)
	}
	if raceEnabled {
		return // sync.Pool drops things at random then
	}
	if got := testing.AllocsPerRun(1000, func() {
		v, ok := p.View(at-1024, 1024)
		if !ok {
			t.Fatal("not found")
		}
		v.Release()
	}); got != 0 {
		t.Errorf("View and Release allocate %v times", got)
	}
}

func TestBuffersKeepSizes(t *testing.T) {
	t.Parallel()
	var l buffers
	f := func(n, want int, kept bool) {
		t.Helper()
		b := l.get(n)
		if len(b.bytes) != want || (b.home != nil) != kept {
			t.Errorf("get(%d): %d bytes, kept %v, want %d, %v", n, len(b.bytes), b.home != nil, want, kept)
		}
		b.free()
	}
	for range 2 {
		f(1, 4096, true)
		f(4096, 4096, true)
		f(4097, 8192, true)
		f(16<<20, 16<<20, true)
		f(16<<20+1, 16<<20+1, false)
	}
}
