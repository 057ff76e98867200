package segment_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"ringmq/engine/segment"
	"ringmq/engine/segment/memstore"
)

const fileSize = 8192

// storeOf makes a directory with a file of size bytes at each base, the number of the file in every byte.
func storeOf(size int, bases ...int64) *memstore.Storage {
	s := memstore.New()
	for i, base := range bases {
		content := make([]byte, size)
		for j := range content {
			content[j] = byte(i + 1)
		}
		s.Put(segment.Name(base), content)
	}
	return s
}

func openSet(t testing.TB, s segment.Storage, size int64) *segment.Set {
	t.Helper()
	set, err := segment.OpenSet(segment.SetOptions{Size: size, Storage: s})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// mustBug runs do, which must panic with a text that begins with BUG: and contains want.
func mustBug(t *testing.T, want string, do func()) {
	t.Helper()
	defer func() {
		t.Helper()
		r := recover()
		if text := fmt.Sprint(r); r == nil || !strings.HasPrefix(text, "BUG:") || !strings.Contains(text, want) {
			t.Errorf("panic %v, want BUG: ... %s", r, want)
		}
	}()
	do()
}

func TestName(t *testing.T) {
	t.Parallel()
	f := func(name string, base int64, ok bool) {
		t.Helper()
		got, gotOK := segment.ParseName(name)
		if gotOK != ok || ok && got != base {
			t.Errorf("ParseName(%q) = %d, %v, want %d, %v", name, got, gotOK, base, ok)
		}
		if ok && segment.Name(base) != name {
			t.Errorf("Name(%d) = %q, want %q", base, segment.Name(base), name)
		}
	}
	f("00000000000000000000", 0, true)
	f("00000000001073741824", 1<<30, true)
	f("09223372036854775807", 1<<63-1, true)
	f("09223372036854775808", 0, false) // above int64
	f("99999999999999999999", 0, false)
	f("0000000000000000000", 0, false)
	f("000000000000000000000", 0, false)
	f("-0000000000000000001", 0, false)
	f("+0000000000000000001", 0, false)
	f("0000000000000000000a", 0, false)
	f("", 0, false)
	mustBug(t, "negative base -1", func() { segment.Name(-1) })
}

func FuzzParseName(f *testing.F) {
	for _, seed := range []string{"00000000001073741824", "09223372036854775807", "09223372036854775808", "0000000000000000000x", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if base, ok := segment.ParseName(name); ok && segment.Name(base) != name {
			t.Errorf("ParseName(%q) = %d, whose name is %q", name, base, segment.Name(base))
		}
	})
}

func TestOpenSet(t *testing.T) {
	t.Parallel()
	s := storeOf(fileSize, 0, fileSize, 4*fileSize)
	s.Put("notes.txt", []byte("a stray file"))
	s.Put("00000000000000008192.bak", nil)
	set := openSet(t, s, fileSize)
	defer set.Close()

	var bases []int64
	for _, f := range set.Files() {
		bases = append(bases, f.Base())
		if f.Size() != fileSize || f.Name() != segment.Name(f.Base()) || f.End() != f.Base()+fileSize || f.Fd() != -1 {
			t.Errorf("file %s: size %d, end %d, fd %d", f.Name(), f.Size(), f.End(), f.Fd())
		}
	}
	if got, want := fmt.Sprint(bases), "[0 8192 32768]"; got != want {
		t.Errorf("bases %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(set.Gaps()), "[{16384 32768}]"; got != want {
		t.Errorf("gaps %s, want %s", got, want)
	}
	if set.First().Base() != 0 || set.Last().Base() != 4*fileSize || set.Size() != fileSize {
		t.Errorf("first %d, last %d, size %d", set.First().Base(), set.Last().Base(), set.Size())
	}
}

func TestOpenSetRefuses(t *testing.T) {
	t.Parallel()
	f := func(name string, s segment.Storage, size int64, want string, is error) {
		t.Helper()
		set, err := segment.OpenSet(segment.SetOptions{Size: size, Storage: s})
		if err == nil {
			set.Close()
			t.Errorf("%s: no error", name)
			return
		}
		if !strings.Contains(err.Error(), want) || is != nil && !errors.Is(err, is) {
			t.Errorf("%s: error %q, want one that contains %q and is %v", name, err, want, is)
		}
	}
	short := storeOf(fileSize, 0)
	short.Put(segment.Name(fileSize), make([]byte, 100))
	f("short file", short, fileSize, "00000000000000008192: wrong size: it has 100 bytes, expected 8192", segment.ErrSize)
	f("overlap", storeOf(fileSize, 0, 4096), fileSize, "00000000000000004096 begins inside file 00000000000000000000", nil)
	f("size 0", memstore.New(), 0, "file size 0", nil)
	broken := errors.New("broken directory")
	lost := memstore.New()
	lost.Inject(&memstore.Fault{Op: memstore.OpList, Err: broken})
	f("list", lost, fileSize, "broken directory", broken)
}

// TestSetFindMatchesSearch compares Find with a walk over all files, for random sets with and without gaps.
func TestSetFindMatchesSearch(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	const size = 64
	for range 200 {
		var bases []int64
		at := int64(rng.IntN(3)) * size
		for range rng.IntN(8) {
			bases = append(bases, at)
			at += size
			if rng.IntN(3) == 0 {
				at += int64(rng.IntN(4 * size)) // not always a multiple
			}
		}
		set := openSet(t, storeOf(size, bases...), size)
		for off := int64(-2); off < at+2; off++ {
			want := int64(-1)
			for _, base := range bases {
				if off >= base && off < base+size {
					want = base
				}
			}
			got := int64(-1)
			if f := set.Find(off); f != nil {
				got = f.Base()
			}
			if got != want {
				t.Fatalf("bases %v: Find(%d) = %d, want %d", bases, off, got, want)
			}
		}
		set.Close()
	}
}

func TestSetAdd(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	set := openSet(t, s, fileSize)
	defer set.Close()
	if set.First() != nil || set.Last() != nil || set.Find(0) != nil {
		t.Error("an empty set has files")
	}
	file := func(base, size int64) *segment.File {
		b, err := s.Create(segment.Name(base), size)
		if err != nil {
			t.Fatal(err)
		}
		return segment.NewFile(base, b)
	}
	set.Add(file(5*fileSize, fileSize)) // a store may begin anywhere
	before := set.Files()
	set.Add(file(6*fileSize, fileSize))
	if len(before) != 1 || len(set.Files()) != 2 {
		t.Errorf("the slice of before has %d files, the set %d", len(before), len(set.Files()))
	}
	mustBug(t, "added behind", func() { set.Add(file(8*fileSize, fileSize)) })
	mustBug(t, "added to a set", func() { set.Add(file(7*fileSize, 4096)) })
}

func TestSetRemove(t *testing.T) {
	t.Parallel()
	s := storeOf(fileSize, 0, fileSize, 2*fileSize, 3*fileSize)
	set := openSet(t, s, fileSize)
	defer set.Close()
	steps := func(want string) {
		t.Helper()
		var inSet, onDisk []int64
		for _, f := range set.Files() {
			inSet = append(inSet, f.Base()/fileSize)
		}
		infos, _ := s.List()
		for _, i := range infos {
			base, _ := segment.ParseName(i.Name)
			onDisk = append(onDisk, base/fileSize)
		}
		if got := fmt.Sprint(inSet); got != want || got != fmt.Sprint(onDisk) {
			t.Errorf("set %v, directory %v, want %s", inSet, onDisk, want)
		}
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	check(set.RemoveFirst())
	steps("[1 2 3]")

	broken := errors.New("read-only file system")
	s.Inject(&memstore.Fault{Op: memstore.OpRemove, Err: broken})
	if err := set.RemoveFirst(); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
	steps("[1 2 3]") // the set tells the truth: the file is still there

	check(set.RemoveFrom(2*fileSize + 1))
	steps("[1 2]")
	s.Inject(&memstore.Fault{Op: memstore.OpRemove, Nth: 2, Err: broken})
	if err := set.RemoveFrom(0); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
	steps("[1]") // last one first: what is left is a beginning
	check(set.RemoveFrom(0))
	steps("[]")
	check(set.RemoveFirst())
}

func TestSetView(t *testing.T) {
	t.Parallel()
	set := openSet(t, storeOf(fileSize, 0, fileSize, 3*fileSize), fileSize)
	defer set.Close()
	f := func(off int64, n int, want int, content byte) {
		t.Helper()
		v, ok := set.View(off, n)
		if ok != (want > 0) || len(v.Bytes) != want {
			t.Errorf("View(%d, %d) = %d bytes, %v, want %d", off, n, len(v.Bytes), ok, want)
			return
		}
		for _, b := range v.Bytes {
			if b != content {
				t.Errorf("View(%d, %d) has byte %d, want %d", off, n, b, content)
			}
		}
		if ok && cap(v.Bytes) != want {
			t.Errorf("View(%d, %d) has capacity %d: append would write into the mapping", off, n, cap(v.Bytes))
		}
		v.Release()
	}
	f(0, 1, 1, 1)
	f(0, fileSize, fileSize, 1)
	f(0, fileSize+1, fileSize, 1)
	f(fileSize-1, 100, 1, 1)
	f(fileSize, 10, 10, 2)
	f(3*fileSize, 10, 10, 3)
	f(2*fileSize, 10, 0, 0) // in the gap
	f(4*fileSize, 10, 0, 0)
	f(-1, 10, 0, 0)
	f(0, 0, 0, 0)
	f(0, -1, 0, 0)
}

// closeSpy is a storage that knows how many of its files are open.
type closeSpy struct {
	segment.Storage
	open atomic.Int64
}

type spiedBacking struct {
	segment.Backing
	spy *closeSpy
}

func (s *closeSpy) Open(name string, size int64) (segment.Backing, error) {
	b, err := s.Storage.Open(name, size)
	if err != nil {
		return nil, err
	}
	s.open.Add(1)
	return &spiedBacking{b, s}, nil
}

func (b *spiedBacking) Close() error {
	b.spy.open.Add(-1)
	return b.Backing.Close()
}

func TestFileStaysOpenWhileHeld(t *testing.T) {
	t.Parallel()
	spy := &closeSpy{Storage: storeOf(fileSize, 0, fileSize)}
	set := openSet(t, spy, fileSize)
	f := set.First()
	v, ok := set.View(10, 10)
	if !ok || !f.Hold() {
		t.Fatal("not found")
	}
	if err := set.RemoveFirst(); err != nil {
		t.Fatal(err)
	}
	if f.Hold() {
		t.Error("a removed file was held anew")
	}
	if _, ok := set.View(10, 10); ok {
		t.Error("a removed file is still found")
	}
	if err := f.Sync(); !errors.Is(err, segment.ErrClosed) {
		t.Errorf("Sync of a removed file: %v, want %v", err, segment.ErrClosed)
	}
	if err := f.WriteAt([][]byte{{1}}, 0); !errors.Is(err, segment.ErrClosed) {
		t.Errorf("WriteAt to a removed file: %v, want %v", err, segment.ErrClosed)
	}
	if spy.open.Load() != 2 || v.Bytes[0] != 1 {
		t.Errorf("%d files open, want 2", spy.open.Load())
	}
	v.Release()
	if spy.open.Load() != 2 {
		t.Errorf("%d files open before the last release, want 2", spy.open.Load())
	}
	f.Release()
	if spy.open.Load() != 1 {
		t.Errorf("%d files open after the last release, want 1", spy.open.Load())
	}
	mustBug(t, "released more often than held", f.Release)
	if err := set.Close(); err != nil || spy.open.Load() != 0 {
		t.Errorf("Close: %v, %d files open", err, spy.open.Load())
	}
}

func TestReleaseWithoutHoldPanics(t *testing.T) {
	t.Parallel()
	set := openSet(t, storeOf(fileSize, 0), fileSize)
	mustBug(t, "released more often than held", set.First().Release)
}

func TestFailedOpenClosesAll(t *testing.T) {
	t.Parallel()
	s := storeOf(fileSize, 0, fileSize)
	s.Put(segment.Name(2*fileSize), nil)
	spy := &closeSpy{Storage: s}
	if _, err := segment.OpenSet(segment.SetOptions{Size: fileSize, Storage: spy}); err == nil {
		t.Error("no error")
	}
	if spy.open.Load() != 0 {
		t.Errorf("%d files left open", spy.open.Load())
	}
}

// TestSetConcurrent has readers view while the owner of the tail adds and the owner of the head removes.
func TestSetConcurrent(t *testing.T) {
	t.Parallel()
	const size, rounds = 4096, 300
	s := storeOf(size, 0)
	spy := &closeSpy{Storage: s}
	set := openSet(t, spy, size)
	var stop atomic.Bool
	var readers, owners sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for i := int64(0); !stop.Load(); i++ {
				first := set.First()
				if first == nil {
					continue
				}
				v, ok := set.View(first.Base()+i%size, 64)
				if ok && v.Bytes[0] != byte(first.Base()/size+1) {
					t.Errorf("file %s has byte %d", first.Name(), v.Bytes[0])
				}
				v.Release()
			}
		})
	}
	owners.Go(func() {
		for i := 1; i <= rounds; i++ {
			content := make([]byte, size)
			for j := range content {
				content[j] = byte(i + 1)
			}
			base := int64(i * size)
			s.Put(segment.Name(base), content)
			b, err := spy.Open(segment.Name(base), size)
			if err != nil {
				t.Error(err)
				return
			}
			set.Add(segment.NewFile(base, b))
		}
	})
	owners.Go(func() {
		for removed := 0; removed < rounds; {
			if len(set.Files()) < 2 {
				continue
			}
			if err := set.RemoveFirst(); err != nil {
				t.Error(err)
				return
			}
			removed++
		}
	})
	owners.Wait()
	stop.Store(true)
	readers.Wait()
	if err := set.Close(); err != nil || spy.open.Load() != 0 {
		t.Errorf("Close: %v, %d files open", err, spy.open.Load())
	}
}

func TestFileSyncFailureIsFinal(t *testing.T) {
	t.Parallel()
	s := storeOf(fileSize, 0)
	set := openSet(t, s, fileSize)
	defer set.Close()
	f := set.First()
	if f.Dirty() {
		t.Error("dirty when opened")
	}
	if err := f.WriteAt([][]byte{[]byte("ab"), []byte("cd")}, 3); err != nil {
		t.Fatal(err)
	}
	if !f.Dirty() || string(f.Bytes()[2:8]) != "\x01abcd\x01" {
		t.Errorf("dirty %v, bytes %q", f.Dirty(), f.Bytes()[2:8])
	}
	if err := f.Sync(); err != nil || f.Dirty() {
		t.Errorf("Sync: %v, dirty %v", err, f.Dirty())
	}
	broken := errors.New("input/output error")
	s.Inject(&memstore.Fault{Op: memstore.OpSync, Err: broken})
	first := f.Sync()
	if !errors.Is(first, broken) || !strings.Contains(first.Error(), f.Name()) {
		t.Errorf("Sync: %v, want %v with the name", first, broken)
	}
	begun := s.Count(memstore.OpSync)
	for range 3 {
		if err := f.Sync(); err != first {
			t.Errorf("later Sync: %v, want the first error %v", err, first)
		}
	}
	if err := f.BeginSync(); err != first {
		t.Errorf("BeginSync: %v, want the first error", err)
	}
	if got := s.Count(memstore.OpSync); got != begun {
		t.Errorf("a failed sync was tried again %d times", got-begun)
	}
}

func TestFileSyncAround(t *testing.T) {
	t.Parallel()
	set := openSet(t, storeOf(fileSize, 0), fileSize)
	defer set.Close()
	f := set.First()
	f.MarkDirty()
	if err := f.BeginSync(); err != nil || f.Dirty() {
		t.Errorf("BeginSync: %v, dirty %v", err, f.Dirty())
	}
	if err := f.EndSync(nil); err != nil {
		t.Error(err)
	}
	err := f.EndSync(fs.ErrInvalid)
	if !errors.Is(err, fs.ErrInvalid) || f.Sync() != err {
		t.Errorf("EndSync: %v, later Sync: %v", err, f.Sync())
	}
}

func TestFileWriteOutsideIsABug(t *testing.T) {
	t.Parallel()
	set := openSet(t, storeOf(fileSize, 0), fileSize)
	defer set.Close()
	f := set.First()
	mustBug(t, "write of [-1, 0)", func() { f.WriteAt([][]byte{{1}}, -1) })
	mustBug(t, "write of [8190, 8193)", func() { f.WriteAt([][]byte{{1, 2}, {3}}, 8190) })
}
