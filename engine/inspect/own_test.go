package inspect_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"ringmq/engine/consumequeue"
	"ringmq/engine/inspect"
	"ringmq/engine/message"
	"ringmq/internal/fixture"
)

func TestStoreOfRingmq(t *testing.T) {
	t.Parallel()
	const n = 500
	dir := written(t, n)
	before := treeOf(t, dir)
	r := verify(t, dir)
	if !r.Whole || len(r.Findings) > 0 || r.Unclean || r.InUse || r.Records != n || r.Entries != n || r.Queues != 4 || r.SegmentSize != segmentSize || r.QueueFileSize != queueFileSize {
		t.Errorf("%+v", r)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
	s := open(t, dir)
	sum, err := s.Stat(context.Background())
	if err != nil || sum.End != r.End || sum.State.Abort || !sum.State.HasMark || !sum.State.Mark.Clean || sum.State.Lock.Last != "ringmq" {
		t.Errorf("%+v, %v", sum, err)
	}
	for _, q := range sum.Queues {
		if q.Min != 0 || q.Max != n/4 {
			t.Errorf("%+v", q)
		}
	}
	if sum.Segments[0].FirstMS == 0 || sum.Segments[0].LastMS < sum.Segments[0].FirstMS {
		t.Errorf("%+v", sum.Segments[0])
	}
	if after := treeOf(t, dir); after != before {
		t.Error("the store was changed")
	}
}

// A store that is written to all the time is whole whenever it is looked at.
func TestStoreInUse(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	s := start(t, dir)
	p := newPutter(s)
	p.put(t, 0)
	quit := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-quit:
				return
			default:
				p.put(t, i)
			}
		}
	})
	last := int64(0)
	for range 20 {
		r := verify(t, dir)
		if !r.Whole || !r.InUse || len(r.Findings) > 0 || r.Records < last || r.Records == 0 {
			t.Errorf("%+v", r)
		}
		last = r.Records
		if _, err := open(t, dir).Stat(context.Background()); err != nil {
			t.Error(err)
		}
		if err := open(t, dir).Entries(context.Background(), inspect.Filter{Topic: "Topic1"}, func(inspect.QueueEntry) error { return nil }); err != nil {
			t.Error(err)
		}
	}
	close(quit)
	writer.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, dir); !r.Whole || len(r.Findings) > 0 || r.InUse || r.Records < last {
		t.Errorf("after the stop: %+v", r)
	}
}

// The last segment of a store in use may have its name and not yet its size; of a store at rest that is damage.
func TestSegmentInTheMaking(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	s := start(t, dir)
	newPutter(s).put(t, 0)
	if err := os.WriteFile(filepath.Join(dir, "commitlog", "00000000000000655360"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, f := range verify(t, dir).Findings {
		if strings.HasSuffix(f.Path, "00000000000000655360") {
			t.Errorf("in use: %+v", f)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, dir); r.Whole {
		t.Error("at rest it is no damage")
	}
}

// Each change of one kind to a whole store is found as what it is.
func TestEachChangeIsFound(t *testing.T) {
	t.Parallel()
	queue := filepath.Join("consumequeue", "Topic0", "0", "00000000000000000000")
	second := filepath.Join("consumequeue", "Topic0", "0", "00000000000000002000")
	log := filepath.Join("commitlog", "00000000000000000000")
	whole := written(t, 500)
	for name, c := range map[string]struct {
		change   func(t *testing.T, dir string)
		kind     inspect.Kind
		severity inspect.Severity
		text     string
	}{
		"a bit of a body": {func(t *testing.T, dir string) {
			b := read(t, filepath.Join(dir, log))
			i := strings.Index(string(b), "body body")
			patch(t, filepath.Join(dir, log), int64(i), b[i]^1)
		}, inspect.KindRecord, inspect.Damage, "body CRC"},
		"a zeroed end record": {func(t *testing.T, dir string) {
			b := read(t, filepath.Join(dir, log))
			i := strings.LastIndex(string(b), "\xcb\xd4\x31\x94")
			patch(t, filepath.Join(dir, log), int64(i)-4, make([]byte, 8)...)
		}, inspect.KindRecord, inspect.Damage, "zeros"},
		"a byte behind the end": {func(t *testing.T, dir string) {
			r := verify(t, dir)
			path := filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", r.End/segmentSize*segmentSize))
			patch(t, path, r.End%segmentSize+100, 7)
		}, inspect.KindTail, inspect.Damage, "101 bytes behind the end"},
		"a segment gone": {func(t *testing.T, dir string) {
			os.Remove(filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", segmentSize)))
		}, inspect.KindSegment, inspect.Damage, "no segment has the bytes 65536 to 131072"},
		"an entry's offset": {func(t *testing.T, dir string) {
			patch(t, filepath.Join(dir, queue), 20*3+7, 0xff)
		}, inspect.KindEntry, inspect.Damage, "entry 3 is of"},
		"two entries swapped": {func(t *testing.T, dir string) {
			b := read(t, filepath.Join(dir, queue))
			patch(t, filepath.Join(dir, queue), 40, append(slices.Clone(b[60:80]), b[40:60]...)...)
		}, inspect.KindEntry, inspect.Damage, "(and 1 more)"},
		"an entry's tags": {func(t *testing.T, dir string) {
			patch(t, filepath.Join(dir, queue), 20*5+19, 1)
		}, inspect.KindTags, inspect.Damage, "entry 5 has"},
		"an entry erased": {func(t *testing.T, dir string) {
			patch(t, filepath.Join(dir, queue), 20*7, make([]byte, 20)...)
		}, inspect.KindQueueFile, inspect.Damage, "its entries end at 7, but unit 8 is not empty"},
		"a filler in place of an entry": {func(t *testing.T, dir string) {
			e := consumequeue.Entry{Size: math.MaxInt32}
			patch(t, filepath.Join(dir, queue), 20*7, consumequeue.AppendEntry(nil, e)...)
		}, inspect.KindEntry, inspect.Damage, "entry 7 is of 2147483647 bytes at 0"},
		"an entry too many": {func(t *testing.T, dir string) {
			e := consumequeue.Entry{Offset: 1, Size: 400}
			patch(t, filepath.Join(dir, second), 20*25, consumequeue.AppendEntry(nil, e)...)
		}, inspect.KindEntry, inspect.Damage, "entry 125 points to 1"},
		"a queue file gone": {func(t *testing.T, dir string) {
			os.Remove(filepath.Join(dir, queue))
		}, inspect.KindMissing, inspect.Damage, "100 records without an entry, numbers 0 to 99: the queue begins with 100"},
		"a short queue file": {func(t *testing.T, dir string) {
			os.Truncate(filepath.Join(dir, second), 1000)
		}, inspect.KindQueueFile, inspect.Damage, "it has 1000 bytes"},
		"a mark of another log": {func(t *testing.T, dir string) {
			s := open(t, dir)
			s.State.Mark.Last, s.State.Mark.LastStoreTimeMS = 0, 5
			if err := s.State.Mark.Save(filepath.Join(dir, "ringmq", "mark")); err != nil {
				t.Fatal(err)
			}
		}, inspect.KindMark, inspect.Damage, "it is not of this log"},
		"a mark that knows more entries": {func(t *testing.T, dir string) {
			s := open(t, dir)
			s.State.Mark.Queues[0].Max++
			if err := s.State.Mark.Save(filepath.Join(dir, "ringmq", "mark")); err != nil {
				t.Fatal(err)
			}
		}, inspect.KindMark, inspect.Damage, "has entries up to 126; it ends at 125"},
		"a damaged mark": {func(t *testing.T, dir string) {
			patch(t, filepath.Join(dir, "ringmq", "mark"), 20, 9)
		}, inspect.KindMark, inspect.Damage, "checksum"},
		"a short checkpoint": {func(t *testing.T, dir string) {
			os.Truncate(filepath.Join(dir, "checkpoint"), 24)
		}, inspect.KindCheckpoint, inspect.Damage, "24 bytes"},
		"a stray file": {func(t *testing.T, dir string) {
			os.WriteFile(filepath.Join(dir, "commitlog", "notes"), nil, 0o644)
		}, inspect.KindStray, inspect.Unfinished, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			c.change(t, dir)
			r := verify(t, dir)
			if r.Whole != (c.severity == inspect.Unfinished) {
				t.Errorf("whole is %v", r.Whole)
			}
			if !slices.ContainsFunc(r.Findings, func(f inspect.Finding) bool {
				return f.Kind == c.kind && f.Severity == c.severity && strings.Contains(f.Text, c.text)
			}) {
				t.Errorf("no %s of kind %q with %q among %+v", c.severity, c.kind, c.text, r.Findings)
			}
		})
	}
}

// A record whose broker put a checksum of all of it into the properties is checked by that, too.
func TestPropertyCRCIsChecked(t *testing.T) {
	t.Parallel()
	dir := fixture.Store(t, "5.5.0", "propcrc")
	path := filepath.Join(dir, "commitlog", "00000000000000000000")
	b := read(t, path)
	i := strings.Index(string(b), "UNIQ_KEY\x01") + len("UNIQ_KEY\x01")
	patch(t, path, int64(i), b[i]^1)
	r := verify(t, dir)
	if r.Whole || len(r.Findings) != 1 || r.Findings[0].Kind != inspect.KindRecord || !strings.Contains(r.Findings[0].Text, "another checksum") {
		t.Errorf("%+v", r)
	}
}

// Torn properties that a Java broker went on behind are passed over, in its store and not in one of ringmq.
func TestZerosBeforeAnotherRecord(t *testing.T) {
	t.Parallel()
	dir := fixture.Store(t, "4.9.7", "killed_aged")
	var first int64
	err := open(t, dir).Records(context.Background(), inspect.Filter{}, func(r *message.Record) error {
		first = int64(r.Size)
		return inspect.ErrEnough
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	patch(t, filepath.Join(dir, "commitlog", "00000000000000000000"), first-3, 0, 0, 0)
	if r := verify(t, dir); !r.Whole || r.Records != 1121 || len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Text, "zeros in its properties") {
		t.Errorf("%+v", r)
	}
	if err := os.WriteFile(filepath.Join(dir, "lock"), []byte("ringmq"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, dir); r.Whole || r.Records != 1120 {
		t.Errorf("%+v", r)
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	dir := written(t, 100)
	s := open(t, dir)
	var all []message.Record
	visit := func(f inspect.Filter) (numbers []int64) {
		t.Helper()
		all = all[:0]
		err := s.Records(context.Background(), f, func(r *message.Record) error {
			numbers = append(numbers, int64(r.QueueOffset))
			all = append(all, message.Record{Offset: r.Offset, StoreTime: r.StoreTime})
			return nil
		}, func(h inspect.Hole) error { t.Errorf("a hole: %+v", h); return nil })
		if err != nil {
			t.Fatal(err)
		}
		return numbers
	}
	if got := visit(inspect.Filter{}); len(got) != 100 {
		t.Fatalf("%d records", len(got))
	}
	tenth, first, last := int64(all[10].Offset), all[0].StoreTime, all[99].StoreTime
	for name, c := range map[string]struct {
		f    inspect.Filter
		want int
	}{
		"topic":       {inspect.Filter{Topic: "Topic1"}, 50},
		"queue":       {inspect.Filter{QueueID: 0, HasQueue: true}, 50},
		"both":        {inspect.Filter{Topic: "Topic0", QueueID: 1, HasQueue: true}, 25},
		"from":        {inspect.Filter{From: tenth}, 90},
		"from inside": {inspect.Filter{From: tenth + 1}, 89},
		"to":          {inspect.Filter{To: tenth}, 10},
		"key":         {inspect.Filter{Key: "k17"}, 1},
		"second key":  {inspect.Filter{Key: "other"}, 100},
		"unique key":  {inspect.Filter{Key: "u17"}, 1},
		"no such key": {inspect.Filter{Key: "k"}, 0},
		"since":       {inspect.Filter{Since: last + 1}, 0},
		"until":       {inspect.Filter{Until: first}, 0},
		"time":        {inspect.Filter{Since: first, Until: last + 1}, 100},
	} {
		if got := visit(c.f); len(got) != c.want {
			t.Errorf("%s: %d records, want %d", name, len(got), c.want)
		}
		entries := 0
		if err := s.Entries(context.Background(), c.f, func(inspect.QueueEntry) error { entries++; return nil }); err != nil || entries != c.want {
			t.Errorf("%s: %d entries, %v, want %d", name, entries, err, c.want)
		}
	}
}

func TestHolesAreTold(t *testing.T) {
	t.Parallel()
	dir := written(t, 100)
	patch(t, filepath.Join(dir, "commitlog", "00000000000000000000"), 4, 0)
	var holes []inspect.Hole
	n := 0
	err := open(t, dir).Records(context.Background(), inspect.Filter{}, func(*message.Record) error { n++; return nil },
		func(h inspect.Hole) error { holes = append(holes, h); return nil })
	if err != nil || n != 99 || len(holes) != 1 || holes[0].From != 0 || holes[0].To < 300 {
		t.Errorf("%d records, holes %+v, %v", n, holes, err)
	}
}

func TestWhatIsNoStoreIsRefused(t *testing.T) {
	empty := t.TempDir()
	file := filepath.Join(empty, "file")
	for _, dir := range []string{empty, file, filepath.Join(empty, "none")} {
		if s, err := inspect.Open(inspect.Options{Dir: dir}); !errors.Is(err, inspect.ErrNoStore) {
			t.Errorf("%s: %v, %v", dir, s, err)
		}
		os.WriteFile(file, nil, 0o644)
	}
}

// Files whose sizes or fields claim very much cost neither memory nor a panic.
func TestHostileSizesCostNothing(t *testing.T) {
	dir := written(t, 100)
	huge := filepath.Join(dir, "consumequeue", "Topic0", "9", "00000000000000000000")
	if err := os.MkdirAll(filepath.Dir(huge), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, size := range map[string]int64{
		huge: 20 << 30, filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", 1<<40)): 5 << 30,
		filepath.Join(dir, "checkpoint"): 1 << 40, filepath.Join(dir, "ringmq", "mark"): 1 << 40,
	} {
		if err := os.WriteFile(path, []byte{0x7f, 0xff, 0xff, 0xff, 0xda, 0xa3, 0x20, 0xa7}, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, size); err != nil {
			t.Skip("the file system has no large holes: ", err)
		}
	}
	patch(t, filepath.Join(dir, "commitlog", "00000000000000000000"), 0, 0x7f, 0xff, 0xff, 0xff)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := verify(t, dir)
	if _, err := open(t, dir).Stat(context.Background()); err != nil {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 4<<20 {
		t.Errorf("%d bytes were allocated", got)
	}
	if r.Whole || len(r.Findings) < 4 {
		t.Errorf("%+v", r)
	}
}

func TestVerifyEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if r, err := open(t, written(t, 10)).Verify(ctx, inspect.VerifyOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", r, err)
	}
}
