package segment_test

import (
	"sync/atomic"
	"testing"

	"ringmq/engine/segment"
)

func BenchmarkPoolPut(b *testing.B) {
	for _, size := range []struct {
		name string
		n    int
	}{{"size=128B", 128}, {"size=1KiB", 1 << 10}, {"size=4KiB", 4 << 10}} {
		b.Run(size.name, func(b *testing.B) {
			p := newPool(b, 64<<20)
			p.Zero(0, p.Size()) // touched, as mlock would have
			p.Free(p.Size())
			record, at := make([]byte, size.n), p.Size()
			b.SetBytes(int64(size.n))
			b.ReportAllocs()
			for b.Loop() {
				if !p.Room(at + int64(size.n)) {
					p.Free(at)
				}
				p.Put(at, record)
				at += int64(size.n)
			}
		})
	}
}

// BenchmarkPoolPutWithReaders shows what readers of the tail cost the appender.
func BenchmarkPoolPutWithReaders(b *testing.B) {
	p := newPool(b, 64<<20)
	p.Zero(0, p.Size())
	p.Free(p.Size())
	record, at := make([]byte, 1024), p.Size()
	var end atomic.Int64
	end.Store(at)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			v, ok := p.View(end.Load()-16<<10, 16<<10)
			if !ok {
				b.Error("the tail was not found")
			}
			v.Release()
		}
	}()
	b.SetBytes(1024)
	b.ReportAllocs()
	for b.Loop() {
		if !p.Room(at + 1024) {
			p.Free(at)
		}
		p.Put(at, record)
		at += 1024
		end.Store(at)
	}
	close(stop)
	<-stopped
}

func BenchmarkPoolView(b *testing.B) {
	for _, size := range []struct {
		name string
		n    int
	}{{"size=1KiB", 1 << 10}, {"size=32KiB", 32 << 10}, {"size=256KiB", 256 << 10}} {
		b.Run(size.name, func(b *testing.B) {
			p := newPool(b, 4<<20)
			p.Zero(0, p.Size())
			b.SetBytes(int64(size.n))
			b.ReportAllocs()
			for b.Loop() {
				v, ok := p.View(4096, size.n)
				if !ok {
					b.Fatal("not found")
				}
				v.Release()
			}
		})
	}
}

func BenchmarkSetView(b *testing.B) {
	bases := make([]int64, 100)
	for i := range bases {
		bases[i] = int64(i * fileSize)
	}
	set := openSet(b, storeOf(fileSize, bases...), fileSize)
	defer set.Close()
	b.ReportAllocs()
	off := int64(0)
	for b.Loop() {
		v, ok := set.View(off, 1024)
		if !ok {
			b.Fatal("not found")
		}
		v.Release()
		off = (off + 12345) % (100 * fileSize)
	}
}

func BenchmarkFileWrite(b *testing.B) {
	d := newDir(b, segment.DirOptions{})
	set := openSet(b, d, 64<<20)
	set.Add(segment.NewFile(0, create(b, d, 0, 64<<20)))
	defer set.Close()
	pieces, at := [][]byte{make([]byte, 4096)}, int64(0)
	b.SetBytes(4096)
	b.ReportAllocs()
	for b.Loop() {
		if err := set.First().WriteAt(pieces, at); err != nil {
			b.Fatal(err)
		}
		at = (at + 4096) % (64 << 20)
	}
}
