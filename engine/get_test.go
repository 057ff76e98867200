package engine_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"ringmq/engine"
	"ringmq/engine/message"
)

type tagFilter int64

func (f tagFilter) Match(code int64) bool { return code == int64(f) }

// twoTags is a store with 300 messages of 200 bytes in queue 0, every third with tag b, and as many in queue 1 between them.
func twoTags(t testing.TB, o engine.Options) *engine.Store {
	s := open(t, o)
	for i := range 300 {
		tag := "a"
		if i%3 == 0 {
			tag = "b"
		}
		for queue := range int32(2) {
			r := try(t, s, text(testTopic, queue, fmt.Sprintf("%03d %s", i, strings.Repeat(".", 90)), "TAGS\x01"+tag+"\x02"))
			if r.Status != engine.PutOK {
				t.Fatal(r.Err)
			}
		}
	}
	settle(t, s)
	return s
}

func TestGetStatuses(t *testing.T) {
	s := twoTags(t, small(t.TempDir()))
	tagB := tagFilter(message.TagsCode([]byte("b")))
	size := int(records(t, s, testTopic, 0)[0].Size)
	cases := []struct {
		name          string
		topic         string
		from          message.QueueOffset
		max, maxBytes int
		filter        engine.Filter
		status        engine.GetStatus
		next          message.QueueOffset
		count         int
	}{
		{"from the start", testTopic, 0, 32, 1 << 20, nil, engine.Found, 32, 32},
		{"bounded by bytes", testTopic, 0, 32, 5*size + 10, nil, engine.Found, 5, 5},
		{"at least one", testTopic, 7, 32, 1, nil, engine.Found, 8, 1},
		{"the last ones", testTopic, 290, 32, 1 << 20, nil, engine.Found, 300, 10},
		{"one tag", testTopic, 0, 10, 1 << 20, tagB, engine.Found, 28, 10},
		{"one tag, to the end", testTopic, 280, 32, 1 << 20, tagB, engine.Found, 300, 6},
		{"no such tag", testTopic, 0, 32, 1 << 20, tagFilter(1), engine.NoMatched, 300, 0},
		{"at the end", testTopic, 300, 32, 1 << 20, nil, engine.OverflowOne, 300, 0},
		{"beyond the end", testTopic, 301, 32, 1 << 20, nil, engine.OverflowBadly, 300, 0},
		{"below the start", testTopic, -1, 32, 1 << 20, nil, engine.TooSmall, 0, 0},
		{"no such topic", "U", 0, 32, 1 << 20, nil, engine.NoQueue, 0, 0},
	}
	var res engine.GetResult
	for _, c := range cases {
		s.Get([]byte(c.topic), 0, c.from, c.max, c.maxBytes, c.filter, &res)
		if res.Status != c.status || res.Next != c.next || res.Count != c.count || res.Cold {
			t.Errorf("%s: status %d, next %d, %d records, cold %v, want %d, %d, %d", c.name, res.Status, res.Next, res.Count, res.Cold, c.status, c.next, c.count)
		}
		total := 0
		for _, v := range res.Views {
			total += len(v.Bytes)
		}
		if total != res.Bytes || res.Bytes != c.count*size {
			t.Errorf("%s: %d bytes in views, result says %d, want %d", c.name, total, res.Bytes, c.count*size)
		}
		if c.topic == testTopic && (res.Min != 0 || res.Max != 300) {
			t.Errorf("%s: [%d, %d)", c.name, res.Min, res.Max)
		}
		res.Release()
		res.Release() // harmless
	}
}

// Neighbouring records come as one view, others as views of their own, and nothing is allocated.
func TestGetJoinsNeighbours(t *testing.T) {
	o := small(t.TempDir())
	o.SegmentSize = 1 << 20
	s := open(t, o)
	for i := range 100 {
		put(t, s, 0, fmt.Sprint(i))
	}
	for i := range 20 {
		put(t, s, 1, fmt.Sprint(i))
		put(t, s, 2, fmt.Sprint(i))
	}
	settle(t, s)
	var res engine.GetResult
	topic := []byte(testTopic)
	get := func(queue int32) {
		s.Get(topic, queue, 0, 32, 1<<20, nil, &res)
	}
	for queue, want := range []int{1, 20, 20} {
		get(int32(queue))
		if len(res.Views) != want {
			t.Errorf("queue %d: %d views, want %d", queue, len(res.Views), want)
		}
		res.Release()
		if raceEnabled {
			continue
		}
		if n := testing.AllocsPerRun(100, func() { get(int32(queue)); res.Release() }); n > 0 {
			t.Errorf("queue %d: %g allocations", queue, n)
		}
	}
}

// Views stay as they are until they are released, also when the store is closed meanwhile.
func TestViewsOutliveTheStore(t *testing.T) {
	s := twoTags(t, small(t.TempDir()))
	var res engine.GetResult
	s.Get([]byte(testTopic), 0, 0, 10, 1<<20, nil, &res)
	copied := bytes.Clone(res.Views[0].Bytes)
	closeStore(t, s)
	if !bytes.Equal(copied, res.Views[0].Bytes) {
		t.Error("the bytes have changed")
	}
	res.Release()
}

// A record below the readable position that is damaged is never served: it is passed over, and told.
func TestGetPassesOverDamage(t *testing.T) {
	dir := t.TempDir()
	var book logBook
	o := small(dir)
	o.Logger = book.logger()
	s := twoTags(t, o)
	victim := records(t, s, testTopic, 0)[5]
	segment := int64(victim.Offset) / o.SegmentSize * o.SegmentSize
	patch(t, filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", segment)), int(int64(victim.Offset)-segment)+4, []byte{0, 0, 0, 0})
	var got []string
	var res engine.GetResult
	for next := message.QueueOffset(0); next < 10; next = res.Next {
		s.Get([]byte(testTopic), 0, next, 4, 1<<20, nil, &res)
		for _, v := range res.Views {
			for rest := v.Bytes; len(rest) > 0; rest = rest[message.Size(rest):] {
				var r message.Record
				if err := message.Decode(rest[:message.Size(rest)], &r); err != nil {
					t.Fatal(err)
				}
				got = append(got, string(r.Body[:3]))
			}
		}
		res.Release()
	}
	if want := []string{"000", "001", "002", "003", "004", "006", "007", "008"}; !slices.Equal(got[:8], want) {
		t.Errorf("served %q, want %q", got, want)
	}
	if s.Metrics().Damaged.Load() == 0 || !book.has("level=ERROR", "passed over", "number=5") {
		t.Errorf("it was not told:\n%s", book.String())
	}
	if _, ok := s.StoreTime([]byte(testTopic), 0, 5); ok {
		t.Error("a damaged record has a store time")
	}
	if _, ok := s.Record(victim.Offset); ok {
		t.Error("a damaged record is viewed")
	}
}

// Messages whose segment is gone, while their entries are still there, are passed over; when there are only such, they are being removed.
func TestGetWhileRetentionRemoves(t *testing.T) {
	o := small(t.TempDir())
	o.SyncFlush = true
	s := twoTags(t, o)
	if err := s.Log().RemoveFirst(); err != nil {
		t.Fatal(err)
	}
	low := s.Positions().Min
	var res engine.GetResult
	s.Get([]byte(testTopic), 0, 0, 3, 1<<20, nil, &res)
	if res.Status != engine.Found || res.Count != 3 {
		t.Fatalf("status %d, next %d, %d records", res.Status, res.Next, res.Count)
	}
	var r message.Record
	first := res.Views[0].Bytes
	if err := message.Decode(first[:message.Size(first)], &r); err != nil || r.Offset < low {
		t.Errorf("served the record at %d, the log begins at %d, %v", r.Offset, low, err)
	}
	res.Release()
	s.Get([]byte(testTopic), 0, 0, 3, 1<<20, tagFilter(1), &res)
	if res.Status != engine.NoMatched && res.Status != engine.Removing || res.Next <= 3 {
		t.Errorf("status %d, next %d", res.Status, res.Next)
	}
	res.Release()
}

func TestRecordAndStoreTime(t *testing.T) {
	var now atomic.Int64
	now.Store(1000)
	o := small(t.TempDir())
	o.Now = now.Load
	s := open(t, o)
	var stored []engine.PutResult
	for range 10 {
		stored = append(stored, put(t, s, 3, "x"))
		now.Add(10)
	}
	settle(t, s)
	for i, r := range stored {
		if ms, ok := s.StoreTime([]byte(testTopic), 3, r.QueueOffset); !ok || ms != int64(1000+10*i) {
			t.Errorf("number %d: stored at %d, %v", i, ms, ok)
		}
		view, ok := s.Record(r.Offset)
		if !ok || message.Size(view.Bytes) != len(view.Bytes) {
			t.Errorf("no record at %d", r.Offset)
		}
		view.Release()
		if view, ok := s.Record(r.Offset + 1); ok {
			t.Errorf("a record inside of one at %d", r.Offset)
			view.Release()
		}
	}
	for _, number := range []message.QueueOffset{-1, 10, 11} {
		if _, ok := s.StoreTime([]byte(testTopic), 3, number); ok {
			t.Errorf("number %d has a store time", number)
		}
	}
	for _, offset := range []message.Offset{-1, s.Positions().End, s.Positions().End + 100} {
		if _, ok := s.Record(offset); ok {
			t.Errorf("a record at %d", offset)
		}
	}
	search := func(ms int64, first, last message.QueueOffset) {
		t.Helper()
		if got, ok := s.OffsetByTime([]byte(testTopic), 3, ms); !ok || got != first {
			t.Errorf("first from %d: %d, %v, want %d", ms, got, ok, first)
		}
		if got, ok := s.LastOffsetByTime([]byte(testTopic), 3, ms); !ok || got != last {
			t.Errorf("last up to %d: %d, %v, want %d", ms, got, ok, last)
		}
	}
	search(0, 0, 0)
	search(1000, 0, 0)
	search(1001, 1, 0)
	search(1050, 5, 5)
	search(1089, 9, 8)
	search(1090, 9, 9)
	search(5000, 10, 9)
	if _, ok := s.OffsetByTime([]byte("U"), 3, 0); ok {
		t.Error("a topic that is not there has an offset")
	}
}

func TestOpenMakesAStoreFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b", "store")
	s := open(t, small(dir))
	put(t, s, 0, "x")
	closeStore(t, s)
	for _, name := range []string{"commitlog", "consumequeue", "checkpoint", "lock", "ringmq/mark"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}
