package inspect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"sort"
	"time"

	"golang.org/x/sys/unix"

	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
	"ringmq/engine/segment"
)

// Summary is what a look at a store tells. Nothing is checked but what is needed to find the way: sizes, magics, own offsets.
type Summary struct {
	Dir           string
	State         *State
	SegmentSize   int64
	QueueFileSize int64
	Min, End      int64 // of the log: its first byte, and behind the last record that stands there without a gap
	Segments      []SegmentSummary
	Gaps          []Gap
	Queues        []QueueSummary
	KeyFiles      []KeyFileSummary
	Strays        []string
}

// Gap is a stretch of the log that no segment has.
type Gap struct{ From, To int64 }

// SegmentSummary is one file of the log.
type SegmentSummary struct {
	Path, Name     string
	Base, Size     int64
	AllocatedBytes int64
	Modified       time.Time
	Ahead          bool  // nothing is written into it yet
	FirstMS        int64 // store time of its first record, 0 if none stands there
	LastMS         int64 // of its last record
	Err            error // it cannot be read
}

// QueueSummary is one queue.
type QueueSummary struct {
	ID    consumequeue.ID
	Files int
	First int64 // that the files have room for
	Min   int64 // first entry of a record at or above the log's first byte
	Max   int64 // number of the next entry
	Err   error
}

// Stat looks at every file, but reads of each segment only its beginning and its end, and of each queue its last entries.
func (s *Store) Stat(ctx context.Context) (*Summary, error) {
	sum := &Summary{Dir: s.dir, State: &s.State, SegmentSize: s.segmentSize, QueueFileSize: s.queueFileSize, Min: s.logMin(), KeyFiles: s.KeyFiles(), Strays: s.strays}
	known, err := s.statQueues(ctx, sum)
	if err != nil {
		return nil, err
	}
	lastUsed := s.lastUsed()
	sum.End = sum.Min
	next := sum.Min
	for i := range s.segments {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f := &s.segments[i]
		if f.base > next {
			sum.Gaps = append(sum.Gaps, Gap{next, f.base})
		}
		next = f.base + s.segmentSize
		st := SegmentSummary{Path: f.path, Name: f.name, Base: f.base, Size: f.size, Modified: f.modified, Ahead: i > lastUsed}
		if !st.Ahead {
			from := int64(-1)
			if i == lastUsed {
				from = max(known, f.base)
			}
			end := st.look(f, from)
			if i == lastUsed {
				sum.End = end
			}
		}
		st.AllocatedBytes = allocated(f.path)
		sum.Segments = append(sum.Segments, st)
	}
	return sum, nil
}

// look reads the beginning and the end of a segment. With from >= 0 the log may end in it: then its end is found by walking from there,
// which is the place of a record as queues tell it; else the last record is searched backwards. It returns the end of the last record or,
// behind an end record, of the segment.
func (st *SegmentSummary) look(f *segmentFile, from int64) (end int64) {
	m, err := mapFile(f.path, random)
	if err != nil {
		st.Err = err
		return f.base
	}
	defer m.close()
	defer segment.CatchFault(&st.Err, "inspect: segment "+f.name, debug.SetPanicOnFault(true))
	w := &walk{f: f, b: m.bytes}
	end = f.base
	if _, ok := message.Peek(w.b, message.Offset(f.base)); ok {
		st.FirstMS, _ = message.StoreTime(w.b)
	}
	at, size, ok := w.lastFrom(from)
	if ok {
		st.LastMS, _ = message.StoreTime(w.b[at-f.base:])
		end = at + int64(size)
	}
	rest := w.b[end-f.base:]
	if kind, _ := message.Check(rest, message.Offset(end), &w.record); kind == message.Blank || len(rest) < message.BlankLen {
		end = f.base + int64(len(w.b))
	}
	return end
}

// lastFrom finds the last record: that before the first place behind from that holds none, or with from < 0 the last of the segment.
func (w *walk) lastFrom(from int64) (at int64, size int, ok bool) {
	if from < 0 {
		return w.last()
	}
	if _, there := w.peek(from); !there {
		from = w.f.base // the queues tell of a record that is not there
	}
	for n, there := w.peek(from); there; n, there = w.peek(from) {
		at, size, ok = from, n, true
		from += int64(n)
	}
	return at, size, ok
}

func (w *walk) peek(at int64) (size int, ok bool) {
	if at < w.f.base || at-w.f.base >= int64(len(w.b)) {
		return 0, false
	}
	return message.Peek(w.b[at-w.f.base:], message.Offset(at))
}

func allocated(path string) int64 {
	var stat unix.Stat_t
	if unix.Lstat(path, &stat) != nil {
		return 0
	}
	return stat.Blocks * 512
}

// statQueues returns the greatest offset of a record that a queue's last entry points to.
func (s *Store) statQueues(ctx context.Context, sum *Summary) (known int64, err error) {
	known = -1
	buf := make([]byte, maxScanRead)
	for _, q := range s.queues {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		st := QueueSummary{ID: q.id, Files: len(q.files), First: q.first()}
		last, err := st.find(q, sum.Min, buf)
		if err != nil && !(s.State.InUse() && errors.Is(err, fs.ErrNotExist)) {
			st.Err = err
		}
		known = max(known, last)
		sum.Queues = append(sum.Queues, st)
	}
	return known, nil
}

// find finds minimum and maximum of a queue. last is the offset in the last entry that is no filler, as far as that is seen, else -1.
func (st *QueueSummary) find(q *queue, logMin int64, buf []byte) (last int64, err error) {
	st.Min, st.Max, last = st.First, st.First, -1
	one := make([]consumequeue.Entry, 1)
	for i := len(q.files) - 1; i >= 0; i-- { // the last file that has entries
		n, err := q.read(q.files[i].first(), one, buf)
		if err != nil {
			return -1, err
		}
		if n == 0 {
			continue
		}
		st.Max, err = q.files[i].scan(q.files[i].first(), buf, func(_ int64, e consumequeue.Entry) error {
			if !e.Filler() {
				last = int64(e.Offset)
			}
			return nil
		})
		if err != nil {
			return -1, err
		}
		break
	}
	st.Min = st.First + int64(sort.Search(int(st.Max-st.First), func(i int) bool {
		n, readErr := q.read(st.First+int64(i), one, buf)
		if readErr != nil {
			err = readErr
		}
		return n == 1 && int64(one[0].Offset) >= logMin && !one[0].Filler()
	}))
	return last, err
}

// timeText is a time of the store as people read it.
func timeText(ms int64) string {
	if ms == 0 {
		return "0"
	}
	if ms < 0 || ms > maxTimeMS {
		return fmt.Sprintf("%d ms", ms)
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

const maxTimeMS = 253_402_300_799_999 // the end of the year 9999
