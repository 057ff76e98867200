package engine_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"ringmq/engine/message"
)

// The last of 100 records torn in every shape, with its queue entry there, absent, or there with one more behind it, after a kill or
// not: 99 messages are left, and the next one gets the number of the one that was lost.
func TestTornLastRecord(t *testing.T) {
	const bodyAt = 88 // of a V1 record with IPv4 hosts: the body's bytes
	shapes := []struct {
		name string
		tear func(segment, last []byte) // both are of the file: all of it, and the last record
	}{
		{"last byte zero", func(_, last []byte) { last[len(last)-1] = 0 }},
		{"last 150 bytes zero", func(_, last []byte) { clear(last[len(last)-150:]) }},
		{"only the size", func(_, last []byte) { clear(last[4:]) }},
		{"size and magic", func(_, last []byte) { clear(last[8:]) }},
		{"no topic, no properties", func(_, last []byte) { clear(last[bodyAt+bodyLen(last):]) }},
		{"no properties", func(_, last []byte) { clear(last[bodyAt+bodyLen(last)+1+len(testTopic)+2:]) }},
		{"a bit of the body", func(_, last []byte) { last[bodyAt] ^= 1 }},
		{"size beyond the segment", func(segment, last []byte) { binary.BigEndian.PutUint32(last, uint32(len(segment))) }},
		{"own offset wrong", func(_, last []byte) { last[35] ^= 1; last[34] ^= 1 }},
	}
	entries := []struct {
		name  string
		alter func(h *handmade)
	}{
		{"entry there", func(*handmade) {}},
		{"entry absent", func(h *handmade) { h.dropEntry() }},
		{"entry of a record that never was", func(h *handmade) {
			last := h.records[99]
			h.queues[last.id] = append(h.queues[last.id], unit(last.at+last.size, 300, 0)...)
		}},
	}
	for _, shape := range shapes {
		for _, entry := range entries {
			for _, killed := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%s/killed=%v", shape.name, entry.name, killed), func(t *testing.T) {
					t.Parallel()
					h := newHandmade(t, 64<<10, 1000)
					for i := range 100 {
						h.add(int32(i%4), 300, int64(1000+i))
					}
					last := h.records[99]
					whole := slices.Clone(h.log[last.at:])
					entry.alter(h)
					h.log = append(h.log, make([]byte, 64<<10-len(h.log))...)
					shape.tear(h.log, h.log[last.at:last.at+last.size])
					torn := slices.Equal(whole, h.log[last.at:last.at+last.size])
					if torn {
						t.Fatal("BUG: the shape changed nothing")
					}
					h.write(killed)
					checkTornLast(t, h)
				})
			}
		}
	}
}

func bodyLen(rec []byte) int { return int(binary.BigEndian.Uint32(rec[84:])) }

func (h *handmade) dropEntry() {
	last := h.records[len(h.records)-1]
	h.queues[last.id] = h.queues[last.id][:last.number*20]
}

func checkTornLast(t *testing.T, h *handmade) {
	o := small(h.dir)
	o.QueueFileSize = 20_000
	s := open(t, o)
	for queue := range int32(4) {
		if got, want := bodies(records(t, s, testTopic, queue)), h.want(queue, 99); !slices.Equal(got, want) {
			t.Errorf("queue %d serves %d messages, want %d: %q", queue, len(got), len(want), got)
		}
	}
	last := h.records[99]
	if end := s.Positions().End; int(end) != last.at {
		t.Errorf("the log ends at %d, want %d", end, last.at)
	}
	if _, err := os.Stat(filepath.Join(h.dir, "ringmq", "cut", fmt.Sprintf("%020d", last.at))); err != nil {
		t.Errorf("what was cut was not kept: %v", err)
	}
	if r := put(t, s, last.id.QueueID, "next"); int(r.QueueOffset) != last.number || int(r.Offset) != last.at {
		t.Errorf("the next message got number %d at %d, want %d at %d", r.QueueOffset, r.Offset, last.number, last.at)
	}
	audit(t, s)
	kill(t, s, h.dir)
	s = open(t, o)
	if s.Recovery().CutBytes != 0 || len(s.Recovery().Damaged) != 0 {
		t.Errorf("second recovery %+v, want a whole log", s.Recovery())
	}
	audit(t, s)
}

// kill leaves the store as the end of the process would: the page cache has all that was appended, the abort file is there, the mark is
// what was saved last.
func kill(t testing.TB, s interface{ Close() error }, dir string) {
	t.Helper()
	mark, err := os.ReadFile(filepath.Join(dir, "ringmq", "mark"))
	if err != nil {
		t.Fatal(err)
	}
	checkpoint, err := os.ReadFile(filepath.Join(dir, "checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "ringmq", "mark"), mark)
	writeFile(t, filepath.Join(dir, "checkpoint"), checkpoint)
	writeFile(t, filepath.Join(dir, "abort"), []byte("1"))
}

// A record that is torn in the middle of the log, below the last segment or below the mark, is damage: what stands behind it is kept.
func TestDamageInTheMiddleIsSkipped(t *testing.T) {
	t.Parallel()
	h := newHandmade(t, 64<<10, 1000)
	for i := range 600 {
		h.add(int32(i%4), 300, int64(1000+i))
	}
	victim := h.records[100]
	clear(h.log[victim.at+100 : victim.at+200])
	h.write(true)
	o := small(h.dir)
	o.QueueFileSize = 20_000
	var book logBook
	o.Logger = book.logger()
	s := open(t, o)
	got := s.Recovery().Damaged
	if len(got) != 1 || int(got[0].From) != victim.at || int(got[0].To) != victim.at+victim.size {
		t.Fatalf("damaged %+v, want record 100 at %d", got, victim.at)
	}
	for queue := range int32(4) {
		want := slices.DeleteFunc(h.want(queue, 600), func(body string) bool { return body == victim.body })
		if got := bodies(records(t, s, testTopic, queue)); !slices.Equal(got, want) {
			t.Errorf("queue %d serves %d messages, want %d", queue, len(got), len(want))
		}
	}
	if !book.has("level=ERROR", "damaged", fmt.Sprint("from=", victim.at)) {
		t.Error("the damage was not told")
	}
	if s.Metrics().Damaged.Load() == 0 {
		t.Error("the entry of the damaged message was not counted")
	}
	audit(t, s)
}

// A stale record behind the end of an own store, at or above the mark, does not come back: the torn place before it is the end.
func TestTornTailHidesWhatFollows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := small(dir)
	s := open(t, o)
	first := put(t, s, 0, "kept")
	settle(t, s)
	closeStore(t, s)
	s = open(t, o)
	mark, err := os.ReadFile(filepath.Join(dir, "ringmq", "mark"))
	if err != nil {
		t.Fatal(err)
	}
	torn := put(t, s, 0, "torn")
	put(t, s, 0, "behind")
	settle(t, s)
	closeStore(t, s)
	writeFile(t, filepath.Join(dir, "ringmq", "mark"), mark)
	writeFile(t, filepath.Join(dir, "abort"), nil)
	patch(t, filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", 0)), int(torn.Offset)+90, []byte{0xff})

	s = open(t, o)
	if got := bodies(records(t, s, testTopic, 0)); !slices.Equal(got, []string{"kept"}) {
		t.Errorf("served %q, want the message before the torn one", got)
	}
	if s.Positions().End != torn.Offset || s.Recovery().CutBytes == 0 {
		t.Errorf("end %d, recovery %+v", s.Positions().End, s.Recovery())
	}
	if _, ok := s.Record(first.Offset); !ok {
		t.Error("the first record is gone")
	}
	if r := put(t, s, 0, "next"); r.Offset != torn.Offset || r.QueueOffset != message.QueueOffset(1) {
		t.Errorf("next at %d number %d", r.Offset, r.QueueOffset)
	}
	audit(t, s)
}

// A Java broker that was killed while it copied a record takes it for whole if only its properties are torn, and goes on behind it: what it
// acknowledged then is not cut, whether its queue entries are there or not.
func TestTornRecordThatAJavaBrokerWentOnBehind(t *testing.T) {
	for _, entries := range []bool{true, false} {
		for _, killed := range []bool{true, false} {
			t.Run(fmt.Sprintf("entries=%v/killed=%v", entries, killed), func(t *testing.T) {
				t.Parallel()
				h := newHandmade(t, 64<<10, 1000)
				for i := range 100 {
					h.add(int32(i%4), 300, int64(1000+i))
				}
				torn := h.records[60]
				clear(h.log[torn.at+torn.size-8 : torn.at+torn.size])
				if !entries {
					clear(h.queues)
				}
				h.write(killed)
				o := small(h.dir)
				o.QueueFileSize = 20_000
				s := open(t, o)
				for queue := range int32(4) {
					if got, want := bodies(records(t, s, testTopic, queue)), h.want(queue, 100); !slices.Equal(got, want) {
						t.Errorf("queue %d serves %d messages, want %d", queue, len(got), len(want))
					}
				}
				if r := s.Recovery(); r.CutBytes != 0 || len(r.Damaged) != 0 || r.Records != 100 {
					t.Errorf("recovery %+v", r)
				}
				if r := put(t, s, 0, "next"); r.QueueOffset != 25 || r.Offset != message.Offset(len(h.log)) {
					t.Errorf("the next message got number %d at %d", r.QueueOffset, r.Offset)
				}
				settle(t, s)
				closeStore(t, s)
				s = open(t, o) // now it is a store of ours
				if got, want := bodies(records(t, s, testTopic, 0)), append(h.want(0, 100), "next"); !slices.Equal(got, want) {
					t.Errorf("at the second opening queue 0 serves %d messages, want %d", len(got), len(want))
				}
			})
		}
	}
}
