package consumequeue_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
)

func TestRepairs(t *testing.T) {
	t.Parallel()
	entries := func(from, to int) (b []byte) {
		for n := from; n < to; n++ {
			b = consumequeue.AppendEntry(b, entry(n))
		}
		return b
	}
	const made120 = 120 // files 0 and 1 full, 20 entries in file 2
	cases := []struct {
		name   string
		damage func(t *testing.T, dir string)
		from   int
		to     int
		logged []string
	}{
		{"none", func(t *testing.T, dir string) {}, 0, 120, nil},
		{"last file missing", func(t *testing.T, dir string) { check(t, os.Remove(file(dir, 2))) }, 0, 100, nil},
		{"first file missing", func(t *testing.T, dir string) { check(t, os.Remove(file(dir, 0))) }, 50, 120, nil},
		{"middle file missing", func(t *testing.T, dir string) { check(t, os.Remove(file(dir, 1))) }, 0, 50, []string{"file is missing"}},
		{"zero file behind", func(t *testing.T, dir string) { check(t, os.WriteFile(file(dir, 3), make([]byte, fileSize), 0o644)) }, 0, 120,
			[]string{"files behind the end"}},
		{"file without a byte", func(t *testing.T, dir string) { check(t, os.WriteFile(file(dir, 3), nil, 0o644)) }, 0, 120,
			[]string{"without a byte was removed"}},
		{"short last file", func(t *testing.T, dir string) { check(t, os.Truncate(file(dir, 2), 205)) }, 0, 110, []string{"short consume queue file"}},
		{"stray files", func(t *testing.T, dir string) {
			check(t, os.WriteFile(filepath.Join(dir, ".DS_Store"), []byte("x"), 0o644))
			check(t, os.WriteFile(filepath.Join(dir, "T", "x.tmp"), []byte("x"), 0o644))
			check(t, os.Mkdir(filepath.Join(dir, "T", "01"), 0o755))
			check(t, os.WriteFile(filepath.Join(dir, "T", "0", "00000000000000000abc"), []byte("x"), 0o644))
			check(t, os.Mkdir(filepath.Join(dir, "T", "0", "00000000000000009000"), 0o755))
		}, 0, 120, []string{".DS_Store", "0/00000000000000000abc", "0/00000000000000009000", "T/01", "x.tmp"}},
		{"empty folders", func(t *testing.T, dir string) { check(t, os.MkdirAll(filepath.Join(dir, "U", "3"), 0o755)) }, 0, 120, nil},
		{"tail zero", func(t *testing.T, dir string) { overwrite(t, file(dir, 2), 200, make([]byte, 200)) }, 0, 110, nil},
		{"torn unit", func(t *testing.T, dir string) { overwrite(t, file(dir, 2), 19*20+10, make([]byte, 10)) }, 0, 119,
			[]string{"stood behind the end of a consume queue is erased"}},
		{"negative offset", func(t *testing.T, dir string) { overwrite(t, file(dir, 2), 19*20, []byte{0x80}) }, 0, 119,
			[]string{"is erased"}},
		{"hole in the last file", func(t *testing.T, dir string) { overwrite(t, file(dir, 2), 5*20, make([]byte, 20)) }, 0, 105,
			[]string{"is erased"}},
		{"hole in an earlier file", func(t *testing.T, dir string) { overwrite(t, file(dir, 0), 49*20, make([]byte, 20)) }, 0, 49,
			[]string{"files behind the end"}},
		{"hole at the start", func(t *testing.T, dir string) { overwrite(t, file(dir, 0), 0, make([]byte, 20)) }, 0, 0,
			[]string{"files behind the end", "is erased"}},
		{"garbage far behind the end", func(t *testing.T, dir string) { overwrite(t, file(dir, 2), 900, entries(7, 9)) }, 0, 120,
			[]string{"is erased"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := made(t, made120)
			c.damage(t, dir)
			var l logged
			table := open(t, consumequeue.Options{Dir: dir, Logger: l.logger()})
			l.expectLines(t, c.logged...)
			q := table.Get(zero)
			expect(t, q, c.from, c.to)
			// What was behind the end does not come back when the queue grows again.
			put(t, q, c.to, c.to+1)
			check(t, table.Close())
			var again logged
			table = open(t, consumequeue.Options{Dir: dir, Logger: again.logger()})
			if len(c.logged) < 5 { // the stray files stay
				again.expectLines(t)
			}
			expect(t, table.Get(zero), c.from, c.to+1)
			put(t, table.Get(zero), c.to+1, 200)
			check(t, table.Close())
			table = open(t, consumequeue.Options{Dir: dir})
			expect(t, table.Get(zero), c.from, 200)
			check(t, table.Close())
		})
	}
}

func TestFullFileFollowedByZeroFile(t *testing.T) {
	t.Parallel()
	dir := made(t, 100)
	check(t, os.WriteFile(file(dir, 2), make([]byte, fileSize), 0o644)) // as a broker leaves it that made the next file
	var l logged
	table := open(t, consumequeue.Options{Dir: dir, Logger: l.logger()})
	expect(t, table.Get(zero), 0, 100)
	l.expectLines(t)
	put(t, table.Get(zero), 100, 160)
	check(t, table.Close())
	table = open(t, consumequeue.Options{Dir: dir})
	expect(t, table.Get(zero), 0, 160)
	check(t, table.Close())
}

func TestWrongSizesAreRefused(t *testing.T) {
	t.Parallel()
	f := func(size int64, change func(dir string), want string) {
		t.Helper()
		dir := made(t, 120)
		before := snapshot(t, dir)
		change(dir)
		if _, err := consumequeue.Open(consumequeue.Options{Dir: dir, FileSize: size}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("size %d: error %v, want %q", size, err, want)
		}
		change = nil
		for name, b := range snapshot(t, dir) {
			if old, ok := before[name]; ok && !bytes.HasPrefix(b, old) && !bytes.HasPrefix(old, b) {
				t.Errorf("%s was changed", name)
			}
		}
	}
	none := func(string) {}
	f(0, none, "mappedFileSizeConsumeQueue is 0, must be a multiple of 20")
	f(1003, none, "must be a multiple of 20")
	f(500, none, "has 1000 bytes, which does not go with mappedFileSizeConsumeQueue=500")
	f(6000000, none, "begins at 1000")
	f(fileSize, func(dir string) { check(t, os.Truncate(file(dir, 1), 500)) }, "has 500 bytes")
	f(fileSize, func(dir string) { check(t, os.Truncate(file(dir, 2), 1020)) }, "has 1020 bytes")
	// Each queue has one file only, so no name tells.
	dir := made(t, 10)
	table := open(t, consumequeue.Options{Dir: dir})
	put(t, table.Get(consumequeue.ID{Topic: "U"}), 0, 10)
	check(t, table.Close())
	if _, err := consumequeue.Open(consumequeue.Options{Dir: dir, FileSize: 6000000}); err == nil || !strings.Contains(err.Error(), "1 more files have 1000 bytes") {
		t.Errorf("error %v", err)
	}
	if got := consumequeue.RoundFileSize(1003); got != 1020 {
		t.Errorf("1003 is rounded to %d", got)
	}
}

func snapshot(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	paths, err := filepath.Glob(filepath.Join(dir, "*", "*", "*"))
	check(t, err)
	for _, path := range paths {
		files[path], err = os.ReadFile(path)
		check(t, err)
	}
	return files
}

// With a known number the search begins there, and a hole before it is not looked for; a number that is wrong is no harm.
func TestKnown(t *testing.T) {
	t.Parallel()
	f := func(known message.QueueOffset, want message.QueueOffset) {
		t.Helper()
		dir := made(t, 120)
		overwrite(t, file(dir, 0), 100, make([]byte, 20))
		table := open(t, consumequeue.Options{Dir: dir, Known: func(id consumequeue.ID) message.QueueOffset {
			if id != zero {
				t.Errorf("asked for %v", id)
			}
			return known
		}})
		if got := table.Get(zero).Max(); got != want {
			t.Errorf("known %d: max %d, want %d", known, got, want)
		}
		check(t, table.Close())
	}
	f(0, 5)
	f(100, 120)
	f(120, 120)
	f(121, 5)
	f(1000, 5)
	f(5, 5)
	f(6, 5) // entry 5 is said to be known, and is not there
}

// Whatever the files hold, Open either refuses or gives a queue whose entries all are valid, and a second Open gives the same.
func FuzzOpen(f *testing.F) {
	var good []byte
	for n := range 8 {
		good = consumequeue.AppendEntry(good, entry(n))
	}
	f.Add(good[:80], good[80:], uint16(0))
	f.Add(good, good[:50], uint16(3))
	f.Add(make([]byte, 80), good, uint16(200))
	f.Fuzz(func(t *testing.T, a, b []byte, known uint16) {
		dir := t.TempDir()
		check(t, os.MkdirAll(filepath.Join(dir, "T", "0"), 0o755))
		check(t, os.WriteFile(filepath.Join(dir, "T", "0", "00000000000000000080"), a, 0o644))
		check(t, os.WriteFile(filepath.Join(dir, "T", "0", "00000000000000000160"), b, 0o644))
		o := consumequeue.Options{Dir: dir, FileSize: 80, Known: func(consumequeue.ID) message.QueueOffset { return message.QueueOffset(known) }}
		table, err := consumequeue.Open(o)
		if err != nil {
			return
		}
		q := table.Get(zero)
		got := all(t, q)
		if q.Max()-q.First() > 8 || q.Min() < q.First() || q.Min() > q.Max() {
			t.Fatalf("first %d, min %d, max %d", q.First(), q.Min(), q.Max())
		}
		check(t, table.Close())
		o.Known = nil
		table, err = consumequeue.Open(o)
		check(t, err)
		if again := all(t, table.Get(zero)); known == 0 && len(again) != len(got) {
			t.Fatalf("%d entries, then %d", len(got), len(again))
		}
		check(t, table.Close())
	})
}

// After a clean stop the end is where it is known to be, if the last entry is there and none follows; else it is searched as ever.
func TestKnownAfterACleanStop(t *testing.T) {
	for _, n := range []int{1, 2, perFile - 1, perFile, perFile + 1, 2*perFile - 1, 2 * perFile, 2*perFile + 7} {
		dir := made(t, n)
		for known := max(n-2, 0); known < n+3; known++ {
			table := open(t, consumequeue.Options{Dir: dir, Clean: true, Known: func(consumequeue.ID) message.QueueOffset {
				return message.QueueOffset(known)
			}})
			q := table.Get(zero)
			if q.Max() != message.QueueOffset(n) || q.Next != q.Max() || q.LastOffset() != entry(n-1).End() {
				t.Errorf("%d entries, known %d: max %d, next %d, last record ends at %d", n, known, q.Max(), q.Next, q.LastOffset())
			}
			check(t, table.Close())
		}
	}
}
