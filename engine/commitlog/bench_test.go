package commitlog

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"ringmq/engine/message"
	"ringmq/engine/segment"
)

// BenchmarkAppend is one producer on a real directory with a committer and a flusher beside it, over rolls, without waiting
// for either but for room. Old segments are removed as they are flushed, so -benchtime=4194304x appends 4 GiB and needs the
// disk of a few segments only.
//
// Every 16th Append that succeeds is timed, clock and all: nobody contends for the put lock here but the committer.
func BenchmarkAppend(b *testing.B) {
	for _, mapped := range []bool{false, true} {
		name := "pool"
		if mapped {
			name = "mmap"
		}
		b.Run(fmt.Sprintf("size=1KiB/append=%s", name), func(b *testing.B) { benchmarkAppend(b, mapped) })
	}
}

func benchmarkAppend(b *testing.B, mapped bool) {
	storage, err := segment.NewDir(b.TempDir(), segment.DirOptions{Writable: mapped})
	if err != nil {
		b.Fatal(err)
	}
	l, err := Open(Options{
		Storage: storage, SegmentSize: 256 << 20, PoolSize: 64 << 20, LockPool: true, MappedAppend: mapped, ZeroAhead: true,
		ZeroBytesPerSecond: 1 << 30, Now: func() int64 { return time.Now().UnixMilli() },
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := l.Start(0); err != nil {
		b.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan error, 2)
	go func() { done <- until(stop, func() error { return commitOnce(l) }) }()
	go func() { done <- until(stop, func() error { return flushOnce(l) }) }()

	rec := record(b, 0, 1024)
	var next message.QueueOffset
	samples := make([]time.Duration, 0, 1<<19)
	b.SetBytes(int64(len(rec)))
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		timed := n%16 == 0 && len(samples) < cap(samples)
		for {
			var start time.Time
			if timed {
				start = time.Now()
			}
			_, err := l.Append(rec, &next, nil)
			if err == nil && timed {
				samples = append(samples, time.Since(start))
			}
			if err == nil {
				break
			}
			if errors.Is(err, ErrBusy) {
				err = l.Room(len(rec))
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	close(stop)
	if err := errors.Join(<-done, <-done, l.Close()); err != nil {
		b.Fatal(err)
	}
	slices.Sort(samples)
	b.ReportMetric(mean(samples), "append-ns")
	b.ReportMetric(mean(samples[:len(samples)*999/1000+1]), "trimmed-ns") // without the worst 0.1 %: lost time slices
	b.ReportMetric(float64(samples[len(samples)/2]), "p50-ns")
	b.ReportMetric(float64(samples[len(samples)*999/1000]), "p99.9-ns")
	b.ReportMetric(float64(l.Metrics().Rolls.Load()), "rolls")
}

func mean(samples []time.Duration) float64 {
	var sum time.Duration
	for _, d := range samples {
		sum += d
	}
	return float64(sum) / float64(len(samples))
}

func until(stop <-chan struct{}, f func() error) error {
	for {
		select {
		case <-stop:
			return nil
		default:
			if err := f(); err != nil {
				return err
			}
		}
	}
}

// commitOnce writes out, and rests when there was next to nothing, as a committer that is woken does.
func commitOnce(l *Log) error {
	before := l.Committed()
	at, err := l.WriteOut()
	if at-before < 64<<10 {
		time.Sleep(100 * time.Microsecond)
	}
	return err
}

// flushOnce syncs what is committed and removes segments that are flushed to their end.
func flushOnce(l *Log) error {
	time.Sleep(50 * time.Millisecond)
	at := l.Committed()
	for _, f := range l.Unsynced(at, nil) {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	l.SetFlushed(at)
	for {
		err := l.RemoveFirst()
		if errors.Is(err, ErrInUse) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// BenchmarkScan checks a warm log of 64 MiB.
func BenchmarkScan(b *testing.B) {
	storage, err := segment.NewDir(b.TempDir(), segment.DirOptions{})
	if err != nil {
		b.Fatal(err)
	}
	o := testOptions(storage)
	o.SegmentSize, o.PoolSize = 16<<20, 4<<20
	l, err := Open(o)
	if err != nil {
		b.Fatal(err)
	}
	if err := l.Start(0); err != nil {
		b.Fatal(err)
	}
	var next message.QueueOffset
	rec := record(b, 0, 1024)
	for l.End() < 64<<20 {
		put(b, l, rec, &next)
	}
	flush(b, l)
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	l, err = Open(o)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	b.SetBytes(64 << 20)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Scan(0, 0, func(*message.Record) error { return nil }, nil); err != nil {
			b.Fatal(err)
		}
	}
}
