// Command bare is the least that a log with synchronous flush can do, and so the measure for the one that does it all:
// producers copy into locked memory under one mutex and wait; one flusher on its own thread writes what has come as whole
// blocks, calls fdatasync, lets all waiters of the batch go by closing one channel, and starts the next at once.
// Segments of 1 GiB are filled with zeros beforehand. It knows no format, no queue, no reader, and treats errors as fatal.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const segmentSize, ringSize, blockSize = int64(1 << 30), int64(256 << 20), int64(4096)

type bare struct {
	ring     []byte
	segments []int // descriptors
	mu       sync.Mutex
	end      int64         // first free position
	batch    chan struct{} // closed when everything below end is on the device
	wake     chan struct{} // one slot
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// newSegment allocates, writes zeros around the page cache, reopens for buffered writes, and leaves no name behind.
func newSegment(path string, zeros []byte) int {
	fd := must(unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_DIRECT, 0o644))
	must(0, unix.Fallocate(fd, 0, 0, segmentSize))
	for at := int64(0); at < segmentSize; at += int64(len(zeros)) {
		must(unix.Pwrite(fd, zeros, at))
	}
	must(0, errors.Join(unix.Fsync(fd), unix.Close(fd)))
	defer os.Remove(path)
	return must(unix.Open(path, unix.O_RDWR, 0))
}

// append returns the channel to wait on, nil when the segments are full. A record does not cross segments.
func (l *bare) append(record []byte) chan struct{} {
	n := int64(len(record))
	l.mu.Lock()
	if l.end%segmentSize+n > segmentSize {
		l.end += segmentSize - l.end%segmentSize
	}
	var batch chan struct{}
	if l.end+n <= int64(len(l.segments))*segmentSize {
		copied := copy(l.ring[l.end%ringSize:], record)
		copy(l.ring, record[copied:])
		l.end, batch = l.end+n, l.batch
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return batch
}

// flush runs until wake is closed. The ring is larger than all records in flight, so nobody ever waits for room.
func (l *bare) flush() (flushes int64) {
	runtime.LockOSThread()
	for from, open := int64(0), true; open; {
		l.mu.Lock()
		to, batch := l.end, l.batch
		l.batch = make(chan struct{})
		l.mu.Unlock()
		if to == from {
			_, open = <-l.wake
			continue
		}
		l.write(from/blockSize*blockSize, (to+blockSize-1)/blockSize*blockSize)
		close(batch)
		from, flushes = to, flushes+1
	}
	return flushes
}

// write splits at the ends of segment and ring. What stands behind the last record in its block is written again with the next.
func (l *bare) write(from, to int64) {
	for from < to {
		fd, n := l.segments[from/segmentSize], min(to-from, segmentSize-from%segmentSize)
		for end := from + n; from < end; {
			part := l.ring[from%ringSize : min(from%ringSize+end-from, ringSize)]
			from += int64(must(unix.Pwrite(fd, part, from%segmentSize)))
		}
		must(0, unix.Fdatasync(fd))
	}
}

func main() {
	producers, size := flag.Int("producers", 64, "goroutines that send and wait"), flag.Int("size", 1024, "bytes of a record")
	dur, dir := flag.Duration("dur", 5*time.Second, "how long"), flag.String("dir", os.TempDir(), "where the segments go")
	count := flag.Int("segments", 4, "segments of 1 GiB; the run ends early when they are full")
	flag.Parse()
	if min(*size, *producers, *count) <= 0 || int64(*producers)*int64(*size) > ringSize/4 {
		log.Fatalf("producers, size and segments must be above 0, producers * size at most %d", ringSize/4)
	}
	ring := must(unix.Mmap(-1, 0, int(ringSize), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_LOCKED))
	l := &bare{ring: ring, batch: make(chan struct{}), wake: make(chan struct{}, 1)}
	for i := range *count {
		l.segments = append(l.segments, newSegment(filepath.Join(*dir, fmt.Sprintf("bare-%d-%d", os.Getpid(), i)), ring[:1<<20]))
	}
	fmt.Println(l.measure(*producers, *size, *dur))
}

func (l *bare) measure(producers, size int, dur time.Duration) string {
	waits, flushes := make([][]time.Duration, producers), make(chan int64)
	var senders sync.WaitGroup
	var before, after unix.Rusage
	must(0, unix.Getrusage(unix.RUSAGE_SELF, &before))
	start := time.Now()
	go func() { flushes <- l.flush() }()
	for i := range waits {
		senders.Go(func() {
			record, begun, mine := make([]byte, size), start, make([]time.Duration, 0, 1<<16)
			for batch := l.append(record); batch != nil && begun.Sub(start) < dur; batch = l.append(record) {
				<-batch
				now := time.Now()
				mine, begun = append(mine, now.Sub(begun)), now
			}
			waits[i] = mine
		})
	}
	senders.Wait()
	took := time.Since(start)
	must(0, unix.Getrusage(unix.RUSAGE_SELF, &after))
	cpu := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	close(l.wake)
	all := slices.Concat(waits...)
	slices.Sort(all)
	n := float64(len(all))
	at := func(q float64) float64 { return float64(all[int(q*(n-1))].Nanoseconds()) / 1000 }
	return fmt.Sprintf(`{"bench":"bare","producers":%d,"size":%d,"seconds":%.2f,"msgs":%.0f,"msgs_per_s":%.0f,"p50_us":%.0f,`+
		`"p99_us":%.0f,"cpu_s_per_million":%.3f,"flushes":%d}`, producers, size, took.Seconds(), n,
		n/took.Seconds(), at(0.5), at(0.99), float64(cpu)/1000/n, <-flushes)
}
