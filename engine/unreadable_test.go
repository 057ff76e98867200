package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringmq/engine"
	"ringmq/engine/message"
)

// What the disk cannot read again is passed over as damage and told; it never ends the process. A file that has become shorter below its
// mapping faults as a bad sector does.
func TestUnreadableMessagesArePassedOver(t *testing.T) {
	for _, old := range []bool{true, false} {
		t.Run(fmt.Sprintf("old=%v", old), func(t *testing.T) {
			o := small(t.TempDir())
			var book logBook
			o.Logger = book.logger()
			s := open(t, o)
			const readable = 8192
			var want []string
			var lost message.Offset = -1
			for i := range 200 {
				body := fmt.Sprintf("%03d %s", i, strings.Repeat(".", 900))
				r := put(t, s, 0, body)
				switch end := r.Offset + 1100; {
				case end < readable || r.Offset >= message.Offset(o.SegmentSize):
					want = append(want, body)
				case lost < 0 && r.Offset > readable:
					lost = r.Offset
				}
			}
			settle(t, s)
			if old {
				engine.AskAlways(s)
			}
			if err := os.Truncate(filepath.Join(o.Dir, "commitlog", fmt.Sprintf("%020d", 0)), readable); err != nil {
				t.Fatal(err)
			}
			served := 0 // without a look at the bytes: of what was appended just now, only the heads are touched before it is sent
			var res engine.GetResult
			for next := message.QueueOffset(0); next < 200; next = res.Next {
				s.Get([]byte(testTopic), 0, next, 32, 1<<20, nil, &res)
				served += res.Count
				res.Release()
			}
			if served < len(want) || served > len(want)+2 {
				t.Errorf("serves %d messages, want the %d that can be read", served, len(want))
			}
			if n := s.Metrics().Damaged.Load(); int(n) != 200-served || !book.has("level=ERROR", "damaged") {
				t.Errorf("%d damaged, want %d; told:\n%s", n, 200-served, book.String())
			}
			if old {
				if got := bodies(records(t, s, testTopic, 0)); got[0] != want[0] || got[len(got)-1] != want[len(want)-1] {
					t.Errorf("serves %q to %q", got[0], got[len(got)-1])
				}
			}
			if _, ok := s.Record(lost); ok {
				t.Error("a record that cannot be read is viewed")
			}
			number := message.QueueOffset(20)
			if _, ok := s.StoreTime([]byte(testTopic), 0, number); ok {
				t.Error("a record that cannot be read has a store time")
			}
			if _, ok := s.OffsetByTime([]byte(testTopic), 0, 1); !ok {
				t.Error("the search by time has failed")
			}
			if old && s.GetNow([]byte(testTopic), 0, number, 32, 1<<20, nil, &res) {
				t.Errorf("without waiting: %+v", res)
			}
			if s.Latched() != nil {
				t.Error(s.Latched())
			}
		})
	}
}

// Who must not wait is told so before anything is touched that is not in memory, and finds it there when somebody else has read it.
func TestGetNowDoesNotWait(t *testing.T) {
	s := twoTags(t, small(t.TempDir()))
	engine.AskAlways(s)
	topic := []byte(testTopic)
	var res engine.GetResult
	if !s.GetNow(topic, 0, 0, 32, 1<<20, nil, &res) || res.Count != 32 {
		t.Fatalf("what was just written is not in memory: %+v", res)
	}
	res.Release()
	if err := s.Log().Segments().First().Refresh(0); err != nil {
		t.Fatal(err)
	}
	if s.GetNow(topic, 0, 0, 32, 1<<20, nil, &res) {
		res.Release()
		t.Skip("this file system keeps its pages")
	}
	gets := s.Metrics().Gets.Load()
	s.Get(topic, 0, 0, 32, 1<<20, nil, &res)
	if res.Count != 32 || !res.Cold || s.Metrics().ColdGets.Load() != 1 || s.Metrics().Gets.Load() != gets+1 {
		t.Errorf("read from the disk: %d records, cold %v", res.Count, res.Cold)
	}
	res.Release()
	if !s.GetNow(topic, 0, 0, 32, 1<<20, nil, &res) || res.Count != 32 || res.Cold {
		t.Errorf("after it was read: %d records, cold %v", res.Count, res.Cold)
	}
	res.Release()
	if n := testing.AllocsPerRun(100, func() {
		s.GetNow(topic, 0, 0, 32, 1<<20, nil, &res)
		res.Release()
	}); n != 0 && !raceEnabled {
		t.Errorf("%v allocations", n)
	}
}
