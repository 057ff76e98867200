package flush

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ringmq/engine/commitlog"
	"ringmq/engine/message"
	"ringmq/engine/segment"
	"ringmq/engine/segment/memstore"
)

// TestEveryWaitOnce: 64 producers over many rolls, with a device that dies in half of the runs and waits that run out of
// time. Each is answered exactly once, and nil only for what is durable.
func TestEveryWaitOnce(t *testing.T) {
	t.Parallel()
	for run := range 6 {
		t.Run(fmt.Sprintf("sync=%v/dies=%v", run%2 == 0, run%3 != 0), func(t *testing.T) {
			t.Parallel()
			everyWaitOnce(t, run%2 == 0, run%3 != 0, uint64(run))
		})
	}
}

func everyWaitOnce(t *testing.T, syncFlush, dies bool, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	r := newRig(t, syncFlush, func(r *rig) {
		r.settings.FlushIntervalMS, r.settings.FlushLeastPages = 1, 0
		op := memstore.OpSync
		if rng.IntN(2) == 0 {
			op = memstore.OpWrite
		}
		if dies {
			r.storage.Inject(&memstore.Fault{Op: op, Nth: 5 + rng.IntN(40), Err: syscall.EIO})
		}
	})
	const producers, each = 64, 60
	var refused atomic.Int64
	var wg sync.WaitGroup
	waits := make([][]*waiter, producers)
	for p := range producers {
		wg.Go(func() {
			var next message.QueueOffset
			rec := append([]byte(nil), r.record...)
			for i := range each {
				queue := &r.service.Flushed
				if (i+p)%3 == 0 {
					queue = &r.service.Committed
				}
				w := waitFor(0, nowMS()+int64((i+p)%5)*1000-500, nil) // some are overdue at once
				if err := appendWaiting(r, rec, &next, placed{w, queue}); err != nil {
					if !errors.Is(err, commitlog.ErrLatched) {
						t.Error(err)
					}
					refused.Add(1)
					return
				}
				waits[p] = append(waits[p], w)
				r.service.Wake()
			}
		})
	}
	wg.Wait()
	err := r.service.Close()
	if (err != nil) != (refused.Load() > 0) && err == nil {
		t.Errorf("close: %v, but %d producers were refused", err, refused.Load())
	}
	for _, list := range waits {
		for _, w := range list {
			for w.times.Load() == 0 {
				time.Sleep(time.Millisecond) // a late one is answered by a goroutine of its own
			}
			got := w.got()
			if w.times.Load() != 1 || got != nil && got != ErrTimeout && !errors.Is(got, ErrLatched) {
				t.Fatalf("wait for %d: answered %d times, %v", w.End, w.times.Load(), got)
			}
			if got == nil && w.End > r.log.Committed() {
				t.Errorf("wait for %d answered, but committed are %d", w.End, r.log.Committed())
			}
		}
	}
	if err := r.log.Close(); err != nil {
		t.Error(err)
	}
}

func appendWaiting(r *rig, rec []byte, next *message.QueueOffset, p commitlog.Placer) error {
	for {
		_, err := r.log.Append(rec, next, p)
		if !errors.Is(err, commitlog.ErrBusy) {
			return err
		}
		r.service.Wake()
		if err := r.log.Room(len(rec)); err != nil {
			return err
		}
	}
}

// BenchmarkSyncFlush is SYNC_FLUSH in a closed loop on a real directory: each producer appends 1 KiB and waits for the device.
// The segments are filled with zeros beforehand, as all but the very first are in a store that has run for a while.
func BenchmarkSyncFlush(b *testing.B) {
	for _, producers := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("size=1KiB/producers=%d", producers), func(b *testing.B) { benchmarkSyncFlush(b, producers) })
	}
}

func benchmarkSyncFlush(b *testing.B, producers int) {
	storage, err := segment.NewDir(b.TempDir(), segment.DirOptions{})
	if err != nil {
		b.Fatal(err)
	}
	const segmentSize = 256 << 20
	zeroSegments(b, storage, segmentSize, 4)
	log, err := commitlog.Open(commitlog.Options{
		Storage: storage, SegmentSize: segmentSize, PoolSize: 32 << 20, LockPool: true, Now: nowMS,
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := log.Start(0); err != nil {
		b.Fatal(err)
	}
	service := New(Options{Log: log, Syncer: Plain{}, Sync: true, Now: nowMS, Settings: func() Settings {
		return Settings{FlushThoroughIntervalMS: 10000}
	}})
	service.Start()
	record, err := message.AppendRecord(nil, &message.Message{Topic: "T", Body: make([]byte, 1024)})
	if err != nil {
		b.Fatal(err)
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	b.SetBytes(int64(len(record)))
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for range producers {
		wg.Go(func() {
			p := &producer{queue: &service.Flushed, done: make(chan error, 1)}
			rec := append([]byte(nil), record...)
			var next message.QueueOffset
			for left.Add(-1) >= 0 {
				_, err := log.Append(rec, &next, p)
				for errors.Is(err, commitlog.ErrBusy) {
					if err = log.Room(len(rec)); err == nil {
						_, err = log.Append(rec, &next, p)
					}
				}
				service.Wake()
				if err == nil {
					err = <-p.done
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
	b.ReportMetric(float64(b.N)/float64(max(service.Metrics().Flushes.Load(), 1)), "msg/flush")
	if err := errors.Join(service.Close(), log.Close()); err != nil {
		b.Fatal(err)
	}
}

// zeroSegments makes the first n segments and leaves them in the directory.
func zeroSegments(b *testing.B, storage segment.Storage, size int64, n int) {
	metrics := new(segment.Metrics)
	p := segment.NewPreparer(segment.PreparerOptions{
		Storage: storage, Size: size, Zero: true, ZeroBytesPerSecond: 1 << 40, Metrics: metrics,
	})
	for i := range n {
		p.Prepare(int64(i) * size)
	}
	for metrics.Prepared.Load()+metrics.PrepareFailed.Load() < int64(n) {
		time.Sleep(time.Millisecond)
	}
	if err := p.Close(); err != nil || metrics.PrepareFailed.Load() > 0 {
		b.Fatalf("%d segments could not be made, %v", metrics.PrepareFailed.Load(), err)
	}
}

// producer is one sender and its one wait.
type producer struct {
	Wait
	queue *Queue
	done  chan error
}

func (p *producer) Reached(err error) { p.done <- err }

func (p *producer) Placed(a commitlog.Appended) {
	p.End, p.Waiter = a.End, p
	p.queue.Add(&p.Wait)
}
