package engine_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ringmq/engine"
	"ringmq/engine/checkpoint"
	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
	"ringmq/engine/retention"
	"ringmq/engine/segment"
	"ringmq/engine/segment/memstore"
	"ringmq/internal/fixture"
)

// aging are options of a store whose segments expire when its clock says so, and not by themselves: there are no hours, only orders.
func aging(dir string, clock *atomic.Int64, book *logBook) engine.Options {
	o := small(dir)
	clock.Store(time.Now().UnixMilli()) // files are dated by the machine's clock
	o.Now = clock.Load
	if book != nil {
		o.Logger = book.logger()
	}
	o.DiskUsage = func(string) (float64, error) { return 0.5, nil }
	o.Retention = func() engine.RetentionSettings {
		r := retention.Defaults()
		r.DeleteWhen = fmt.Sprintf("%02d", (time.UnixMilli(clock.Load()).Hour()+12)%24)
		r.IntervalMS, r.PauseMS, r.BatchMax = 10, 0, 1000
		return r
	}
	return o
}

const threeDays = 72 * 3_600_000

// expire orders all to go that is expired and waits until the log begins at low and nothing more goes.
func expire(t testing.TB, s *engine.Store, low message.Offset) {
	t.Helper()
	s.DeleteExpired()
	until(t, func() bool { return s.Positions().Min >= low })
	if got := s.Positions().Min; got != low {
		t.Fatalf("the log begins at %d, want %d", got, low)
	}
}

func until(t testing.TB, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(200 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come to pass")
		}
	}
}

// fillSegments puts messages of about a kilobyte into two queues until the log has so many whole segments; before them one into queue 7.
func fillSegments(t testing.TB, s *engine.Store, segments int) {
	t.Helper()
	put(t, s, 7, "early")
	for i := 0; s.Positions().End < message.Offset(segments)*message.Offset(s.Options().SegmentSize)+5000; i++ {
		put(t, s, int32(i%2), fmt.Sprintf("%05d %s", i, strings.Repeat(".", 900)))
	}
	settle(t, s)
}

// firstReadable is the first message of a queue whose record is in the log, found without a look at Min.
func firstReadable(s *engine.Store, q *consumequeue.Queue) message.QueueOffset {
	var entry [1]consumequeue.Entry
	for at := q.First(); at < q.Max(); at++ {
		if n, err := q.Read(at, entry[:]); err == nil && n == 1 && !entry[0].Filler() && entry[0].Offset >= s.Positions().Min {
			return at
		}
	}
	return q.Max()
}

// queueFiles are how many files a queue has, and the first one's number.
func queueFiles(t testing.TB, o engine.Options, queue int32) (count int, first int64) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(o.Dir, "consumequeue", testTopic, fmt.Sprint(queue), "*"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	if len(names) == 0 {
		return 0, -1
	}
	base, _ := segment.ParseName(filepath.Base(names[0]))
	return len(names), base / o.QueueFileSize
}

// Expired segments go, the one that is appended to stays, every queue's minimum is its first readable message at once, and what is gone from the
// queues, too, has gone from the disk.
func TestRetention(t *testing.T) {
	t.Parallel()
	for _, mapped := range []bool{false, true} {
		t.Run(fmt.Sprintf("mapped=%v", mapped), func(t *testing.T) {
			var clock atomic.Int64
			var book logBook
			o := aging(t.TempDir(), &clock, &book)
			o.MappedAppend = mapped
			size := message.Offset(o.SegmentSize)
			s := open(t, o)
			fillSegments(t, s, 5)
			s.DeleteExpired()
			clock.Add(threeDays - 3_600_000)
			s.DeleteExpired()
			put(t, s, 0, "young")
			settle(t, s)
			if got := s.Positions().Min; got != 0 {
				t.Fatalf("a segment went before its time: the log begins at %d", got)
			}
			clock.Add(2 * 3_600_000)
			expire(t, s, 5*size)
			for _, queue := range []int32{0, 1, 7} {
				q := s.Queue([]byte(testTopic), queue)
				if got, want := q.Min(), firstReadable(s, q); got != want {
					t.Errorf("queue %d: min is %d, the first readable message %d", queue, got, want)
				}
			}
			gone := s.Queue([]byte(testTopic), 7)
			if gone.Min() != 1 || gone.Max() != 1 {
				t.Errorf("the queue without a message is [%d, %d), want [1, 1)", gone.Min(), gone.Max())
			}
			var res engine.GetResult
			s.Get([]byte(testTopic), 0, 3, 32, 1<<20, nil, &res)
			if low := s.Queue([]byte(testTopic), 0).Min(); res.Status != engine.TooSmall || res.Next != low || res.Min != low {
				t.Errorf("at a removed number: status %d, next %d, min %d, want %d", res.Status, res.Next, res.Min, low)
			}
			s.Get([]byte(testTopic), 7, 0, 32, 1<<20, nil, &res)
			if res.Status != engine.TooSmall || res.Next != 1 {
				t.Errorf("queue without a message: status %d, next %d", res.Status, res.Next)
			}
			until(t, func() bool { n, first := queueFiles(t, o, 0); return n == 1 && first == 1 })
			if n, first := queueFiles(t, o, 7); n != 1 || first != 0 {
				t.Errorf("queue 7 has %d files, the first %d: its last one must stay", n, first)
			}
			for i := range 5 {
				name := segment.Name(int64(i) * o.SegmentSize)
				if exists(t, filepath.Join(o.Dir, "commitlog", name)) {
					t.Errorf("segment %s is still there", name)
				}
				if !book.has("a segment of the commit log was removed", "segment="+name, "age=7", `reason="expired, by order"`) {
					t.Errorf("no line about segment %s:\n%s", name, book.String())
				}
			}
			if r := put(t, s, 7, "later"); r.QueueOffset != 1 {
				t.Errorf("the next message of queue 7 got number %d", r.QueueOffset)
			}
			audit(t, s)
			closeStore(t, s)
			s = open(t, o)
			if r := s.Recovery(); r.Records != 0 || r.FirstOpening || !r.Clean {
				t.Errorf("recovery %+v", r)
			}
			audit(t, s)
		})
	}
}

// The age is that of the last record, if its file is older: here all files are dated back.
func TestRetentionBelievesTheRecord(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	o := aging(t.TempDir(), &clock, nil)
	s := open(t, o)
	fillSegments(t, s, 3)
	for i := range 3 {
		name := filepath.Join(o.Dir, "commitlog", segment.Name(int64(i)*o.SegmentSize))
		if err := os.Chtimes(name, time.Time{}, time.UnixMilli(1)); err != nil {
			t.Fatal(err)
		}
	}
	s.DeleteExpired()
	put(t, s, 0, "x")
	settle(t, s)
	if got := s.Positions().Min; got != 0 {
		t.Errorf("the log begins at %d", got)
	}
	clock.Add(threeDays)
	expire(t, s, 3*message.Offset(o.SegmentSize))
}

// On a disk that is too full expired segments go at any hour, above the next ratio all but the last, and only as many as it takes.
func TestRetentionOnAFullDisk(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	var used atomic.Int64 // percent, beside what the segments take: 2 percent each
	var book logBook
	dir := t.TempDir()
	o := aging(dir, &clock, &book)
	o.DiskWarningRatio = 0.90
	o.DiskUsage = func(string) (float64, error) {
		names, err := os.ReadDir(filepath.Join(dir, "commitlog"))
		return float64(used.Load()+2*int64(len(names))) / 100, err
	}
	used.Store(10)
	s := open(t, o)
	size := message.Offset(o.SegmentSize)
	fillSegments(t, s, 6) // 6 full ones, the one that is appended to, and one ahead
	used.Store(75)
	expire(t, s, 3*size) // 75 % and 5 segments is no longer above 85 %
	if !book.has("reason=\"the disk is 91.0 % full, diskSpaceCleanForciblyRatio is 85.0 %: the age does not matter\"") {
		t.Errorf("lines:\n%s", book.String())
	}
	used.Store(100)
	expire(t, s, 6*size)
	until(t, func() bool { return book.has("level=WARN", "no segment of the commit log can be removed") })
	until(t, func() bool {
		r := try(t, s, text(testTopic, 0, "x", ""))
		return r.Status == engine.Unavailable && strings.Contains(r.Err.Error(), "104.0 %")
	})
	used.Store(10)
	until(t, func() bool { return try(t, s, text(testTopic, 0, "x", "")).Status == engine.PutOK })
	audit(t, s)
}

// A slow reader keeps the bytes of a segment that goes.
func TestSlowReaderOfAnExpiredSegment(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	o := aging(t.TempDir(), &clock, nil)
	s := open(t, o)
	fillSegments(t, s, 3)
	var res engine.GetResult
	s.Get([]byte(testTopic), 0, 0, 32, 1<<20, nil, &res)
	if res.Status != engine.Found || res.Count < 20 {
		t.Fatalf("status %d, %d records", res.Status, res.Count)
	}
	clock.Add(threeDays + 3_600_000)
	expire(t, s, 3*message.Offset(o.SegmentSize))
	closeStore(t, s)
	next := message.QueueOffset(0)
	for _, view := range res.Views {
		for rest := view.Bytes; len(rest) > 0; next++ {
			var r message.Record
			kind, err := message.Check(rest[:message.Size(rest)], message.Offset(bytesOffset(rest)), &r)
			if kind != message.Whole || r.QueueOffset != next {
				t.Fatalf("number %d: %v, %v", next, kind, err)
			}
			rest = rest[r.Size:]
		}
	}
	res.Release()
}

// bytesOffset is the offset that a record says it has.
func bytesOffset(record []byte) int64 {
	var r message.Record
	if err := message.Decode(record[:message.Size(record)], &r); err != nil {
		return -1
	}
	return int64(r.Offset)
}

// A kill at any step of a removal: between segments, before the queues were told, before and after the mark, between queue files. Each state
// is opened, and has every message that is in its log, and goes on with the right numbers. Only a mark that was there before all this may cost a walk.
func TestKillsDuringRetention(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	o := aging(t.TempDir(), &clock, nil)
	before, after := filepath.Join(t.TempDir(), "before"), filepath.Join(t.TempDir(), "after")
	s := open(t, o)
	fillSegments(t, s, 5)
	max0 := s.Queue([]byte(testTopic), 0).Max()
	clock.Add(threeDays + 3_600_000)
	expire(t, s, 5*message.Offset(o.SegmentSize))
	until(t, func() bool { n, _ := queueFiles(t, o, 0); return n == 1 })
	copyTree(t, o.Dir, after)
	closeStore(t, s)

	// The same run without the removal, for what it took away: it is not deterministic but for the numbers and places of records.
	o.Dir = before
	s = open(t, o)
	fillSegments(t, s, 5)
	if got := s.Queue([]byte(testTopic), 0).Max(); got != max0 {
		t.Fatalf("BUG: %d messages, then %d", max0, got)
	}
	lastOfFile := message.Offset(0) // the last record that an entry of the first queue files points to
	for queue := range int32(2) {
		var entry [1]consumequeue.Entry
		if n, err := s.Queue([]byte(testTopic), queue).Read(message.QueueOffset(o.QueueFileSize/20-1), entry[:]); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		lastOfFile = max(lastOfFile, entry[0].Offset)
	}
	for _, mark := range []string{"old mark", "new mark"} {
		if mark == "new mark" {
			clock.Add(2 * threeDays)
			waitMark(t, s, o)
		}
		base := filepath.Join(t.TempDir(), "base")
		copyTree(t, before, base)
		for gone := range 6 {
			for files := range 2 {
				if files > 0 && lastOfFile >= message.Offset(gone)*message.Offset(o.SegmentSize) {
					continue // it has entries of records that are there
				}
				t.Run(fmt.Sprintf("%s/%d segments/%d files", mark, gone, files), func(t *testing.T) {
					killed := aging(filepath.Join(t.TempDir(), "store"), new(atomic.Int64), nil)
					copyTree(t, base, killed.Dir)
					for i := range gone {
						remove(t, filepath.Join(killed.Dir, "commitlog", segment.Name(int64(i)*o.SegmentSize)))
					}
					for queue := range 2 {
						if files > 0 {
							remove(t, filepath.Join(killed.Dir, "consumequeue", testTopic, fmt.Sprint(queue), segment.Name(0)))
						}
					}
					checkKilled(t, killed, message.Offset(gone)*message.Offset(o.SegmentSize), max0)
				})
			}
		}
	}
	closeStore(t, s)
	killed := aging(after, new(atomic.Int64), nil)
	if r := checkKilled(t, killed, 5*message.Offset(o.SegmentSize), max0); r.From < 5*message.Offset(o.SegmentSize) {
		t.Errorf("recovery %+v", r)
	}
}

// waitMark has the mark say all there is, by an order that finds only segments which it may not have.
func waitMark(t testing.TB, s *engine.Store, o engine.Options) {
	t.Helper()
	if err := engine.Keep(s); err != nil {
		t.Fatal(err)
	}
	if m, ok, err := checkpoint.LoadMark(filepath.Join(o.Dir, "ringmq", "mark")); !ok || err != nil || m.Dispatched != s.Positions().End {
		t.Fatalf("mark %+v, %v, %v", m, ok, err)
	}
}

func checkKilled(t *testing.T, o engine.Options, low message.Offset, max0 message.QueueOffset) engine.Recovery {
	t.Helper()
	s := open(t, o)
	if got := s.Positions().Min; got != low {
		t.Errorf("the log begins at %d, want %d", got, low)
	}
	if got := s.Queue([]byte(testTopic), 0).Max(); got != max0 {
		t.Errorf("max of queue 0 is %d, want %d", got, max0)
	}
	for queue := range int32(2) {
		q := s.Queue([]byte(testTopic), queue)
		if got, want := q.Min(), firstReadable(s, q); got != want {
			t.Errorf("queue %d: min is %d, the first readable message %d", queue, got, want)
		}
	}
	audit(t, s)
	r := s.Recovery()
	closeStore(t, s)
	return r
}

// Nothing goes that a start after a kill could need: at the moment of each removal the mark on the device is past the segment, and knows itself
// by a record behind it. Power cuts in the middle of a removal leave a store that opens and has all the rest, also when the name comes back.
func TestRetentionStaysBehindTheMark(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	o := aging(t.TempDir(), &clock, nil)
	disk := &watched{Storage: memstore.New()}
	o.Storage = func(string) (segment.Storage, error) { return disk, nil }
	o.SyncFlush = true
	// Rounds of the keeper never come by themselves.
	o.QueueFlush = func() engine.QueueFlushSettings {
		return engine.QueueFlushSettings{IntervalMS: 1 << 40, ThoroughIntervalMS: 1 << 40, LeastPages: 1}
	}
	s := open(t, o)
	fillSegments(t, s, 4)
	rng := rand.New(rand.NewPCG(1, 2))
	var cuts []engine.Options
	size := message.Offset(o.SegmentSize)
	disk.removing = func(name string, done bool) {
		base, _ := segment.ParseName(name)
		m, ok, err := checkpoint.LoadMark(filepath.Join(o.Dir, "ringmq", "mark"))
		if end := message.Offset(base) + size; !ok || err != nil || m.Dispatched < end || m.Last < end || m.Flushed < end {
			t.Errorf("segment %s goes while the mark is %+v, %v", name, m, err)
		}
		cut := o
		cut.Dir = filepath.Join(t.TempDir(), "store")
		copyTree(t, o.Dir, cut.Dir)
		clone := disk.CrashClone(rng, 50)
		cut.Storage = func(string) (segment.Storage, error) { return clone, nil }
		cuts = append(cuts, cut)
	}
	max0 := s.Queue([]byte(testTopic), 0).Max()
	clock.Add(threeDays + 3_600_000)
	expire(t, s, 4*size)
	closeStore(t, s)
	if len(cuts) != 8 {
		t.Fatalf("%d cuts", len(cuts))
	}
	for i, cut := range cuts {
		cut.Now = nil
		s := open(t, cut)
		if low := s.Positions().Min; low != message.Offset(i/2)*size && low != message.Offset(i/2+1)*size {
			t.Errorf("cut %d: the log begins at %d", i, low)
		}
		if got := s.Queue([]byte(testTopic), 0).Max(); got != max0 {
			t.Errorf("cut %d: max is %d, want %d", i, got, max0)
		}
		if r := s.Recovery(); r.FirstOpening {
			t.Errorf("cut %d: recovery %+v", i, r)
		}
		audit(t, s)
		closeStore(t, s)
	}
}

// watched is told of removals, before and after.
type watched struct {
	*memstore.Storage
	removing func(name string, done bool)
}

func (w *watched) Remove(name string) error {
	if w.removing == nil {
		return w.Storage.Remove(name)
	}
	w.removing(name, false)
	err := w.Storage.Remove(name)
	w.removing(name, true)
	return err
}

// Segments go while others put and pull: every message that is pulled is whole and in order, and pulls that are too slow are sent on.
func TestRetentionUnderLoad(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	o := aging(t.TempDir(), &clock, nil)
	o.DiskUsage = func(string) (float64, error) { return 0.87, nil } // all but the last segment are always due
	s := open(t, o)
	s.DeleteExpired()
	stop := make(chan struct{})
	var load sync.WaitGroup
	defer load.Wait()
	end := sync.OnceFunc(func() { close(stop) })
	defer end()
	for queue := range int32(3) {
		load.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					put(t, s, queue, strings.Repeat("x", 100+i%3000))
				}
			}
		})
		load.Go(func() {
			if err := follow(s, queue, stop); err != nil {
				t.Error(err)
			}
		})
	}
	until(t, func() bool { return s.Positions().Min >= 40*message.Offset(o.SegmentSize) })
	end()
	load.Wait()
	closeStore(t, s)
	o.DiskUsage = func(string) (float64, error) { return 0, nil } // nothing more goes while it is looked at
	audit(t, open(t, o))
}

// follow pulls a queue as a consumer does.
func follow(s *engine.Store, queue int32, stop <-chan struct{}) error {
	var res engine.GetResult
	for next := message.QueueOffset(0); ; {
		select {
		case <-stop:
			return nil
		default:
		}
		s.Get([]byte(testTopic), queue, next, 16, 1<<20, nil, &res)
		for _, view := range res.Views {
			for rest := bytes.Clone(view.Bytes); len(rest) > 0; {
				var r message.Record
				if err := message.Decode(rest[:message.Size(rest)], &r); err != nil || r.QueueOffset < next || r.QueueID != queue {
					return fmt.Errorf("queue %d at %d: a record of queue %d at %d, %v", queue, next, r.QueueID, r.QueueOffset, err)
				}
				next, rest = r.QueueOffset+1, rest[r.Size:]
			}
		}
		res.Release()
		if res.Status != engine.NoQueue && res.Status != engine.NoMessage {
			if res.Next < next {
				return fmt.Errorf("queue %d: status %d sends from %d back to %d", queue, res.Status, next, res.Next)
			}
			next = res.Next
		}
	}
}

// A store of a Java broker loses what the Java broker lost in the same place: all segments but the last. Of queues without a message there, the
// minimum is the maximum, where 4.9.7 goes on to say 0.
func TestRetentionOfAJavaStore(t *testing.T) {
	t.Parallel()
	dir, want := fixture.Store(t, "4.9.7", "clean"), fixture.Expected(t, "4.9.7", "clean")
	var clock atomic.Int64
	o := fixtureOptions(t, dir, want)
	aged := aging(dir, &clock, nil)
	o.Now, o.DiskUsage = aged.Now, aged.DiskUsage
	o.Retention = func() engine.RetentionSettings {
		r := aged.Retention()
		r.ReservedMS = 0
		return r
	}
	s := open(t, o)
	clock.Add(3_600_000)
	expire(t, s, 4_194_304)
	// What 4.9.7 said of the queues that have a message left.
	left := map[string][2]message.QueueOffset{
		"TopicEdge/0": {82, 83}, "TopicTest/0": {8, 9}, "TopicTest/1": {7, 9}, "TopicTest/2": {7, 8}, "TopicTest/3": {7, 8},
	}
	readable := 0
	s.Queues(func(q *consumequeue.Queue) bool {
		name := fmt.Sprintf("%s/%d", q.ID.Topic, q.ID.QueueID)
		limits, ok := left[name]
		if !ok {
			limits = [2]message.QueueOffset{q.Max(), q.Max()}
		}
		if q.Min() != limits[0] || q.Max() != limits[1] {
			t.Errorf("%s is [%d, %d), want %v", name, q.Min(), q.Max(), limits)
		}
		readable += len(records(t, s, q.ID.Topic, q.ID.QueueID))
		return true
	})
	if readable != 6 {
		t.Errorf("%d messages are left, want 6", readable)
	}
	audit(t, s)
	closeStore(t, s)
}
