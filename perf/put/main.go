// Command put measures the engine as bare measures the least that can be done: the same producers, sizes and figures. The first segment of a
// store is only allocated; put fills it before, so that what is measured goes into segments filled with zeros, as bare's are.
package main

import (
	"flag"
	"fmt"
	"log"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ringmq/engine"
	"ringmq/engine/message"
)

const segmentSize = 1 << 30

// producer sends and waits; the answer comes through its channel.
type producer struct {
	request  engine.PutRequest
	answered chan engine.PutStatus
}

func (p *producer) PutDone(_ *engine.PutRequest, r *engine.PutResult) { p.answered <- r.Status }

func newProducer(size, queue int) *producer {
	host := netip.MustParseAddrPort("127.0.0.1:10911")
	p := &producer{answered: make(chan engine.PutStatus, 1)}
	p.request.Done = p
	p.request.Message = message.Message{Topic: "T", QueueID: int32(queue), BornHost: host, StoreHost: host}
	p.request.Message.Body = make([]byte, max(0, size-p.request.Message.RecordLen()))
	return p
}

func (p *producer) put(s *engine.Store) {
	s.Put(&p.request)
	if status := <-p.answered; status != engine.PutOK {
		log.Fatalf("put answered %d", status)
	}
}

func main() {
	producers, size := flag.Int("producers", 64, "goroutines that send and wait"), flag.Int("size", 1024, "bytes of a record")
	dur, dir := flag.Duration("dur", 5*time.Second, "how long"), flag.String("dir", "", "where the store goes, which is removed at the end")
	async := flag.Bool("async", false, "async flush: answered when the page cache has the record")
	flag.Parse()
	folder, err := os.MkdirTemp(*dir, "ringmq-put")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	s := open(folder, !*async)
	defer s.Close()
	fill(s)
	fmt.Println(measure(s, *producers, *size, *dur))
}

func open(folder string, syncFlush bool) *engine.Store {
	s, err := engine.Open(engine.Options{
		Dir: folder, SegmentSize: segmentSize, SyncFlush: syncFlush, ZeroAhead: true, Ring: true, DiskWarningRatio: 1, PutWaitMS: 60_000,
	})
	if err != nil {
		log.Fatal(err)
	}
	return s
}

// fill puts large messages until the store is in its second segment. It waits there, and before, until the next one has all its zeros: a
// roll in a hurry takes it with those that it has.
func fill(s *engine.Store) {
	p := newProducer(1<<20, 0)
	for _, end := range []int64{segmentSize / 2, segmentSize + 1<<20} {
		for int64(s.Positions().End) < end {
			p.put(s)
		}
		prepared := 1 + end/segmentSize
		for deadline := time.Now().Add(time.Minute); s.Counters().Segments.Prepared.Load() < prepared; {
			if time.Now().After(deadline) {
				log.Fatalf("segment %d did not get its zeros within a minute", prepared+1)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}

func measure(s *engine.Store, producers, size int, dur time.Duration) string {
	waits := make([][]time.Duration, producers)
	var senders sync.WaitGroup
	var before, after unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &before)
	flushes := &s.Counters().Flush.Flushes
	flushed := flushes.Load()
	start := time.Now()
	for i := range waits {
		senders.Go(func() {
			p, begun, mine := newProducer(size, i%8), start, make([]time.Duration, 0, 1<<16)
			for begun.Sub(start) < dur {
				p.put(s)
				now := time.Now()
				mine, begun = append(mine, now.Sub(begun)), now
			}
			waits[i] = mine
		})
	}
	senders.Wait()
	took := time.Since(start)
	_ = unix.Getrusage(unix.RUSAGE_SELF, &after)
	cpu := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	all := slices.Concat(waits...)
	slices.Sort(all)
	n := float64(len(all))
	at := func(q float64) float64 { return float64(all[int(q*(n-1))].Nanoseconds()) / 1000 }
	return fmt.Sprintf(`{"bench":"put","producers":%d,"size":%d,"seconds":%.2f,"msgs":%.0f,"msgs_per_s":%.0f,"p50_us":%.0f,`+
		`"p99_us":%.0f,"cpu_s_per_million":%.3f,"flushes":%d}`, producers, size, took.Seconds(), n, n/took.Seconds(), at(0.5), at(0.99),
		float64(cpu)/1000/n, flushes.Load()-flushed)
}
