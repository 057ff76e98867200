package engine_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringmq/engine"
	"ringmq/engine/message"
)

// benchOptions are those of a real store, but with segments of 64 MiB so that a short run rolls.
func benchOptions(dir string) engine.Options {
	return engine.Options{Dir: dir, SegmentSize: 64 << 20, PoolSize: 64 << 20, Ring: true, DiskWarningRatio: 1, PutWaitMS: 60_000}
}

// BenchmarkPut is one store with producers that each wait for their answer before they put again.
func BenchmarkPut(b *testing.B) {
	for _, syncFlush := range []bool{false, true} {
		for _, producers := range []int{1, 64, 256} {
			b.Run(fmt.Sprintf("size=1KiB/sync=%v/producers=%d", syncFlush, producers), func(b *testing.B) {
				o := benchOptions(b.TempDir())
				o.SyncFlush = syncFlush
				s := open(b, o)
				benchPuts(b, s, producers)
			})
		}
	}
}

// BenchmarkPutTransient is ASYNC_FLUSH answered at committed, with no buffers, and at appended, from a transient pool of some. A pool without
// buffers is as large as one.
func BenchmarkPutTransient(b *testing.B) {
	for _, producers := range []int{1, 1024} {
		for _, buffers := range []int{0, 1, 5} {
			b.Run(fmt.Sprintf("size=1KiB/producers=%d/buffers=%d", producers, buffers), func(b *testing.B) {
				o := benchOptions(b.TempDir())
				o.TransientPool, o.TransientBuffers = buffers > 0, buffers
				benchPuts(b, open(b, o), producers)
			})
		}
	}
}

// looper is a producer: it puts again when it has been answered, in the one goroutine that all share, as on an event loop.
type looper struct {
	request engine.PutRequest
	answers chan *looper
}

func (l *looper) PutDone(_ *engine.PutRequest, r *engine.PutResult) {
	if r.Status != engine.PutOK {
		panic(r.Err)
	}
	l.answers <- l
}

func benchPuts(b *testing.B, s *engine.Store, producers int) {
	b.ReportAllocs()
	b.SetBytes(1 << 10)
	answers := make(chan *looper, producers)
	body := strings.Repeat("x", 1024-115)
	for i := range producers {
		l := &looper{answers: answers}
		l.request.Message = text("BenchTopic", int32(i%8), body, "TAGS\x01a\x02")
		l.request.Done = l
		answers <- l
	}
	b.ResetTimer()
	for range b.N {
		l := <-answers
		s.Put(&l.request)
	}
	for range producers {
		<-answers
	}
	b.StopTimer()
	settle(b, s)
}

// BenchmarkPutKeyed is a put whose messages have a unique key of their own, a key and tags: with queues and index, without the index, and
// without both, as records that were rolled back have neither. Dispatch is waited for: "behind-ms" is how long it takes when the last put is
// answered.
func BenchmarkPutKeyed(b *testing.B) {
	for _, c := range []struct {
		derived string
		noIndex bool
		sysFlag int32
	}{
		{"none", true, message.SysFlagRollback},
		{"queues", true, 0},
		{"queues+index", false, 0},
	} {
		b.Run("size=1KiB/inflight=1024/derived="+c.derived, func(b *testing.B) {
			o := benchOptions(b.TempDir())
			o.NoIndex = c.noIndex
			s := open(b, o)
			answers := make(chan *looper, 1024)
			body := strings.Repeat("x", 1024-200)
			for i := range 1024 {
				l := &looper{answers: answers}
				l.request.Message = text("BenchTopic", int32(i%8), body, fmt.Sprintf("UNIQ_KEY\x01%032d\x02KEYS\x01key-%d\x02TAGS\x01a\x02", 0, i))
				l.request.Message.SysFlag = c.sysFlag
				l.request.Done = l
				answers <- l
			}
			b.ReportAllocs()
			b.SetBytes(1 << 10)
			began := cpuTime(b)
			b.ResetTimer()
			for i := range b.N {
				l := <-answers
				for at, n := len("UNIQ_KEY\x01")+31, i; n > 0; at, n = at-1, n/10 {
					l.request.Message.Properties[at] = byte('0' + n%10)
				}
				s.Put(&l.request)
			}
			for range 1024 {
				<-answers
			}
			b.StopTimer()
			answered := time.Now()
			settle(b, s)
			b.ReportMetric(float64(time.Since(answered).Microseconds())/1000, "behind-ms")
			b.ReportMetric(float64((cpuTime(b)-began).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkFlushDerived flushes queues that have one new entry each, and the index: by one batch of the ring, or one file after the other. The
// first time every file is new.
func BenchmarkFlushDerived(b *testing.B) {
	for _, queues := range []int{64, 1000, 10_000} {
		for _, ring := range []bool{true, false} {
			b.Run(fmt.Sprintf("queues=%d/ring=%v", queues, ring), func(b *testing.B) {
				o := benchOptions(b.TempDir())
				o.Ring = ring
				o.QueueFlush = func() engine.QueueFlushSettings { // nobody else flushes
					return engine.QueueFlushSettings{IntervalMS: 1 << 40, ThoroughIntervalMS: 1 << 40, LeastPages: 1 << 30}
				}
				s := open(b, o)
				for b.Loop() {
					b.StopTimer()
					fill(b, s, queues, queues)
					b.StartTimer()
					if err := engine.FlushDerived(s); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkGet reads 32 neighbouring messages of 1 KiB.
func BenchmarkGet(b *testing.B) {
	s := open(b, benchOptions(b.TempDir()))
	fill(b, s, 1000, 1)
	var res engine.GetResult
	b.ReportAllocs()
	b.SetBytes(32 << 10)
	for b.Loop() {
		s.Get([]byte(testTopic), 0, 100, 32, 1<<20, nil, &res)
		if res.Count != 32 || len(res.Views) != 1 {
			b.Fatalf("%d records in %d views", res.Count, len(res.Views))
		}
		res.Release()
	}
}

// fill puts n messages of 1 KiB, over so many queues.
func fill(b testing.TB, s *engine.Store, n, queues int) {
	const window = 256
	calls := make(chan *call, window)
	for range window {
		c := newCall()
		c.done <- engine.PutResult{}
		calls <- c
	}
	body := strings.Repeat("x", 1024-107)
	for i := range n {
		c := <-calls
		if r := c.wait(b); r.Status != engine.PutOK {
			b.Fatal(r.Err)
		}
		c.request.Message = text(testTopic, int32(i%queues), body, "TAGS\x01a\x02")
		s.Put(&c.request)
		calls <- c
	}
	for range window {
		(<-calls).wait(b)
	}
	settle(b, s)
}

// BenchmarkOpen is a start after a kill that left no mark: every record is checked and dispatched. RINGMQ_OPEN_MIB sets the size of the
// log, 16 if not set.
func BenchmarkOpen(b *testing.B) {
	mibs, _ := strconv.Atoi(os.Getenv("RINGMQ_OPEN_MIB"))
	if mibs == 0 {
		mibs = 16
	}
	o := benchOptions(b.TempDir())
	o.SegmentSize = 1 << 30
	s := open(b, o)
	fill(b, s, mibs<<10, 8)
	closeStore(b, s)
	for _, mark := range []string{"none", "last"} {
		b.Run(fmt.Sprintf("MiB=%d/mark=%s", mibs, mark), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				if mark == "none" {
					remove(b, o.Dir+"/ringmq/mark")
				}
				writeFile(b, o.Dir+"/abort", nil)
				b.StartTimer()
				s, err := engine.Open(o)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				closeStore(b, s)
				b.StartTimer()
			}
		})
	}
}

// BenchmarkOpenClean is a start after a clean stop, of a store with many segments or many queues. Nothing of the log is walked.
func BenchmarkOpenClean(b *testing.B) {
	for _, c := range []struct{ segments, queues int }{{100, 8}, {1, 10_000}} {
		b.Run(fmt.Sprintf("segments=%d/queues=%d", c.segments, c.queues), func(b *testing.B) {
			o := benchOptions(b.TempDir())
			o.SegmentSize = 16 << 20
			if c.segments > 1 {
				o.SegmentSize = 1 << 20
			}
			s := open(b, o)
			fill(b, s, max(c.segments*1000, c.queues), c.queues)
			closeStore(b, s)
			began := cpuTime(b)
			for b.Loop() {
				s, err := engine.Open(o)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if r := s.Recovery(); !r.Clean || r.Records != 0 {
					b.Fatalf("recovery %+v", r)
				}
				closeStore(b, s)
				b.StartTimer()
			}
			b.ReportMetric((cpuTime(b)-began).Seconds()/float64(b.N)*1000, "cpu-ms/op") // with the stop
		})
	}
}

// cpuTime is what the process has used: on a machine that others use too, the clock on the wall tells little.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
