package index

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"ringmq/engine/message"
)

func TestHash(t *testing.T) {
	t.Parallel()
	// Java: ("TopicTest#key").hashCode() and so on; the last but one has no absolute value.
	for text, want := range map[string]int32{"Aa": 2112, "BB": 2112, "polygenelubricants": 0, "": 0} {
		if got := absolute(message.JavaHash(0, []byte(text))); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	if got, want := Hash([]byte("T"), []byte("k"), Key), absolute(message.JavaHash(0, []byte("T#k"))); got != want {
		t.Errorf("key: %d, want %d", got, want)
	}
	if got, want := Hash([]byte("T"), []byte("a"), Tag), absolute(message.JavaHash(0, []byte("T#T#a"))); got != want {
		t.Errorf("tag: %d, want %d", got, want)
	}
}

func TestKeysOfARecord(t *testing.T) {
	t.Parallel()
	r := keyed(0, "KEYS\x01 a  b \x02TAGS\x01x\x02UNIQ_KEY\x01u\x02")
	want := []int32{
		Hash(r.Topic, []byte("u"), Unique), Hash(r.Topic, []byte("a"), Key), Hash(r.Topic, []byte("b"), Key), Hash(r.Topic, []byte("x"), Tag),
	}
	if got := appendHashes(nil, r); !slices.Equal(got, want) {
		t.Errorf("hashes %v, want %v", got, want)
	}
	for key, kinds := range map[string][]Kind{"u": {Key, Unique}, "a": {Key}, "b": {Key}, "x": {Tag}, "a  b": nil, "": nil, " ": nil} {
		for _, kind := range []Kind{Key, Unique, Tag} {
			if got := Has(r, []byte("T"), []byte(key), kind); got != slices.Contains(kinds, kind) {
				t.Errorf("%q of kind %d: %v", key, kind, got)
			}
		}
	}
	if Has(r, []byte("U"), []byte("a"), Key) {
		t.Error("a key of another topic is found")
	}
	if r.SysFlag = message.SysFlagRollback; len(appendHashes(nil, r)) != 0 || Has(r, []byte("T"), []byte("a"), Key) {
		t.Error("a rollback has keys")
	}
}

// One entry and its file, by hand.
func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	x := openTest(t, testOptions(t, 3, 4), Found{})
	r := withKey(7, "k") // "T#k" hashes to 81902, slot 2
	x.PutNext(r)
	flush(x)
	b, err := os.ReadFile(filepath.Join(x.o.Dir, x.newest().name))
	if err != nil {
		t.Fatal(err)
	}
	hash := int(Hash([]byte("T"), []byte("k"), Key))
	if want := 84*31*31 + 35*31 + 107; hash != want {
		t.Fatalf("hash %d, want %d", hash, want)
	}
	want := make([]byte, 40+12+80)
	be := binary.BigEndian
	for i, v := range []int64{r.StoreTime, r.StoreTime, 7000, 7000} {
		be.PutUint64(want[8*i:], uint64(v))
	}
	be.PutUint32(want[32:], 1)
	be.PutUint32(want[36:], 2)
	be.PutUint32(want[40+4*(hash%3):], 1)
	be.PutUint32(want[52+20:], uint32(hash))
	be.PutUint64(want[52+24:], 7000)
	if !slices.Equal(b, want) {
		t.Errorf("file\n%x, want\n%x", b, want)
	}
}

func TestPutAndLookup(t *testing.T) {
	t.Parallel()
	x := openTest(t, testOptions(t, 7, 101), Found{})
	fill(t, x, 0, 1000) // 20 files, and the last 100 entries of them in memory
	complete(t, x, 1000)
	if len(x.files) != 20 {
		t.Errorf("%d files, want 20", len(x.files))
	}
	flush(x)
	complete(t, x, 1000)
	base := int64(1_700_000_000_000)
	if got := find(t, x, "all", base+490_000, base+509_000); len(got) < 20 || len(got) > 22 { // entries keep seconds
		t.Errorf("%d records within 20 s: %v", len(got), got)
	}
	if n, err := x.DropBelow(500_000); err != nil || n != 9 && n != 10 {
		t.Errorf("dropped %d files, %v", n, err)
	}
	if got := find(t, x, "k900", 0, ever); len(got) != 1 {
		t.Errorf("k900 is found in %v", got)
	}
	if at, _ := x.Last(); at != 999_000 {
		t.Errorf("last is %d", at)
	}
}

// A follow-on file begins as RocketMQ's does.
func TestRollKeepsTheOriginalsHeader(t *testing.T) {
	t.Parallel()
	x := openTest(t, testOptions(t, 7, 3), Found{})
	for i := range 3 {
		x.PutNext(withKey(i, "k"))
	}
	first, second := x.files[0].header, x.files[1].header
	if first.count != 3 || first.begin != 0 || first.end != 1000 || second.count != 2 || second.begin != 2000 || second.end != 2000 {
		t.Errorf("headers %+v and %+v", first, second)
	}
	if e := decodeEntry(x.tail); e.seconds != 1 {
		t.Errorf("first entry of the second file is %+v, want 1 s behind the first file's end", e)
	}
	if x.files[0].name >= x.files[1].name {
		t.Errorf("names %s, %s", x.files[0].name, x.files[1].name)
	}
}

func TestOutOfOrder(t *testing.T) {
	t.Parallel()
	x := openTest(t, testOptions(t, 7, 100), Found{})
	fill(t, x, 0, 3)
	if !x.Put(withKey(1, "again")) || len(find(t, x, "again", 0, ever)) != 0 {
		t.Error("a record that is in the index was put again")
	}
	if x.Put(withKey(4, "k4")) {
		t.Error("a record was put behind a gap")
	}
	x.Pass(3000, 4000)
	if !x.Put(withKey(4, "k4")) || x.Next() != 5000 {
		t.Errorf("next is %d", x.Next())
	}
}

// A stop at any point: what was flushed is believed, all else comes from the log again, and the files are as if nothing had happened.
func TestStops(t *testing.T) {
	t.Parallel()
	for _, flushedAt := range []int{0, 1, 49, 50, 51, 120, 149} {
		for _, clean := range []bool{false, true} {
			t.Run(fmt.Sprintf("flushed=%d/clean=%v", flushedAt, clean), func(t *testing.T) {
				o := testOptions(t, 11, 101)
				x := openTest(t, o, Found{})
				fill(t, x, 0, flushedAt)
				flush(x)
				if !clean {
					fill(t, x, flushedAt, 160)
					x.Prepare(true) // written, not synced
				}
				x.Close()
				x = openTest(t, o, Found{Clean: clean})
				if want := message.Offset(flushedAt * 1000); x.Next() != want {
					t.Fatalf("next is %d, want %d", x.Next(), want)
				}
				fill(t, x, flushedAt, 200)
				complete(t, x, 200)
				flush(x)
				compareBytes(t, x, 200)
			})
		}
	}
}

// compareBytes fails unless the files are those of an index that was made in one go.
func compareBytes(t *testing.T, x *Index, n int) {
	t.Helper()
	y := openTest(t, testOptions(t, x.o.Slots, x.o.Entries), Found{})
	fill(t, y, 0, n)
	flush(y)
	if len(x.files) != len(y.files) {
		t.Fatalf("%d files, want %d", len(x.files), len(y.files))
	}
	for i := range x.files {
		got, _ := os.ReadFile(filepath.Join(x.o.Dir, x.files[i].name))
		want, _ := os.ReadFile(filepath.Join(y.o.Dir, y.files[i].name))
		if !slices.Equal(got, want) {
			t.Errorf("file %d differs", i)
		}
	}
}

// Whatever stands in the files after a crash, nothing is lost: either it is believed and right, or it is built anew.
func TestEveryByteFlipped(t *testing.T) {
	t.Parallel()
	o := testOptions(t, 3, 5)
	x := openTest(t, o, Found{})
	fill(t, x, 0, 5) // three files, the last half full
	flush(x)
	x.Close()
	paths, _ := filepath.Glob(filepath.Join(o.Dir, "*"))
	whole := map[string][]byte{}
	for _, path := range append(paths, o.Progress) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		whole[path] = b
	}
	for i := range whole[o.Progress] {
		bad := slices.Clone(whole[o.Progress])
		bad[i] ^= 1 << (i % 8)
		if p, err := decodeProgress(bad); err == nil {
			t.Errorf("byte %d flipped: %+v", i, p)
		}
	}
	for _, path := range paths[2:] {
		good := whole[path]
		for i := range good {
			bad := slices.Clone(good)
			bad[i] ^= 1 << (i % 8)
			if err := os.WriteFile(path, bad, 0o644); err != nil {
				t.Fatal(err)
			}
			x := openTest(t, o, Found{})
			fill(t, x, int(x.Next()/1000), 5)
			complete(t, x, 5)
			x.Close()
			for _, left := range must(filepath.Glob(filepath.Join(o.Dir, "*"))) {
				os.Remove(left)
			}
			for name, b := range whole {
				if err := os.WriteFile(name, b, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func must(names []string, err error) []string {
	if err != nil {
		panic(err)
	}
	return names
}

func TestHostileFiles(t *testing.T) {
	t.Parallel()
	damage := map[string]func(path string, b []byte) []byte{
		"short":         func(_ string, b []byte) []byte { return b[:len(b)-1] },
		"long":          func(_ string, b []byte) []byte { return append(b, 0) },
		"empty":         func(string, []byte) []byte { return nil },
		"ones":          func(_ string, b []byte) []byte { return slices.Repeat([]byte{0xff}, len(b)) },
		"zeros":         func(_ string, b []byte) []byte { return make([]byte, len(b)) },
		"huge count":    func(_ string, b []byte) []byte { binary.BigEndian.PutUint32(b[36:], 1<<31-1); return b },
		"slot too high": func(_ string, b []byte) []byte { binary.BigEndian.PutUint32(b[40:], 5000); return b },
	}
	for name, change := range damage {
		for _, clean := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/clean=%v", name, clean), func(t *testing.T) {
				t.Parallel()
				o := testOptions(t, 7, 50)
				x := openTest(t, o, Found{})
				fill(t, x, 0, 20)
				flush(x)
				path := filepath.Join(o.Dir, x.newest().name)
				x.Close()
				b, _ := os.ReadFile(path)
				if err := os.WriteFile(path, change(path, b), 0o644); err != nil {
					t.Fatal(err)
				}
				var log book
				o.Logger = log.logger()
				x = openTest(t, o, Found{Clean: clean})
				fill(t, x, int(x.Next()/1000), 20)
				complete(t, x, 20)
				if log.lines() > 1 {
					t.Errorf("%d lines: %s", log.lines(), log.String())
				}
			})
		}
	}
}

// A full file is not read at a start. If its chains are changed, a lookup ends, and says so unless it finds all the same.
func TestBrokenChainsEnd(t *testing.T) {
	t.Parallel()
	o := testOptions(t, 1, 50)
	x := openTest(t, o, Found{})
	fill(t, x, 0, 40)
	flush(x)
	f := x.files[0]
	lookup := func() (n int, err error) {
		err = x.Lookup(Hash([]byte("T"), []byte("all"), Key), 0, ever, func(message.Offset) bool { n++; return true })
		return n, err
	}
	all, err := lookup()
	if all != 40 || err != nil {
		t.Fatalf("%d results, %v", all, err)
	}
	for n := int32(1); n < 50; n++ {
		at := x.geometry.entryAt(n)
		var whole [entryLen]byte
		if _, err := f.f.ReadAt(whole[:], at); err != nil {
			t.Fatal(err)
		}
		good := decodeEntry(whole[:])
		for what, e := range map[string]entry{
			"itself":          {good.hash, good.offset, good.seconds, n},
			"one behind":      {good.hash, good.offset, good.seconds, n + 1},
			"the last":        {good.hash, good.offset, good.seconds, 49},
			"beyond":          {good.hash, good.offset, good.seconds, 1<<31 - 1},
			"negative":        {good.hash, good.offset, good.seconds, -1 << 31},
			"negative hash":   {-5, good.offset, good.seconds, good.previous},
			"before the file": {good.hash, -1, good.seconds, good.previous},
			"behind the file": {good.hash, 1 << 40, good.seconds, good.previous},
			"negative time":   {good.hash, good.offset, -1, good.previous},
		} {
			if what == "the last" && n > 49 || what == "one behind" && n == 0 {
				continue
			}
			if _, err := f.f.WriteAt(e.append(nil), at); err != nil {
				t.Fatal(err)
			}
			if n, err := lookup(); n > all || !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), f.name) {
				t.Fatalf("%s: %d results, %v", what, n, err)
			}
		}
		if _, err := f.f.WriteAt(whole[:], at); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := lookup(); n != all || err != nil {
		t.Errorf("afterwards %d results, %v", n, err)
	}
}

// Reset may come at any time, also between the steps of a flush.
func TestResetWithinAFlush(t *testing.T) {
	t.Parallel()
	for step := range 3 {
		o := testOptions(t, 7, 50)
		x := openTest(t, o, Found{})
		fill(t, x, 0, 60)
		reset := func(at int) {
			if at != step {
				return
			}
			if err := x.Reset(0); err != nil {
				t.Fatal(err)
			}
			fill(t, x, 0, 60)
		}
		reset(0)
		_, due := x.Prepare(true)
		reset(1)
		_ = x.SyncWith(nil, func(fds []int, errs []error) error { return nil })
		reset(2)
		if due {
			x.Finish()
		}
		flush(x)
		complete(t, x, 60)
		x.Close()
		x = openTest(t, o, everywhere(true))
		complete(t, x, 60)
	}
}

func TestOtherGeometryOrLogIsBuiltAnew(t *testing.T) {
	t.Parallel()
	no := func(message.Offset, int64) bool { return false }
	for name, change := range map[string]func(o *Options, found *Found){
		"maxHashSlotNum": func(o *Options, _ *Found) { o.Slots = 8 },
		"maxIndexNum":    func(o *Options, _ *Found) { o.Entries = 60 },
		"no record":      func(_ *Options, found *Found) { found.Stands = no },
		"log ends":       func(_ *Options, found *Found) { found.Within = func(message.Offset) bool { return false } },
		"no progress":    func(o *Options, _ *Found) { os.Remove(o.Progress) },
	} {
		t.Run(name, func(t *testing.T) {
			o := testOptions(t, 7, 50)
			x := openTest(t, o, Found{})
			fill(t, x, 0, 60)
			flush(x)
			x.Close()
			found := everywhere(true)
			change(&o, &found)
			var log book
			o.Logger = log.logger()
			x = openTest(t, o, found)
			if x.Next() != 0 || log.lines() != 1 || !strings.Contains(log.String(), "built anew") {
				t.Errorf("next %d, log %s", x.Next(), log.String())
			}
			if names := must(filepath.Glob(filepath.Join(o.Dir, "*"))); len(names) > 0 {
				t.Errorf("files left: %v", names)
			}
			fill(t, x, 0, 60)
			complete(t, x, 60)
		})
	}
}

// What cannot be written is told once, put again later, and found then.
func TestUnwritable(t *testing.T) {
	t.Parallel()
	o := testOptions(t, 7, 50)
	var log book
	o.Logger = log.logger()
	if err := os.WriteFile(o.Dir, nil, 0o644); err != nil { // a file where the folder should be
		t.Fatal(err)
	}
	if _, err := Open(o, everywhere(true)); err == nil {
		t.Fatal("opened")
	}
	os.Remove(o.Dir)
	x := openTest(t, o, Found{})
	if err := os.WriteFile(o.Dir, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if x.PutNext(withKey(0, "k0 all")) {
			t.Fatal("put")
		}
	}
	if log.lines() != 1 || x.Next() != 0 {
		t.Errorf("%d lines, next %d: %s", log.lines(), x.Next(), log.String())
	}
	os.Remove(o.Dir)
	fill(t, x, 0, 30)
	complete(t, x, 30)
	if !strings.Contains(log.String(), "written again") {
		t.Errorf("log: %s", log.String())
	}
}

// After a failed sync nothing is claimed, and the next start puts it again.
func TestFailedSyncIsFinal(t *testing.T) {
	t.Parallel()
	o := testOptions(t, 7, 500)
	x := openTest(t, o, Found{})
	fill(t, x, 0, 10)
	flush(x)
	fill(t, x, 10, 20)
	if _, due := x.Prepare(true); !due {
		t.Fatal("no flush")
	}
	var batch []int
	err := x.SyncWith([]int{-7}, func(fds []int, errs []error) error {
		batch = fds
		errs[1] = syscall.EIO
		return syscall.EIO
	})
	if err != nil || len(batch) != 2 || batch[0] != -7 {
		t.Errorf("batch %v, and the others' error is %v", batch, err)
	}
	x.SyncWith(nil, func(fds []int, _ []error) error { // once is enough
		if len(fds) > 0 {
			t.Errorf("synced again: %v", fds)
		}
		return nil
	})
	x.Finish()
	if x.Put(withKey(20, "k20 all")) {
		t.Error("put after a failed sync")
	}
	complete(t, x, 20)
	flush(x)
	x.Close()
	if x = openTest(t, o, Found{}); x.Next() != 10_000 {
		t.Errorf("next is %d", x.Next())
	}
}

func TestConcurrentLookups(t *testing.T) {
	t.Parallel()
	x := openTest(t, testOptions(t, 101, 300), Found{})
	fill(t, x, 0, 100)
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if got := find(t, x, "k50", 0, ever); len(got) != 1 || got[0] != 50 {
					t.Errorf("k50 is found in %v", got)
					return
				}
				find(t, x, "all", 0, ever)
			}
		})
	}
	for i := 100; i < 2000; i++ {
		fill(t, x, i, i+1)
		if i%100 == 0 {
			flush(x)
		}
	}
	close(stop)
	readers.Wait()
	complete(t, x, 2000)
}

func TestPutDoesNotAllocate(t *testing.T) {
	x := openTest(t, testOptions(t, 5000, 1_000_000), Found{})
	r := keyed(0, "UNIQ_KEY\x017F0000011CC54E0E2F2A93C7D9300001\x02KEYS\x01a b\x02TAGS\x01t\x02")
	x.PutNext(r)
	if n := testing.AllocsPerRun(5000, func() {
		r.Offset += 1000
		x.Put(r)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzProgress(f *testing.F) {
	p := progress{position: 5000, geometry: geometry{7, 50}, name: "20261129163110873", header: header{count: 3, end: 4000, used: 2}}
	f.Add(p.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := decodeProgress(b)
		if err == nil && !decodesAgain(p) {
			t.Errorf("%x decodes to %+v", b, p)
		}
	})
}

// FuzzFile opens files of any content, with a progress that fits their head.
func FuzzFile(f *testing.F) {
	f.Add([]byte{}, true)
	f.Fuzz(func(t *testing.T, content []byte, clean bool) {
		o := testOptions(t, 5, 20)
		x := openTest(t, o, Found{})
		fill(t, x, 0, 8)
		flush(x)
		path := filepath.Join(o.Dir, x.newest().name)
		x.Close()
		b, _ := os.ReadFile(path)
		copy(b[40:], content)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		x = openTest(t, o, Found{Clean: clean})
		x.Lookup(Hash([]byte("T"), []byte("all"), Key), 0, ever, func(message.Offset) bool { return true })
		for i := int(x.Next() / 1000); i < 40; i++ {
			x.PutNext(withKey(i, "all"))
		}
		if !clean {
			if got := find(t, x, "all", 0, ever); len(got) != 40 {
				t.Errorf("%d results", len(got))
			}
		}
	})
}

// decodesAgain: zeros between fields are not looked at.
func decodesAgain(p progress) bool {
	q, err := decodeProgress(p.append(nil))
	return err == nil && q == p
}

// A clock that stands still, or was set back by years, costs names that are no times, and nothing else.
func TestNamesRiseWithoutAClock(t *testing.T) {
	t.Parallel()
	o := testOptions(t, 7, 3)
	now := int64(1_700_000_000_000)
	o.Now = func() int64 { return now }
	x := openTest(t, o, Found{})
	fill(t, x, 0, 200)
	now -= 10 * 365 * 24 * 3_600_000
	fill(t, x, 200, 400)
	complete(t, x, 400)
	if !slices.IsSortedFunc(x.files, func(a, b *file) int { return cmp.Compare(a.name, b.name) }) {
		t.Error("names do not rise")
	}
}
