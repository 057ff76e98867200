package inspect_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringmq/engine/checkpoint"
	"ringmq/engine/consumequeue"
	"ringmq/engine/index"
	"ringmq/engine/inspect"
	"ringmq/engine/message"
)

// BenchmarkVerify checks a store that is in the page cache. RINGMQ_BENCH_MIB sets how large its log is.
func BenchmarkVerify(b *testing.B) {
	size := int64(32)
	if text := os.Getenv("RINGMQ_BENCH_MIB"); text != "" {
		var err error
		if size, err = strconv.ParseInt(text, 10, 64); err != nil {
			b.Fatal(err)
		}
	}
	for _, body := range []int{100, 1 << 10, 16 << 10} {
		b.Run(fmt.Sprintf("body=%d", body), func(b *testing.B) {
			dir, bytes := laidOut(b, size<<20, body)
			verify(b, dir)
			b.SetBytes(bytes)
			b.ReportAllocs()
			began := cpuTime(b)
			for b.Loop() {
				s := open(b, dir)
				r, err := s.Verify(context.Background(), inspect.VerifyOptions{})
				s.Close()
				if err != nil || len(r.Findings) > 0 || r.IndexEntries == 0 {
					b.Fatalf("%+v, %v", r, err)
				}
			}
			b.ReportMetric(float64(bytes)*float64(b.N)/1e6/(cpuTime(b)-began).Seconds(), "MB/cpu-s")
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

// laidOut writes a store of one segment straight to its files.
func laidOut(b *testing.B, size int64, body int) (dir string, bytes int64) {
	b.Helper()
	dir = b.TempDir()
	const queues = 8
	log, entries := make([]byte, 0, size), [queues][]byte{}
	m := message.Message{
		Topic: "Topic", Body: make([]byte, body), Properties: []byte("TAGS\x01a\x02UNIQ_KEY\x017F0000010001000000000000000000\x02"),
		BornHost: netip.MustParseAddrPort("127.0.0.1:5000"), StoreHost: netip.MustParseAddrPort("127.0.0.1:10911"),
	}
	if err := os.MkdirAll(filepath.Join(dir, "ringmq"), 0o755); err != nil {
		b.Fatal(err)
	}
	keys, err := index.Open(index.Options{
		Dir: filepath.Join(dir, "index"), Progress: filepath.Join(dir, "ringmq", "indexed"), Slots: 1 << 20, Entries: 4 << 20,
		Now: func() int64 { return time.Now().UnixMilli() },
	}, index.Found{Within: func(message.Offset) bool { return true }})
	if err != nil {
		b.Fatal(err)
	}
	defer keys.Close()
	for i := 0; ; i++ {
		m.QueueID = int32(i % queues)
		at := len(log)
		next, err := message.AppendRecord(log, &m)
		if err != nil {
			b.Fatal(err)
		}
		if int64(len(next)) > size-message.BlankLen {
			break
		}
		log = next
		message.Stamp(log[at:], message.QueueOffset(i/queues), message.Offset(at), 1)
		var r message.Record
		if err := message.Decode(log[at:], &r); err != nil || !keys.PutNext(&r) {
			b.Fatalf("record %d has no keys: %v", i, err)
		}
		entries[m.QueueID] = consumequeue.AppendEntry(entries[m.QueueID],
			consumequeue.Entry{Offset: message.Offset(at), Size: int32(len(log) - at), TagsCode: message.TagsCode([]byte("a"))})
	}
	keys.Prepare(true)
	keys.Finish()
	bytes = int64(len(log))
	write := func(path string, content []byte, size int64) {
		path = filepath.Join(dir, path)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, content, 0o644)
		}
		if err == nil {
			err = os.Truncate(path, size)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	name := fmt.Sprintf("%020d", 0)
	write(filepath.Join("commitlog", name), log, size)
	for i := range entries {
		write(filepath.Join("consumequeue", "Topic", strconv.Itoa(i), name), entries[i], 20*(size/int64(body)))
	}
	if err := (checkpoint.Checkpoint{}).Save(filepath.Join(dir, "checkpoint")); err != nil {
		b.Fatal(err)
	}
	return dir, bytes
}
