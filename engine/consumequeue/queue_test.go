package consumequeue_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
)

func TestGoldenEntry(t *testing.T) {
	t.Parallel()
	f := func(e consumequeue.Entry, want string, ok bool) {
		t.Helper()
		b := consumequeue.AppendEntry(nil, e)
		if got := hex.EncodeToString(b); got != strings.ReplaceAll(want, " ", "") {
			t.Errorf("entry %+v is %s, want %s", e, got, want)
		}
		if got, gotOK := consumequeue.DecodeEntry(b); got != e || gotOK != ok {
			t.Errorf("decoded %+v, %v, want %+v, %v", got, gotOK, e, ok)
		}
	}
	f(consumequeue.Entry{Offset: 0x0102030405060708, Size: 0x0a0b0c0d, TagsCode: -2}, "0102030405060708 0a0b0c0d fffffffffffffffe", true)
	f(consumequeue.Entry{Offset: 0, Size: math.MaxInt32}, "0000000000000000 7fffffff 0000000000000000", true) // filler
	f(consumequeue.Entry{Offset: 4096, TagsCode: 1}, "0000000000001000 00000000 0000000000000001", false)
	f(consumequeue.Entry{Offset: 4096, Size: -1}, "0000000000001000 ffffffff 0000000000000000", false)
	f(consumequeue.Entry{Offset: -1, Size: 1}, "ffffffffffffffff 00000001 0000000000000000", false)
	f(consumequeue.Entry{Offset: math.MaxInt64 - 5, Size: 5}, "7ffffffffffffffa 00000005 0000000000000000", true)
	f(consumequeue.Entry{Offset: math.MaxInt64 - 5, Size: 6}, "7ffffffffffffffa 00000006 0000000000000000", false) // its end overflows
}

func FuzzEntry(f *testing.F) {
	f.Add(consumequeue.AppendEntry(nil, entry(3)))
	f.Add(make([]byte, 20))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < consumequeue.EntrySize {
			return
		}
		e, ok := consumequeue.DecodeEntry(b)
		if again := consumequeue.AppendEntry(nil, e); !bytes.Equal(again, b[:consumequeue.EntrySize]) {
			t.Fatalf("%x is encoded as %x", b, again)
		}
		if ok != (e.Offset >= 0 && e.Size > 0 && e.End() > e.Offset) {
			t.Fatalf("%+v: ok %v", e, ok)
		}
	})
}

func TestPutReadReopen(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 16, 17, 49, 50, 51, 204, 205, 1000} {
		dir := t.TempDir()
		table := open(t, consumequeue.Options{Dir: dir})
		q := table.Get(zero)
		put(t, q, 0, n)
		expect(t, q, 0, n)
		check(t, table.Flush())
		expect(t, q, 0, n)
		put(t, q, n, n+3)
		expect(t, q, 0, n+3)
		check(t, table.Close())

		table = open(t, consumequeue.Options{Dir: dir})
		expect(t, table.Find([]byte("T"), 0), 0, n+3)
		if next := table.Get(zero).Next; next != message.QueueOffset(n+3) {
			t.Errorf("next %d, want %d", next, n+3)
		}
		check(t, table.Close())
	}
}

func TestReadOutside(t *testing.T) {
	t.Parallel()
	table := open(t, consumequeue.Options{Dir: t.TempDir()})
	q := table.Get(zero)
	f := func(from message.QueueOffset, want int) {
		t.Helper()
		var dst [8]consumequeue.Entry
		if n, err := q.Read(from, dst[:]); n != want || err != nil {
			t.Errorf("read at %d: %d, %v, want %d", from, n, err, want)
		}
	}
	f(0, 0)
	put(t, q, 0, 5)
	f(-1, 0)
	f(0, 5)
	f(4, 1)
	f(5, 0)
	f(math.MaxInt64, 0)
	f(math.MinInt64, 0)
}

// A queue that has no entry has no folder, and until a flush its few entries are in memory.
func TestQueueIsInMemoryUntilWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	table := open(t, consumequeue.Options{Dir: dir})
	q := table.Get(zero)
	check(t, table.Flush())
	put(t, q, 0, 5)
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Fatalf("folder holds %v, %v", names, err)
	}
	check(t, table.Flush())
	info, err := os.Stat(file(dir, 0))
	if err != nil || info.Size() != fileSize {
		t.Fatalf("file %v, %v", info, err)
	}
	put(t, q, 5, 5+205) // a full tail is written without a flush
	if _, err := os.Stat(file(dir, 3)); err != nil {
		t.Error(err)
	}
	check(t, table.Close())
}

func TestPutAgain(t *testing.T) {
	t.Parallel()
	var m consumequeue.Metrics
	table := open(t, consumequeue.Options{Dir: t.TempDir(), Metrics: &m})
	q := table.Get(zero)
	put(t, q, 0, 60)
	check(t, table.Flush())
	put(t, q, 60, 70)
	put(t, q, 0, 70)
	expect(t, q, 0, 70)
	if m.Skipped.Load() != 70 || m.Replaced.Load() != 0 {
		t.Errorf("skipped %d, replaced %d", m.Skipped.Load(), m.Replaced.Load())
	}
	for _, n := range []message.QueueOffset{3, 55, 65, 69} { // in both files and in the tail
		other := consumequeue.Entry{Offset: 1 << 40, Size: 5, TagsCode: 1}
		check(t, q.Put(n, other))
		var got [1]consumequeue.Entry
		if _, err := q.Read(n, got[:]); err != nil || got[0] != other {
			t.Errorf("entry %d is %+v, %v", n, got[0], err)
		}
	}
	if q.LastOffset() != 1<<40+5 {
		t.Errorf("last offset %d", q.LastOffset())
	}
	put(t, q, 0, 70)
	expect(t, q, 0, 70)
	if m.Replaced.Load() != 8 {
		t.Errorf("replaced %d", m.Replaced.Load())
	}
}

// The first entry of a queue may have any number; the units before it in its file are fillers.
func TestFirstEntryNotZero(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var l logged
	table := open(t, consumequeue.Options{Dir: dir, Logger: l.logger()})
	q := table.Get(zero)
	if q.Min() != 0 {
		t.Errorf("min %d of an empty queue", q.Min())
	}
	put(t, q, 120, 130)
	f := func(q *consumequeue.Queue) {
		t.Helper()
		if q.First() != 100 || q.Min() != 120 || q.Max() != 130 || q.LastOffset() != 13000 {
			t.Fatalf("first %d, min %d, max %d, last %d", q.First(), q.Min(), q.Max(), q.LastOffset())
		}
		for i, e := range all(t, q) {
			if i < 20 && !e.Filler() || i >= 20 && e != entry(100+i) {
				t.Errorf("entry %d is %+v", 100+i, e)
			}
		}
	}
	f(q)
	l.expectLines(t, "a gap in a consume queue was filled")
	check(t, table.Close())
	if _, err := os.Stat(file(dir, 1)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("file 1: %v", err)
	}
	table = open(t, consumequeue.Options{Dir: dir})
	f(table.Find([]byte("T"), 0))
	check(t, table.Close())
}

func TestGapIsFilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var m consumequeue.Metrics
	table := open(t, consumequeue.Options{Dir: dir, Metrics: &m})
	q := table.Get(zero)
	put(t, q, 0, 30)
	put(t, q, 130, 140)
	check(t, table.Close())
	if got := m.Fillers.Load(); got != 100 {
		t.Errorf("%d fillers counted, want 100", got)
	}
	table = open(t, consumequeue.Options{Dir: dir})
	q = table.Get(zero)
	if q.First() != 0 || q.Max() != 140 || q.Min() != 0 {
		t.Fatalf("first %d, max %d, min %d", q.First(), q.Max(), q.Min())
	}
	for i, e := range all(t, q) {
		if gap := i >= 30 && i < 130; gap != e.Filler() || !gap && e != entry(i) {
			t.Errorf("entry %d is %+v", i, e)
		}
	}
	for _, min := range []int{0, 29, 30, 100, 129, 130, 135} {
		table.SetLogMin(message.Offset(min) * 100)
		want := message.QueueOffset(min)
		if min >= 30 && min < 130 {
			want = 130
		}
		if got := q.Min(); got != want {
			t.Errorf("log min %d: min %d, want %d", min*100, got, want)
		}
	}
	check(t, table.Close())
}

func TestGapTooLarge(t *testing.T) {
	t.Parallel()
	table := open(t, consumequeue.Options{Dir: t.TempDir()})
	q := table.Get(zero)
	put(t, q, 0, 10)
	if err := q.Put(1<<40, entry(1)); !errors.Is(err, consumequeue.ErrGap) || !strings.Contains(err.Error(), "T/0: entry 1099511627776 behind 10") {
		t.Errorf("error %v", err)
	}
	put(t, q, 10, 20)
	expect(t, q, 0, 20)
}

func TestMinFollowsTheLog(t *testing.T) {
	t.Parallel()
	table := open(t, consumequeue.Options{Dir: t.TempDir()})
	q := table.Get(zero)
	put(t, q, 0, 120)
	check(t, table.Flush())
	put(t, q, 120, 200)
	f := func(logMin message.Offset, want message.QueueOffset) {
		t.Helper()
		table.SetLogMin(logMin)
		if got := q.Min(); got != want {
			t.Errorf("log min %d: min %d, want %d", logMin, got, want)
		}
	}
	f(0, 0)
	f(1, 1)
	f(100, 1)
	f(101, 2)
	f(11900, 119)
	f(15050, 151)
	f(19900, 199)
	f(19901, 200)
	put(t, q, 200, 201)
	f(19901, 200)
	f(1<<40, 201)
}

func TestSearch(t *testing.T) {
	t.Parallel()
	table := open(t, consumequeue.Options{Dir: t.TempDir()})
	q := table.Get(zero)
	put(t, q, 60, 200)
	for want := 60; want <= 200; want++ {
		got, err := q.Search(func(e consumequeue.Entry) bool { return e.Offset < message.Offset(want)*100 })
		if err != nil || got != message.QueueOffset(want) {
			t.Fatalf("found %d, %v, want %d", got, err, want)
		}
	}
}

func TestPutRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	table := open(t, consumequeue.Options{Dir: dir})
	f := func(id consumequeue.ID, at message.QueueOffset, e consumequeue.Entry, want string) {
		t.Helper()
		q := table.Get(id)
		if err := q.Put(at, e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", id.Topic, err, want)
		}
		if q.Max() != 0 {
			t.Errorf("%q: max %d", id.Topic, q.Max())
		}
	}
	for _, topic := range []string{"", ".", "..", "../x", "a/b", "a\x00b", strings.Repeat("x", 256)} {
		f(consumequeue.ID{Topic: topic}, 0, entry(0), "topic")
	}
	f(consumequeue.ID{Topic: "T", QueueID: -1}, 0, entry(0), "queue -1")
	f(zero, -1, entry(0), "entry -1")
	f(zero, 0, consumequeue.Entry{Offset: 5}, "with 0 bytes")
	f(zero, 0, consumequeue.Entry{Offset: -5, Size: 1}, "record at -5")
	check(t, table.Close())
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) != 0 {
		t.Errorf("folder holds %v", names)
	}
}

func TestTopicNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	table := open(t, consumequeue.Options{Dir: dir})
	topics := []string{"%RETRY%group", "..a", "rmq_sys-x", strings.Repeat("x", 255), "\u00e4 %00"}
	for _, topic := range topics {
		put(t, table.Get(consumequeue.ID{Topic: topic, QueueID: 7}), 0, 3)
	}
	check(t, table.Close())
	table = open(t, consumequeue.Options{Dir: dir})
	for _, topic := range topics {
		expect(t, table.Find([]byte(topic), 7), 0, 3)
	}
	check(t, table.Close())
}

func TestDelete(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	table := open(t, consumequeue.Options{Dir: dir})
	old, other := table.Get(zero), table.Get(consumequeue.ID{Topic: "Other"})
	put(t, old, 0, 300)
	put(t, other, 0, 5)
	check(t, table.Flush())
	put(t, old, 300, 310)
	check(t, table.Delete("T"))
	if table.Find([]byte("T"), 0) != nil || table.Len() != 1 {
		t.Error("the queue is still there")
	}
	if err := old.Put(310, entry(310)); !errors.Is(err, consumequeue.ErrDeleted) {
		t.Errorf("put: %v", err)
	}
	check(t, table.Delete("absent"))
	put(t, table.Get(zero), 0, 3)
	check(t, table.Close())
	table = open(t, consumequeue.Options{Dir: dir})
	expect(t, table.Find([]byte("T"), 0), 0, 3)
	expect(t, table.Find([]byte("Other"), 0), 0, 5)
	check(t, table.Close())
}

func TestClosed(t *testing.T) {
	t.Parallel()
	table := open(t, consumequeue.Options{Dir: t.TempDir()})
	q := table.Get(zero)
	check(t, table.Close())
	_, cut := table.Cut(0)
	for name, err := range map[string]error{
		"put": q.Put(0, entry(0)), "flush": table.Flush(), "close": table.Close(), "delete": table.Delete("T"), "cut": cut,
	} {
		if !errors.Is(err, consumequeue.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// ReadNow has what is in memory, and leaves the rest to who may wait.
func TestReadNow(t *testing.T) {
	t.Parallel()
	dir := made(t, 120)
	table := open(t, consumequeue.Options{Dir: dir})
	q := table.Get(zero)
	put(t, q, 120, 125)
	entries := make([]consumequeue.Entry, 10)
	if n, err := q.ReadNow(120, entries); n != 5 || err != nil {
		t.Errorf("entries in memory: %d, %v", n, err)
	}
	if n, err := q.ReadNow(0, entries); n != 0 || err != consumequeue.ErrWouldWait {
		t.Errorf("a file that is not open: %d, %v", n, err)
	}
	if n, err := q.Read(0, entries); n != 10 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	want := entries[3]
	if n, err := q.ReadNow(0, entries); n != 10 || err != nil || entries[3] != want {
		t.Errorf("after it was read: %d, %v", n, err)
	}
	dropCache(t, file(dir, 0))
	switch n, err := q.ReadNow(0, entries); {
	case n == 10 && err == nil:
		t.Log("this file system keeps its pages, or cannot tell")
	case n != 0 || err != consumequeue.ErrWouldWait:
		t.Errorf("not in memory: %d, %v", n, err)
	}
	expect(t, q, 0, 125)
	check(t, table.Close())
}

func dropCache(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	check(t, err)
	defer f.Close()
	check(t, f.Sync())
	check(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
}
