package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ringmq/engine/message"
	"ringmq/engine/segment"
	"ringmq/engine/segment/memstore"
)

// cutFiles are the files below dir and what they hold.
func cutFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(b)
	}
	return files
}

// TestCut keeps aside what stands behind the end, byte by byte, and leaves zeros.
func TestCut(t *testing.T) {
	t.Parallel()
	const end = testSegment + 3000
	storage, _ := filled(t, 3, 1000)
	before, third := storage.Live(secondName), storage.Live(thirdName)
	dir := filepath.Join(t.TempDir(), "deep", "cut")
	l := open(t, testOptions(storage))
	saved, err := l.Cut(end, 0, dir)
	if err != nil {
		t.Fatal(err)
	}
	tail := before[3000:16008] // to the last byte of the end record
	if want := int64(len(tail) + testSegment); saved != want {
		t.Errorf("saved %d bytes, want %d", saved, want)
	}
	got := cutFiles(t, dir)
	if len(got) != 1 || got["00000000000000019384"] != string(tail) {
		t.Errorf("cut files: %d, %d bytes, want %d", len(got), len(got["00000000000000019384"]), len(tail))
	}
	if moved := storage.Moved(filepath.Join(dir, thirdName)); !bytes.Equal(moved, third) {
		t.Errorf("the third segment was not moved away: %d bytes", len(moved))
	}
	clear(before[3000:])
	if !bytes.Equal(storage.Durable(secondName), before) {
		t.Error("the second segment is not erased durably, or more than that")
	}
	if storage.Live(thirdName) != nil || l.Segments().Last().Name() != secondName {
		t.Error("the third segment is still there")
	}
	if saved, err := l.Cut(end, 0, dir); saved != 0 || err != nil || len(cutFiles(t, dir)) != 1 {
		t.Errorf("a second cut: %d, %v", saved, err)
	}
}

// TestCutKeepsAhead: a segment ahead that holds nothing stays and is used by the next roll.
func TestCutKeepsAhead(t *testing.T) {
	t.Parallel()
	storage, placed := filled(t, 2, 1000)
	end := placed[len(placed)-1].End
	l := open(t, testOptions(storage))
	dir := filepath.Join(t.TempDir(), "cut")
	if saved, err := l.Cut(end, 0, dir); saved != 0 || err != nil {
		t.Errorf("got %d, %v", saved, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder made for nothing: %v", err)
	}
	creates := storage.Count(memstore.OpCreate)
	if err := l.Start(end); err != nil {
		t.Fatal(err)
	}
	if storage.Count(memstore.OpCreate) != creates || l.Segments().Last().Name() != thirdName {
		t.Error("the segment ahead was not kept")
	}
	var next message.QueueOffset
	put(t, l, record(t, 0, 10000), &next)
	flush(t, l)
	if storage.Live(thirdName)[7] == 0 {
		t.Error("the segment ahead was not used")
	}
}

// TestCutNames: a name that is taken is left alone.
func TestCutNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 3 {
		storage, _ := filled(t, 1, 1000)
		l := open(t, testOptions(storage))
		if _, err := l.Cut(message.Offset(2000), 0, dir); err != nil {
			t.Fatal(err)
		}
		if n := len(cutFiles(t, dir)); n != i+1 {
			t.Errorf("cut %d: %d files", i, n)
		}
	}
	if got := cutFiles(t, dir); got["00000000000000002000.2"] == "" || got["00000000000000002000.1"] != got["00000000000000002000"] {
		t.Errorf("names: %v", len(got))
	}
}

// TestCutGap: segments behind a missing one go, also if they are empty, so that the log can grow there.
func TestCutGap(t *testing.T) {
	t.Parallel()
	f := func(end message.Offset, wantMoved bool) {
		t.Helper()
		storage, _ := filled(t, 3, 1000)
		if err := storage.Remove(secondName); err != nil {
			t.Fatal(err)
		}
		if !wantMoved {
			change(storage, thirdName, func(b []byte) { clear(b) })
		}
		dir := t.TempDir()
		l := open(t, testOptions(storage))
		if _, err := l.Cut(end, 0, dir); err != nil {
			t.Fatal(err)
		}
		if got := storage.Moved(filepath.Join(dir, thirdName)) != nil; got != wantMoved {
			t.Errorf("end %d: moved %v, want %v", end, got, wantMoved)
		}
		if l.Segments().Last().Name() != firstName {
			t.Errorf("end %d: last segment %s", end, l.Segments().Last().Name())
		}
		if err := l.Start(end); err != nil {
			t.Fatal(err)
		}
		var next message.QueueOffset
		for i := range 5 {
			put(t, l, record(t, i, 10000), &next)
		}
	}
	f(testSegment, true)
	f(testSegment, false)
	f(9000, false)
}

// TestCutStopped breaks every step of a cut once. Whatever it broke, every byte is in the log or kept aside, and the next
// cut completes it.
func TestCutStopped(t *testing.T) {
	t.Parallel()
	const end = testSegment + 3000
	f := func(fault memstore.Fault) {
		t.Helper()
		storage, _ := filled(t, 3, 1000)
		want := string(storage.Live(secondName)[3000:16008])
		third := storage.Live(thirdName)
		dir := t.TempDir()
		fault.Err = syscall.EIO
		storage.Inject(&fault)
		l := open(t, testOptions(storage))
		if _, err := l.Cut(end, 0, dir); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: got %v", fault.Op, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		// The machine goes down as well: a failed sync leaves clean pages behind that the device has not.
		storage = storage.CrashClone(rand.New(rand.NewPCG(1, 2)), 50)
		kept := func() bool {
			tail := strings.HasPrefix(string(storage.Durable(secondName)[3000:]), want) || cutFiles(t, dir)["00000000000000019384"] == want
			segment := bytes.Equal(storage.Durable(thirdName), third) || bytes.Equal(storage.Moved(filepath.Join(dir, thirdName)), third)
			return tail && segment
		}
		if !kept() {
			t.Errorf("%s: bytes are lost", fault.Op)
		}
		l = open(t, testOptions(storage))
		if _, err := l.Cut(end, 0, dir); err != nil {
			t.Errorf("%s: second cut: %v", fault.Op, err)
		}
		if !kept() || len(strings.Trim(string(storage.Durable(secondName)[3000:]), "\x00")) != 0 {
			t.Errorf("%s: the second cut did not complete it", fault.Op)
		}
	}
	f(memstore.Fault{Op: memstore.OpMove})
	f(memstore.Fault{Op: memstore.OpRemove})
	f(memstore.Fault{Op: memstore.OpWrite, Short: 1234})
	f(memstore.Fault{Op: memstore.OpSync})
}

// TestCutUnwritableFolder: nothing is erased when nothing can be saved.
func TestCutUnwritableFolder(t *testing.T) {
	t.Parallel()
	storage, placed := filled(t, 1, 1000)
	before := storage.Live(firstName)
	inTheWay := filepath.Join(t.TempDir(), "cut")
	if err := os.WriteFile(inTheWay, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := open(t, testOptions(storage))
	if _, err := l.Cut(placed[2].Start, 0, inTheWay); err == nil || !strings.Contains(err.Error(), inTheWay) {
		t.Errorf("got %v", err)
	}
	if !bytes.Equal(storage.Live(firstName), before) {
		t.Error("bytes were erased that are nowhere else")
	}
}

// TestCutOnDisk does it with real files: the moved segment, and one that is on another file system if there is one.
func TestCutOnDisk(t *testing.T) {
	t.Parallel()
	dirs := []string{t.TempDir()}
	if other, err := os.MkdirTemp("/dev/shm", "cut"); err == nil {
		t.Cleanup(func() { os.RemoveAll(other) })
		dirs = append(dirs, other)
	}
	for _, dir := range dirs {
		root := t.TempDir()
		storage, err := segment.NewDir(root, segment.DirOptions{})
		if err != nil {
			t.Fatal(err)
		}
		l := started(t, testOptions(storage))
		var next message.QueueOffset
		for i := range 40 {
			put(t, l, record(t, i, 1000), &next)
		}
		flush(t, l)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		third, err := os.ReadFile(filepath.Join(root, thirdName))
		if err != nil {
			t.Fatal(err)
		}
		l = open(t, testOptions(storage))
		if _, err := l.Cut(9000, 0, filepath.Join(dir, "cut")); err != nil {
			t.Fatal(err)
		}
		got := cutFiles(t, filepath.Join(dir, "cut"))
		if len(got) != 3 || !strings.HasPrefix(string(third), got[thirdName]) || len(got[thirdName]) < 7000 || len(got[firstName[:16]+"9000"]) != 16008-9000 {
			t.Errorf("%s: %d files", dir, len(got))
		}
		if records, _, end := scan(t, l, 0); len(records) != 9 || end != 9000 {
			t.Errorf("%d records up to %d", len(records), end)
		}
	}
}

func TestRepair(t *testing.T) {
	t.Parallel()
	f := func(name string, alter func(storage *memstore.Storage), wantFiles int, wantLog ...string) {
		t.Helper()
		storage, placed := filled(t, 2, 1000)
		if err := storage.Remove(thirdName); err != nil { // the one made ahead
			t.Fatal(err)
		}
		alter(storage)
		var lines bytes.Buffer
		o := testOptions(storage)
		o.Logger = slog.New(slog.NewTextHandler(&lines, nil))
		l := open(t, o)
		if n := len(l.Segments().Files()); n != wantFiles {
			t.Errorf("%s: %d segments, want %d", name, n, wantFiles)
		}
		if n := strings.Count(lines.String(), "\n"); n != len(wantLog) {
			t.Errorf("%s: %d lines, want %d: %s", name, n, len(wantLog), lines.String())
		}
		for _, want := range wantLog {
			if !strings.Contains(lines.String(), want) {
				t.Errorf("%s: no line with %s: %s", name, want, lines.String())
			}
		}
		if records, damage, end := scan(t, l, 0); len(records) != len(placed) || len(damage) != 0 || end != placed[len(placed)-1].End {
			t.Errorf("%s: %d records up to %d, damage %v", name, len(records), end, damage)
		}
	}
	fourthName := fmt.Sprintf("%020d", 3*testSegment)
	f("nothing", func(*memstore.Storage) {}, 2)
	f("stray names", func(s *memstore.Storage) {
		for _, name := range []string{".DS_Store", "x.tmp", "00000000000000000abc", "000", "99999999999999999999"} {
			s.Put(name, []byte("x"))
		}
	}, 2)
	f("one empty", func(s *memstore.Storage) { s.Put(thirdName, nil) }, 2, thirdName)
	f("two empty", func(s *memstore.Storage) { s.Put(thirdName, nil); s.Put(fourthName, nil) }, 2, thirdName, fourthName)
	f("half and zero", func(s *memstore.Storage) { s.Put(thirdName, make([]byte, testSegment/2)) }, 3, thirdName)
	f("half, then empty", func(s *memstore.Storage) {
		s.Put(thirdName, make([]byte, testSegment/2))
		s.Put(fourthName, nil)
	}, 3, thirdName, fourthName)
	f("short with records", func(s *memstore.Storage) { s.Put(secondName, s.Live(secondName)[:10000]) }, 2, secondName)
}

// TestMissingSegmentIsTold: at every opening, for a recovery that begins behind the hole does not come by it.
func TestMissingSegmentIsTold(t *testing.T) {
	t.Parallel()
	storage, _ := filled(t, 3, 1000)
	if err := storage.Remove(secondName); err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	o := testOptions(storage)
	o.Logger = slog.New(slog.NewTextHandler(&lines, nil))
	open(t, o)
	if n := strings.Count(lines.String(), "\n"); n != 1 || !strings.Contains(lines.String(), "level=ERROR") || !strings.Contains(lines.String(), "from=16384 to=32768") {
		t.Errorf("%d lines: %s", n, lines.String())
	}
}

func TestRepairRefuses(t *testing.T) {
	t.Parallel()
	f := func(name string, alter func(storage *memstore.Storage), want ...string) {
		t.Helper()
		storage, _ := filled(t, 2, 1000)
		alter(storage)
		before, err := storage.List()
		if err != nil {
			t.Fatal(err)
		}
		_, err = Open(testOptions(storage))
		if err == nil {
			t.Errorf("%s: opened", name)
			return
		}
		for _, want := range append(want, "mappedFileSizeCommitLog=16384") {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want one with %s", name, err, want)
			}
		}
		after, _ := storage.List()
		if fmt.Sprint(before) != fmt.Sprint(after) {
			t.Errorf("%s: files were changed: %v, %v", name, before, after)
		}
	}
	f("short in the middle", func(s *memstore.Storage) { s.Put(secondName, make([]byte, 100)); s.Put("00000000000000049152", nil) },
		secondName, "100 bytes")
	f("empty in the middle", func(s *memstore.Storage) { s.Put(firstName, nil) }, firstName, "0 bytes")
	f("too long", func(s *memstore.Storage) { s.Put(thirdName, make([]byte, testSegment+1)) }, thirdName, "16385 bytes")
	f("odd place", func(s *memstore.Storage) { s.Put("00000000000000032769", make([]byte, testSegment)) }, "00000000000000032769")
}

// TestSparseIsAllocated: a segment with holes, as a Java broker leaves it, gets its blocks before the first append.
func TestSparseIsAllocated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{firstName, secondName} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, testSegment); err != nil {
			t.Fatal(err)
		}
	}
	storage, err := segment.NewDir(dir, segment.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	started(t, testOptions(storage))
	for _, name := range []string{firstName, secondName} {
		var st syscall.Stat_t
		if err := syscall.Stat(filepath.Join(dir, name), &st); err != nil || st.Blocks*512 < testSegment {
			t.Errorf("%s has %d blocks, %v", name, st.Blocks, err)
		}
	}
}

func TestRemoveFirst(t *testing.T) {
	t.Parallel()
	storage := mem()
	l := open(t, testOptions(storage))
	if err := l.RemoveFirst(); !errors.Is(err, ErrInUse) {
		t.Errorf("empty: %v", err)
	}
	if err := l.Start(0); err != nil {
		t.Fatal(err)
	}
	var next message.QueueOffset
	put(t, l, record(t, 0, 10000), &next)
	put(t, l, record(t, 1, 10000), &next)
	writeOut(t, l)
	if err := l.RemoveFirst(); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), firstName) {
		t.Errorf("not flushed: %v", err)
	}
	flush(t, l)
	held, ok := l.View(0, 10000)
	if !ok {
		t.Fatal("no view")
	}
	if err := l.RemoveFirst(); err != nil || l.Min() != testSegment || storage.Live(firstName) != nil {
		t.Errorf("%v, min %d", err, l.Min())
	}
	if _, ok := l.View(0, 100); ok {
		t.Error("a view of a removed segment")
	}
	if message.Size(held.Bytes) != 10000 {
		t.Error("the bytes of a held view are gone")
	}
	held.Release()
	if err := l.RemoveFirst(); !errors.Is(err, ErrInUse) {
		t.Errorf("last one: %v", err)
	}
}
