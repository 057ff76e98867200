package consumequeue_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
)

func TestFlushSyncsWhatWasWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var s syncer
	var m consumequeue.Metrics
	table := open(t, consumequeue.Options{Dir: dir, Sync: &s, Metrics: &m})
	q := table.Get(zero)
	put(t, q, 0, 70)
	check(t, table.Flush())
	if !s.synced(file(dir, 0)) || !s.synced(file(dir, 1)) || len(s.calls) != 1 {
		t.Fatalf("synced %v", s.calls)
	}
	if m.SyncedDirs.Load() != 3 { // of the files, of the queue's folder, of the topic's
		t.Errorf("%d folders synced", m.SyncedDirs.Load())
	}
	check(t, table.Flush())
	if len(s.calls) != 1 {
		t.Errorf("clean files were synced: %v", s.calls[1:])
	}
	put(t, q, 70, 71)
	check(t, table.Flush())
	if len(s.calls) != 2 || len(s.calls[1]) != 1 || s.calls[1][0] != file(dir, 1) {
		t.Errorf("synced %v", s.calls[1:])
	}
	if m.SyncedDirs.Load() != 3 || m.TailBytes.Load() != 0 {
		t.Errorf("%d folders synced, tails of %d bytes", m.SyncedDirs.Load(), m.TailBytes.Load())
	}
	check(t, table.Close())
}

// Entries that were found and put again may never have reached the device: the next flush syncs their files and folders.
func TestEntriesPutAgainAreSynced(t *testing.T) {
	t.Parallel()
	dir := made(t, 120)
	var s syncer
	var m consumequeue.Metrics
	table := open(t, consumequeue.Options{Dir: dir, Sync: &s, Metrics: &m})
	put(t, table.Get(zero), 40, 80)
	check(t, table.Flush())
	if !s.synced(file(dir, 0)) || !s.synced(file(dir, 1)) || s.synced(file(dir, 2)) || m.SyncedDirs.Load() != 3 {
		t.Errorf("synced %v and %d folders", s.calls, m.SyncedDirs.Load())
	}
	check(t, table.Close())
}

// What recovery finds it writes again, so that the pages are dirty: after a write-back that failed a sync of clean pages would prove nothing.
func TestRewriteWritesWhatIsInFiles(t *testing.T) {
	t.Parallel()
	dir := made(t, 120)
	var s syncer
	var m consumequeue.Metrics
	table := open(t, consumequeue.Options{Dir: dir, Sync: &s, Metrics: &m})
	q := table.Get(zero)
	put(t, q, 120, 125) // in memory
	entries := make([]consumequeue.Entry, 30)
	if n, err := q.Read(100, entries); err != nil || n != 25 {
		t.Fatalf("read %d, %v", n, err)
	}
	check(t, q.Rewrite(100, entries[:25]))
	if got := m.WrittenBytes.Load(); got != 20*consumequeue.EntrySize {
		t.Errorf("%d bytes were written, want those of 20 entries", got)
	}
	check(t, table.Flush())
	if !s.synced(file(dir, 2)) || s.synced(file(dir, 0)) {
		t.Errorf("synced %v", s.calls)
	}
	expect(t, q, 0, 125)
	check(t, table.Close())
}

func TestFailedSyncIsFinal(t *testing.T) {
	t.Parallel()
	s := syncer{fail: errDevice}
	table := open(t, consumequeue.Options{Dir: t.TempDir(), Sync: &s})
	q := table.Get(zero)
	put(t, q, 0, 10)
	if err := table.Flush(); !errors.Is(err, errDevice) {
		t.Fatalf("flush: %v", err)
	}
	s.fail = nil
	put(t, q, 10, 20)
	for range 2 {
		if err := table.Flush(); !errors.Is(err, errDevice) {
			t.Errorf("flush again: %v", err)
		}
	}
	expect(t, q, 0, 20) // reads go on
	if err := table.Close(); !errors.Is(err, errDevice) {
		t.Errorf("close: %v", err)
	}
	if len(s.calls) != 1 {
		t.Errorf("%d syncs", len(s.calls))
	}
}

// A write that fails changes nothing, and may be tried again.
func TestFailedWriteIsTriedAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	table := open(t, consumequeue.Options{Dir: dir})
	q := table.Get(zero)
	obstacle := filepath.Join(dir, "T")
	check(t, os.WriteFile(obstacle, nil, 0o644)) // in the place of the topic's folder
	put(t, q, 0, 204)
	for range 2 {
		if err := q.Put(204, entry(204)); err == nil {
			t.Fatal("put did not fail")
		}
		if err := table.Flush(); err == nil {
			t.Fatal("flush did not fail")
		}
	}
	expect(t, q, 0, 204)
	check(t, os.Remove(obstacle))
	put(t, q, 204, 300)
	check(t, table.Flush())
	check(t, table.Close())
	table = open(t, consumequeue.Options{Dir: dir})
	expect(t, table.Get(zero), 0, 300)
	check(t, table.Close())
}

// Far more queues than descriptors: all are written, synced, read and found again, and never many more files are open than allowed.
func TestManyQueues(t *testing.T) {
	t.Parallel()
	const queues, maxOpen = 5000, 64
	dir := t.TempDir()
	var m consumequeue.Metrics
	var s countingSyncer
	o := consumequeue.Options{Dir: dir, MaxOpen: maxOpen, Metrics: &m, Sync: &s}
	table := open(t, o)
	id := func(n int) consumequeue.ID {
		return consumequeue.ID{Topic: "topic" + strconv.Itoa(n/8), QueueID: int32(n % 8)}
	}
	limit := func(when string) {
		t.Helper()
		if got := m.Open.Load(); got > maxOpen+1 {
			t.Fatalf("%s: %d files open", when, got)
		}
	}
	for n := range queues {
		put(t, table.Get(id(n)), 0, 10)
	}
	if got := m.TailBytes.Load(); got > queues*320 {
		t.Errorf("tails of %d bytes", got)
	}
	check(t, table.Flush())
	limit("flushed")
	if s.files != queues {
		t.Errorf("%d files synced", s.files)
	}
	if s.calls > 2*queues/maxOpen {
		t.Errorf("%d syncs", s.calls)
	}
	for n := range queues {
		expect(t, table.Get(id(n)), 0, 10)
		limit("read")
	}
	check(t, table.Close())
	table = open(t, o)
	if table.Len() != queues {
		t.Fatalf("%d queues", table.Len())
	}
	for n := 0; n < queues; n += 7 {
		expect(t, table.Find([]byte(id(n).Topic), id(n).QueueID), 0, 10)
	}
	limit("opened again")
	check(t, table.Close())
	if m.Open.Load() != 0 {
		t.Errorf("%d files left open", m.Open.Load())
	}
}

// countingSyncer skips the device: thousands of syncs would take minutes on a slow one.
type countingSyncer struct{ files, calls int }

func (s *countingSyncer) SyncFds(fds []int) error {
	s.files += len(fds)
	s.calls++
	return nil
}

// One dispatcher, one flusher and many readers at once: a reader sees a gap-free first part of what was put.
func TestConcurrentReaders(t *testing.T) {
	t.Parallel()
	const queues, entries = 6, 1500
	table := open(t, consumequeue.Options{Dir: t.TempDir(), FileSize: 8 * fileSize, MaxOpen: 4, Sync: &countingSyncer{}})
	id := func(n int) consumequeue.ID { return consumequeue.ID{Topic: "T", QueueID: int32(n)} }
	done := make(chan struct{})
	var wg sync.WaitGroup
	for n := range 2 * queues {
		wg.Go(func() {
			q := table.Get(id(n % queues))
			var dst [64]consumequeue.Entry
			for at := message.QueueOffset(0); at < entries; {
				if m := q.Min(); m > 0 {
					t.Errorf("min %d", m)
					return
				}
				got, err := q.Read(at, dst[:])
				if err != nil {
					t.Error(err)
					return
				}
				if got == 0 {
					runtime.Gosched()
				}
				for i, e := range dst[:got] {
					if want := entry(int(at) + i); e != want {
						t.Errorf("entry %d is %+v", int(at)+i, e)
						return
					}
				}
				if at += message.QueueOffset(got); at > 0 && q.LastOffset() < message.Offset(at)*100 {
					t.Errorf("last offset %d, but entry %d was read", q.LastOffset(), at-1)
					return
				}
			}
		})
	}
	flusher := make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			select {
			case <-done:
				flusher <- nil
				return
			default:
				err = table.Flush()
				runtime.Gosched()
			}
		}
		flusher <- err
	}()
	for n := range entries {
		for i := range queues {
			if err := table.Get(id(i)).Put(message.QueueOffset(n), entry(n)); err != nil {
				t.Error(err)
			}
		}
	}
	wg.Wait()
	close(done)
	check(t, <-flusher)
	check(t, table.Close())
}

func TestNoAllocation(t *testing.T) {
	table := open(t, consumequeue.Options{Dir: t.TempDir(), FileSize: 6_000_000, Sync: &countingSyncer{}})
	q := table.Get(zero)
	put(t, q, 0, 1000)
	topic := []byte("T")
	var dst [32]consumequeue.Entry
	n := 1000
	f := func(name string, run func()) {
		t.Helper()
		if allocs := testing.AllocsPerRun(1000, run); allocs != 0 {
			t.Errorf("%s allocates %v times", name, allocs)
		}
	}
	f("Find", func() { table.Find(topic, 0) })
	f("Put", func() { q.Put(message.QueueOffset(n), entry(n)); n++ })
	f("Read", func() { q.Read(100, dst[:]) })
	f("Min", func() { q.Min() })
}

func BenchmarkPut(b *testing.B) {
	table := open(b, consumequeue.Options{Dir: b.TempDir(), FileSize: 6_000_000, Sync: &countingSyncer{}})
	q := table.Get(zero)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if err := q.Put(message.QueueOffset(n), consumequeue.Entry{Offset: message.Offset(n), Size: 1}); err != nil {
			b.Fatal(err)
		}
		n++
	}
}

func BenchmarkRead(b *testing.B) {
	table := open(b, consumequeue.Options{Dir: b.TempDir(), FileSize: 6_000_000, Sync: &countingSyncer{}})
	q := table.Get(zero)
	put(b, q, 0, 10_000)
	check(b, table.Flush())
	put(b, q, 10_000, 10_100)
	for _, c := range []struct {
		name string
		at   message.QueueOffset
	}{{"from=file", 5000}, {"from=tail", 10_010}} {
		b.Run(c.name, func(b *testing.B) {
			var dst [32]consumequeue.Entry
			b.ReportAllocs()
			for b.Loop() {
				if n, err := q.Read(c.at, dst[:]); n != len(dst) || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}

func BenchmarkFind(b *testing.B) {
	table := open(b, consumequeue.Options{Dir: b.TempDir()})
	for n := range 1000 {
		table.Get(consumequeue.ID{Topic: "topic" + strconv.Itoa(n)})
	}
	topic := []byte("topic500")
	b.ReportAllocs()
	for b.Loop() {
		if table.Find(topic, 0) == nil {
			b.Fatal("absent")
		}
	}
}
