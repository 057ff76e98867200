package engine_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ringmq/engine"
	"ringmq/engine/index"
	"ringmq/engine/message"
	"ringmq/internal/fixture"
)

const ever = 1<<63 - 1

// query are the positions of what is found.
func query(t testing.TB, s *engine.Store, topic, key string, kind index.Kind) []int64 {
	t.Helper()
	res, err := s.Query([]byte(topic), []byte(key), kind, 0, ever, 64, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Release()
	var list []int64
	for i, at := range res.Offsets {
		if size, ok := message.Peek(res.Views[i].Bytes, at); !ok || size != len(res.Views[i].Bytes) {
			t.Errorf("%s#%s: the view of %d is not the record", topic, key, at)
		}
		list = append(list, int64(at))
	}
	if !slices.IsSorted(list) {
		t.Errorf("%s#%s: %v is not in order", topic, key, list)
	}
	return list
}

// compareKeys checks that every message that the broker found by a key is found, unless it only had the same hash.
func compareKeys(t *testing.T, s *engine.Store, want *fixture.Expectation) {
	t.Helper()
	for _, k := range want.KeyQueries {
		kind := engine.ByKey
		if k.Unique {
			kind = engine.ByUniqueKey
		}
		got := query(t, s, k.Topic, k.Key, kind)
		for _, at := range k.CommitLogOffsets {
			if at < want.AfterLoad.Max && !slices.Contains(got, at) && len(got) < 64 {
				t.Errorf("%s#%s: %d is not found, only %v", k.Topic, k.Key, at, got)
			}
		}
		if len(got) == 0 && want.AfterLoad.Max > 0 && len(k.CommitLogOffsets) == 0 {
			t.Errorf("%s#%s is not found", k.Topic, k.Key) // what Apache lost is found again
		}
	}
	checkEveryKey(t, s)
}

// checkEveryKey finds every message of the log by each of its keys.
func checkEveryKey(t *testing.T, s *engine.Store) {
	t.Helper()
	waitForKeys(t, s)
	type asked struct {
		topic, key string
		kind       index.Kind
	}
	answers := map[asked][]int64{}
	check := func(r *message.Record, key []byte, kind index.Kind) {
		ask := asked{string(r.Topic), string(key), kind}
		got, known := answers[ask]
		if !known {
			got = query(t, s, ask.topic, ask.key, kind)
			answers[ask] = got
		}
		if len(got) < 64 && !slices.Contains(got, int64(r.Offset)) {
			t.Errorf("%s#%s of kind %d: %d is not found, only %v", ask.topic, ask.key, kind, r.Offset, got)
		}
	}
	p := s.Positions()
	for at := p.Min; at < p.End; {
		view, ok := s.Record(at)
		if !ok { // the end of a segment, or damage
			size := message.Offset(s.Options().SegmentSize)
			at = (at/size + 1) * size
			continue
		}
		var r message.Record
		if err := message.Decode(view.Bytes, &r); err != nil {
			t.Fatal(err)
		}
		if unique, ok := message.Property(r.Properties, message.PropertyUniqueKey); ok {
			check(&r, unique, engine.ByUniqueKey)
		}
		if tags, ok := message.Property(r.Properties, message.PropertyTags); ok {
			check(&r, tags, engine.ByTag)
		}
		keys, _ := message.Property(r.Properties, message.PropertyKeys)
		for key := range strings.FieldsSeq(string(keys)) {
			check(&r, []byte(key), engine.ByKey)
		}
		at += message.Offset(r.Size)
		view.Release()
	}
}

// waitForKeys waits until the index has come to the end of the log.
func waitForKeys(t testing.TB, s *engine.Store) {
	t.Helper()
	settle(t, s)
	for end := time.Now().Add(patience); engine.Indexed(s) < s.Positions().Dispatched; {
		if time.Now().After(end) {
			t.Fatalf("the index stands at %d: %+v", engine.Indexed(s), s.Positions())
		}
		time.Sleep(time.Millisecond)
	}
}

func putKeyed(t testing.TB, s *engine.Store, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		properties := fmt.Sprintf("KEYS\x01k%d all\x02UNIQ_KEY\x01U%d\x02TAGS\x01t%d\x02", i, i, i%3)
		if r := try(t, s, text(testTopic, int32(i%4), strings.Repeat("x", 500), properties)); r.Status != engine.PutOK {
			t.Fatalf("put: %v", r.Err)
		}
	}
}

func indexed(dir string) engine.Options {
	o := small(dir)
	o.IndexSlots, o.IndexEntries = 100, 500
	return o
}

func TestQuery(t *testing.T) {
	t.Parallel()
	o := indexed(t.TempDir())
	var now atomic.Int64
	now.Store(1_800_000_000_000)
	o.Now = func() int64 { return now.Add(1) } // no two messages at one time
	s := open(t, o)
	putKeyed(t, s, 0, 400)
	waitForKeys(t, s)
	checkEveryKey(t, s)
	for _, key := range []string{"t1", "nothing", "k1 all", ""} {
		if got := query(t, s, testTopic, key, engine.ByKey); len(got) != 0 {
			t.Errorf("%q is found at %v", key, got)
		}
	}
	if got := query(t, s, "U", "k1", engine.ByKey); len(got) != 0 {
		t.Errorf("k1 of another topic is found at %v", got)
	}
	if got := query(t, s, testTopic, "U7", engine.ByKey); len(got) != 1 { // the unique key is a key, too
		t.Errorf("U7 is found at %v", got)
	}

	// The bounds are exact to the millisecond.
	all, err := s.Query([]byte(testTopic), []byte("all"), engine.ByKey, 0, ever, 10, 1<<30)
	if err != nil || len(all.Views) != 10 {
		t.Fatalf("%d found, %v", len(all.Views), err)
	}
	times := make([]int64, 10)
	for i := range times {
		times[i], _ = message.StoreTime(all.Views[i].Bytes)
	}
	all.Release()
	some, err := s.Query([]byte(testTopic), []byte("all"), engine.ByKey, times[2], times[7], 64, 1<<30)
	if err != nil || !slices.Equal(some.Offsets, all.Offsets[2:8]) {
		t.Errorf("from %d to %d: %v, %v, want %v", times[2], times[7], some.Offsets, err, all.Offsets[2:8])
	}
	some.Release()
	one, err := s.Query([]byte(testTopic), []byte("all"), engine.ByKey, 0, ever, 64, 1)
	if err != nil || !slices.Equal(one.Offsets, all.Offsets[9:]) {
		t.Errorf("at most 1 byte: %v, %v", one.Offsets, err)
	}
	one.Release()
}

func TestQueryWithoutAnIndex(t *testing.T) {
	t.Parallel()
	o := indexed(t.TempDir())
	o.NoIndex = true
	s := open(t, o)
	putKeyed(t, s, 0, 3)
	_, err := s.Query([]byte(testTopic), []byte("k1"), engine.ByKey, 0, ever, 64, 1)
	mustBe(t, err, engine.ErrNoIndex)
	closeStore(t, s)
	if exists(t, filepath.Join(o.Dir, "index")) {
		t.Error("there is a folder")
	}
	o.NoIndex = false
	s = open(t, o) // what was stored meanwhile is found
	checkEveryKey(t, s)
}

// Whatever happens to the files of the index between two runs, every message is found again, and a stop and start later nothing is left
// to do.
func TestIndexIsBuiltAgain(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, dir string){
		"nothing":          func(*testing.T, string) {},
		"folder removed":   func(t *testing.T, dir string) { os.RemoveAll(filepath.Join(dir, "index")) },
		"progress removed": func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, "ringmq", "indexed")) },
		"garbage": func(t *testing.T, dir string) {
			for _, path := range glob(t, filepath.Join(dir, "index", "*")) {
				os.WriteFile(path, []byte("garbage"), 0o644)
			}
		},
		"old progress": func(t *testing.T, dir string) {
			os.Rename(filepath.Join(dir, "indexed.old"), filepath.Join(dir, "ringmq", "indexed"))
		},
	} {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/killed=%v", name, killed), func(t *testing.T) {
				t.Parallel()
				o := indexed(t.TempDir())
				s := open(t, o)
				putKeyed(t, s, 0, 100)
				closeStore(t, s)
				b, _ := os.ReadFile(filepath.Join(o.Dir, "ringmq", "indexed"))
				os.WriteFile(filepath.Join(o.Dir, "indexed.old"), b, 0o644)
				s = open(t, o)
				putKeyed(t, s, 100, 300)
				settle(t, s)
				if killed {
					clone := t.TempDir() // as a kill leaves it: what is in the page cache
					if err := os.CopyFS(clone, os.DirFS(o.Dir)); err != nil {
						t.Fatal(err)
					}
					o.Dir = clone
				} else {
					closeStore(t, s)
				}
				change(t, o.Dir)
				s = open(t, o)
				checkEveryKey(t, s)
				putKeyed(t, s, 300, 350)
				checkEveryKey(t, s)
				closeStore(t, s)
				var log logBook
				o.Logger = log.logger()
				s = open(t, o)
				if r := s.Recovery(); r.Records != 0 || log.has("index") {
					t.Errorf("walked %d records; log:\n%s", r.Records, log.String())
				}
				checkEveryKey(t, s)
			})
		}
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("nothing at %s, %v", pattern, err)
	}
	return names
}

// An index that cannot be written costs one line, and no put.
func TestUnwritableIndexCostsOneLine(t *testing.T) {
	t.Parallel()
	o := indexed(t.TempDir())
	var log logBook
	o.Logger = log.logger()
	s := open(t, o)
	if err := os.WriteFile(filepath.Join(o.Dir, "index"), nil, 0o644); err != nil { // where its folder should be
		t.Fatal(err)
	}
	putKeyed(t, s, 0, 50)
	settle(t, s)
	closeStore(t, s)
	if got := strings.Count(log.String(), "key index"); got != 1 {
		t.Errorf("%d lines: %s", got, log.String())
	}
	s = open(t, o) // none in this run
	putKeyed(t, s, 50, 60)
	closeStore(t, s)
	os.Remove(filepath.Join(o.Dir, "index"))
	s = open(t, o)
	checkEveryKey(t, s)
}

// The dispatcher closes a small gap before its record by itself, or messages that come without a pause would keep the index behind for ever. A
// larger one is left to the background.
func TestDispatcherClosesASmallGapOfTheIndex(t *testing.T) {
	t.Parallel()
	o := indexed(t.TempDir())
	s := open(t, o)
	blocked := filepath.Join(o.Dir, "index")
	if err := os.WriteFile(blocked, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	putKeyed(t, s, 0, 600)
	middle := s.Positions().End
	putKeyed(t, s, 600, 900)
	settle(t, s)
	end := s.Positions().End
	if end < 256<<10 || end-middle > 256<<10 {
		t.Fatalf("the log ends at %d, its middle is %d", end, middle)
	}
	if engine.KeysBehind(s, end) || engine.Indexed(s) != 0 {
		t.Error("the gap of an index that cannot be written was closed")
	}
	os.Remove(blocked)
	engine.CatchUpTo(s, middle)
	if !engine.KeysBehind(s, end) || engine.Indexed(s) != end {
		t.Errorf("the index stands at %d, want %d", engine.Indexed(s), end)
	}
	putKeyed(t, s, 900, 910)
	checkEveryKey(t, s)
}

// When the disk has room again, what was passed over meanwhile is put; later messages wait for their turn.
func TestIndexCatchesUp(t *testing.T) {
	t.Parallel()
	o := indexed(t.TempDir())
	s := open(t, o)
	blocked := filepath.Join(o.Dir, "index")
	if err := os.WriteFile(blocked, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	putKeyed(t, s, 0, 300) // several segments
	settle(t, s)
	os.Remove(blocked)
	engine.CatchUp(s)
	checkEveryKey(t, s)
	putKeyed(t, s, 300, 320)
	checkEveryKey(t, s)
}

// Key files of which every record has gone from the log go, too; what is left in the log is found by its keys.
func TestRetentionTakesKeyFilesAlong(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	o := aging(t.TempDir(), &clock, nil)
	o.IndexSlots, o.IndexEntries = 11, 100
	s := open(t, o)
	putKeyed(t, s, 0, 2000)
	settle(t, s)
	waitForKeys(t, s)
	before := len(glob(t, filepath.Join(o.Dir, "index", "*")))
	clock.Add(threeDays + 3_600_000)
	size := message.Offset(o.SegmentSize)
	expire(t, s, s.Positions().End/size*size)
	until(t, func() bool { return len(glob(t, filepath.Join(o.Dir, "index", "*"))) < before/2 })
	checkEveryKey(t, s)
}

// A key file that breaks while it is not looked at costs one line and the time to build the index anew, and never a send.
func TestBrokenKeyFileIsBuiltAgain(t *testing.T) {
	var book logBook
	o := indexed(t.TempDir())
	o.Logger = book.logger()
	s := open(t, o)
	putKeyed(t, s, 0, 400)
	waitForKeys(t, s)
	closeStore(t, s)
	s = open(t, o)
	files := glob(t, filepath.Join(o.Dir, "index", "*"))
	if len(files) < 3 {
		t.Fatalf("BUG: %d key files", len(files))
	}
	garbage := slices.Repeat([]byte{0x55}, int(index.Size(100, 500))-40)
	patch(t, files[0], 40, garbage) // a full one, below its header
	if _, err := s.Query([]byte(testTopic), []byte("k3"), engine.ByKey, 0, ever, 64, 1<<30); !errors.Is(err, index.ErrBroken) {
		t.Errorf("query: %v", err)
	}
	if r := try(t, s, text(testTopic, 0, "sent all the same", "KEYS\x01later\x02")); r.Status != engine.PutOK {
		t.Errorf("put: %v", r.Err)
	}
	waitForKeys(t, s)
	for i := range 400 {
		if got := query(t, s, testTopic, fmt.Sprintf("k%d", i), engine.ByKey); len(got) != 1 {
			t.Fatalf("k%d is found at %v", i, got)
		}
	}
	if got := query(t, s, testTopic, "later", engine.ByKey); len(got) != 1 {
		t.Errorf("the later one is found at %v", got)
	}
	if n := strings.Count(book.String(), "level=ERROR"); n != 1 || !book.has("a key file is broken", filepath.Base(files[0])) {
		t.Errorf("%d lines:\n%s", n, book.String())
	}
}
