package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"ringmq/engine"
	"ringmq/engine/message"
	"ringmq/engine/scrub"
	"ringmq/engine/seal"
	"ringmq/engine/segment"
)

// scrubbing are options of a store that reads its log again all the time.
func scrubbing(o engine.Options) engine.Options {
	o.Scrub = func() engine.ScrubSettings { return engine.ScrubSettings{BytesPerSecond: 1 << 32, IntervalMS: 1} }
	return o
}

func sealPath(o engine.Options, i int) string {
	return seal.Path(filepath.Join(o.Dir, "ringmq", "seals"), message.Offset(int64(i)*o.SegmentSize))
}

func segmentPath(o engine.Options, i int) string {
	return filepath.Join(o.Dir, "commitlog", segment.Name(int64(i)*o.SegmentSize))
}

// sealsOf are the numbers of the segments that have a seal.
func sealsOf(t testing.TB, o engine.Options) (list []int) {
	t.Helper()
	files, err := seal.List(filepath.Join(o.Dir, "ringmq", "seals"), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		list = append(list, int(int64(f.Base)/o.SegmentSize))
	}
	return list
}

// checkSeals waits for the seals of the segments from low to below high, which must be all there are, and compares them with the files.
func checkSeals(t testing.TB, o engine.Options, low, high int) {
	t.Helper()
	var want []int
	for i := low; i < high; i++ {
		want = append(want, i)
	}
	until(t, func() bool { return slices.Equal(sealsOf(t, o), want) })
	for _, i := range want {
		s, err := seal.Read(sealPath(o, i))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(segmentPath(o, i))
		if err != nil {
			t.Fatal(err)
		}
		if differ := s.Verify(b); differ != nil || s.Damaged != nil || s.Records == 0 {
			t.Errorf("seal of segment %d: blocks %v differ, %+v", i, differ, s)
		}
	}
}

func TestSealsFollowTheLog(t *testing.T) {
	for _, mapped := range []bool{false, true} {
		t.Run(fmt.Sprintf("mapped=%v", mapped), func(t *testing.T) {
			t.Parallel()
			var book logBook
			o := scrubbing(small(t.TempDir()))
			o.MappedAppend, o.Logger = mapped, book.logger()
			s := open(t, o)
			fillSegments(t, s, 3)
			if err := engine.Keep(s); err != nil { // flushes
				t.Fatal(err)
			}
			checkSeals(t, o, 0, 3)
			compared := s.Counters().Scrub.Compared.Load()
			until(t, func() bool { return s.Counters().Scrub.Compared.Load() > compared+6 })
			closeStore(t, s)
			checkSeals(t, o, 0, 3)
			s = open(t, o)
			fillSegments(t, s, 5)
			if err := engine.Keep(s); err != nil {
				t.Fatal(err)
			}
			checkSeals(t, o, 0, 5)
			audit(t, s)
			closeStore(t, s)
			if book.has("level=ERROR") || book.has("written anew") || len(s.Damages()) > 0 {
				t.Errorf("damages %+v, log:\n%s", s.Damages(), book.String())
			}
		})
	}
}

// Rot is found while the store runs, and the store goes on. The message's sender and its consumers may never come by.
func TestRotIsFound(t *testing.T) {
	t.Parallel()
	var book logBook
	o := scrubbing(small(t.TempDir()))
	o.Logger = book.logger()
	s := open(t, o)
	fillSegments(t, s, 2)
	if err := engine.Keep(s); err != nil {
		t.Fatal(err)
	}
	checkSeals(t, o, 0, 2)
	flipByte(t, segmentPath(o, 1), 30_000)
	until(t, func() bool { return len(s.Damages()) > 0 })
	d := s.Damages()
	if len(d) != 1 || d[0].File != segmentPath(o, 1) || d[0].Block != 0 || d[0].From != message.Offset(o.SegmentSize) {
		t.Errorf("damages %+v", d)
	}
	compared := s.Counters().Scrub.Compared.Load()
	until(t, func() bool { return s.Counters().Scrub.Compared.Load() > compared+6 })
	if n := strings.Count(book.String(), "the commit log is damaged"); n != 1 || s.Latched() != nil {
		t.Errorf("told %d times, latched %v:\n%s", n, s.Latched(), book.String())
	}
	put(t, s, 0, "on")
	closeStore(t, s)
}

func flipByte(t testing.TB, path string, at int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	patch(t, path, at, []byte{b[at] ^ 0x20})
}

// Each seal goes with its segment.
func TestRetentionRemovesSeals(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	o := scrubbing(aging(t.TempDir(), &clock, nil))
	s := open(t, o)
	fillSegments(t, s, 5)
	if err := engine.Keep(s); err != nil {
		t.Fatal(err)
	}
	checkSeals(t, o, 0, 5)
	clock.Add(threeDays + 1000)
	put(t, s, 0, "young")
	settle(t, s)
	expire(t, s, 5*message.Offset(o.SegmentSize))
	checkSeals(t, o, 5, 5)
	fillSegments(t, s, 7)
	if err := engine.Keep(s); err != nil {
		t.Fatal(err)
	}
	checkSeals(t, o, 5, 7)
	closeStore(t, s)
}

// What a kill between two steps leaves: a seal whose segment is gone, one that is not written to its end, one of the segment that is appended to, none
// where there should be one, and a broken one. The next start puts it right without a word about damage.
func TestKillsBetweenStepsOfSeals(t *testing.T) {
	t.Parallel()
	var book logBook
	o := scrubbing(small(t.TempDir()))
	o.Logger = book.logger()
	s := open(t, o)
	fillSegments(t, s, 4)
	if err := engine.Keep(s); err != nil {
		t.Fatal(err)
	}
	checkSeals(t, o, 0, 4)
	closeStore(t, s)
	b, err := os.ReadFile(sealPath(o, 1))
	if err != nil {
		t.Fatal(err)
	}
	other, err := seal.Read(sealPath(o, 1))
	if err != nil {
		t.Fatal(err)
	}
	move := func(i int) {
		moved := other
		shift := message.Offset(i-1) * message.Offset(o.SegmentSize)
		moved.Base, moved.Last = other.Base+shift, other.Last+shift
		if err := moved.Save(filepath.Dir(sealPath(o, 0))); err != nil {
			t.Fatal(err)
		}
	}
	move(9)
	move(4) // the log ends in it
	writeFile(t, sealPath(o, 5)+".tmp", b[:20])
	remove(t, sealPath(o, 0))
	writeFile(t, sealPath(o, 2), b[:len(b)-3])
	writeFile(t, filepath.Join(o.Dir, "abort"), nil)

	s = open(t, o)
	if exists(t, sealPath(o, 4)) || exists(t, sealPath(o, 9)) || exists(t, sealPath(o, 5)+".tmp") {
		t.Error("a seal without a full segment is there when the store is open")
	}
	checkSealsSoon(t, o, 4)
	fillSegments(t, s, 5)
	if err := engine.Keep(s); err != nil {
		t.Fatal(err)
	}
	checkSealsSoon(t, o, 5)
	audit(t, s)
	closeStore(t, s)
	if book.has("level=ERROR") || book.has("written anew") {
		t.Errorf("log:\n%s", book.String())
	}
}

// checkSealsSoon is checkSeals of segments whose seals may be there, but broken, for a while.
func checkSealsSoon(t testing.TB, o engine.Options, high int) {
	t.Helper()
	until(t, func() bool {
		for i := range high {
			if _, err := seal.Read(sealPath(o, i)); err != nil {
				return false
			}
		}
		return true
	})
	checkSeals(t, o, 0, high)
}

// When the log is cut within what was sealed, the seal goes before. The segment gets another one when it is full again, and nobody takes what stands
// there now for rot, or for the work of another broker.
func TestCutRemovesSeals(t *testing.T) {
	t.Parallel()
	var book logBook
	o := scrubbing(small(t.TempDir()))
	s := open(t, o)
	fillSegments(t, s, 4)
	if err := engine.Keep(s); err != nil {
		t.Fatal(err)
	}
	checkSeals(t, o, 0, 4)
	closeStore(t, s)
	// As if the device had lost the end of the log, and the mark: it ends in the middle of segment 2.
	for _, i := range []int{3, 4, 5} {
		remove(t, segmentPath(o, i))
	}
	patch(t, segmentPath(o, 2), 30_000, make([]byte, int(o.SegmentSize)-30_000))
	remove(t, filepath.Join(o.Dir, "ringmq", "mark"))
	writeFile(t, filepath.Join(o.Dir, "abort"), nil)

	o.Logger = book.logger()
	s = open(t, o)
	if end := s.Recovery().End; end <= 2*message.Offset(o.SegmentSize) || end >= 3*message.Offset(o.SegmentSize) {
		t.Fatalf("the log ends at %d", end)
	}
	checkSeals(t, o, 0, 2)
	fillSegments(t, s, 3)
	if err := engine.Keep(s); err != nil {
		t.Fatal(err)
	}
	checkSeals(t, o, 0, 3)
	compared := s.Counters().Scrub.Compared.Load()
	until(t, func() bool { return s.Counters().Scrub.Compared.Load() > compared+6 })
	audit(t, s)
	closeStore(t, s)
	if book.has("written anew") || book.has("the commit log is damaged") {
		t.Errorf("log:\n%s", book.String())
	}
}

// A Java broker had the store in between, cut its log and wrote other messages: what is whole is sealed anew, at once, with one line a segment.
func TestAnotherBrokerWroteSegmentsAnew(t *testing.T) {
	t.Parallel()
	before, after := newHandmade(t, 64<<10, 2000), newHandmade(t, 64<<10, 2000)
	after.dir = before.dir
	for i := range 300 {
		before.add(int32(i%2), 900, int64(1000+i))
		if i < 100 {
			after.add(int32(i%2), 900, int64(1000+i))
		} else {
			after.add(int32(i%2), 800, int64(5000+i))
		}
	}
	o := small(before.dir)
	o.QueueFileSize = 2000 * 20
	day := engine.ScrubSettings{BytesPerSecond: 1 << 32, IntervalMS: 24 * 3_600_000}
	o.Scrub = func() engine.ScrubSettings { return day }
	before.write(false)
	s := open(t, o)
	checkSeals(t, o, 0, 4)
	closeStore(t, s)

	for i := range 5 {
		remove(t, segmentPath(o, i))
	}
	remove(t, filepath.Join(o.Dir, "consumequeue"))
	after.write(false)
	var book logBook
	o.Logger = book.logger()
	s = open(t, o)
	until(t, func() bool { return s.Counters().Scrub.Resealed.Load() == 2 })
	closeStore(t, s)
	checkSeals(t, o, 0, 3)
	for i, want := range []int{0, 1, 1} {
		if n := strings.Count(book.String(), `and it is sealed again" segment=`+segment.Name(int64(i)*o.SegmentSize)); n != want {
			t.Errorf("%d lines about segment %d, want %d:\n%s", n, i, want, book.String())
		}
	}
	if book.has("the commit log is damaged") {
		t.Errorf("log:\n%s", book.String())
	}
}

// A folder of seals that cannot be used costs lines, never a start, a send or a removal.
func TestUnusableSeals(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	var book logBook
	o := scrubbing(aging(t.TempDir(), &clock, &book))
	writeFile(t, filepath.Join(o.Dir, "ringmq", "seals"), []byte("a file"))
	s := open(t, o)
	fillSegments(t, s, 3)
	if err := engine.Keep(s); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return s.Counters().Scrub.Failed.Load() >= 3 })
	clock.Add(threeDays + 1000)
	put(t, s, 0, "young")
	settle(t, s)
	expire(t, s, 3*message.Offset(o.SegmentSize))
	closeStore(t, s)
	if n := strings.Count(book.String(), "could not be sealed"); n != 1 || !book.has("level=WARN", "seals of segments could not be listed") {
		t.Errorf("told %d times:\n%s", n, book.String())
	}
}

func TestScrubSettingsAreChecked(t *testing.T) {
	t.Parallel()
	o := small(t.TempDir())
	o.Scrub = func() engine.ScrubSettings { return scrub.Settings{BytesPerSecond: -5, IntervalMS: 1} }
	if _, err := engine.Open(o); err == nil || !strings.Contains(err.Error(), "ringmq.scrubRate is -5") {
		t.Errorf("open: %v", err)
	}
}
