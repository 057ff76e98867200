package memstore

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"testing"

	"ringmq/engine/segment"
)

const size = 4 * PageSize

func create(t *testing.T, s *Storage, name string) segment.Backing {
	t.Helper()
	b, err := s.Create(name, size)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, b segment.Backing, off int64, text string) {
	t.Helper()
	if err := b.WriteAt([][]byte{[]byte(text)}, off); err != nil {
		t.Fatal(err)
	}
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func TestOnlySyncMakesDurable(t *testing.T) {
	t.Parallel()
	s := New()
	b := create(t, s, "a")
	write(t, b, 10, "first")
	copy(b.Bytes()[PageSize:], "stored") // through the mapping
	if got := s.Durable("a"); !bytes.Equal(got, make([]byte, size)) {
		t.Error("durable without a sync")
	}
	if lost := s.CrashClone(newRand(1), 0).Live("a"); !bytes.Equal(lost, make([]byte, size)) {
		t.Error("crash with 0 percent kept something")
	}
	if kept := s.CrashClone(newRand(1), 100).Live("a"); !bytes.Equal(kept, b.Bytes()) {
		t.Error("crash with 100 percent lost something")
	}
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	write(t, b, 2*PageSize, "later")
	got := s.CrashClone(newRand(1), 0).Live("a")
	if string(got[10:15]) != "first" || string(got[PageSize:PageSize+6]) != "stored" || got[2*PageSize] != 0 {
		t.Error("crash lost what was synced or kept what was not")
	}
	if string(s.Live("a")[2*PageSize:2*PageSize+5]) != "later" {
		t.Error("the crash clone disturbed the original")
	}
}

func TestCrashTakesPagesOneByOne(t *testing.T) {
	t.Parallel()
	s := New()
	b := create(t, s, "a")
	for page := range int64(4) {
		write(t, b, page*PageSize, "x")
	}
	seen := make(map[[4]bool]bool)
	for seed := range uint64(300) {
		clone := s.CrashClone(newRand(seed), 50)
		var kept [4]bool
		for page := range kept {
			kept[page] = clone.Live("a")[page*PageSize] == 'x'
		}
		seen[kept] = true
		if again := s.CrashClone(newRand(seed), 50); !bytes.Equal(again.Live("a"), clone.Live("a")) {
			t.Fatalf("seed %d gives two clones", seed)
		}
		if !bytes.Equal(clone.Live("a"), clone.Durable("a")) {
			t.Fatal("a page of a crashed directory is dirty")
		}
	}
	if len(seen) != 16 {
		t.Errorf("%d of 16 outcomes seen: pages must be independent", len(seen))
	}
}

func TestNamesAreDurableWhenTheCallEnds(t *testing.T) {
	t.Parallel()
	s := New()
	create(t, s, "a")
	create(t, s, "b")
	if err := s.Remove("a"); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(20) {
		clone := s.CrashClone(newRand(seed), 50)
		if clone.Live("a") != nil || clone.Live("b") == nil {
			t.Fatal("a name was lost or came back")
		}
	}
	s.SetVolatileNames(true)
	create(t, s, "c")
	if err := s.Remove("b"); err != nil {
		t.Fatal(err)
	}
	outcomes := make(map[[2]bool]bool)
	for seed := range uint64(100) {
		clone := s.CrashClone(newRand(seed), 50)
		outcomes[[2]bool{clone.Live("b") != nil, clone.Live("c") != nil}] = true
	}
	if len(outcomes) != 4 {
		t.Errorf("%d of 4 outcomes seen", len(outcomes))
	}
}

func TestCreateUnderWayMayOrMayNotBeThere(t *testing.T) {
	t.Parallel()
	s := New()
	hold, entered, done := make(chan struct{}), make(chan struct{}), make(chan error)
	s.Inject(&Fault{Op: OpCreate, Name: "a", Hold: hold, Entered: entered})
	go func() {
		_, err := s.Create("a", size)
		done <- err
	}()
	<-entered
	there := 0
	for seed := range uint64(100) {
		if s.CrashClone(newRand(seed), 50).Live("a") != nil {
			there++
		}
	}
	if there == 0 || there == 100 {
		t.Errorf("there in %d of 100 crashes", there)
	}
	close(hold)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	s := New()
	b := create(t, s, "a")
	s.Inject(&Fault{Op: OpWrite, Nth: 2, Err: broken, Short: 3})
	s.Inject(&Fault{Op: OpWrite, Name: "other", Err: broken})
	write(t, b, 0, "abcdef")
	if err := b.WriteAt([][]byte{[]byte("AB"), []byte("CD")}, 0); !errors.Is(err, broken) {
		t.Errorf("second write: %v", err)
	}
	if got := string(s.Live("a")[:6]); got != "ABCdef" {
		t.Errorf("after a write cut at 3: %q", got)
	}
	write(t, b, 0, "again.")

	s.Inject(&Fault{Op: OpOpen, Nth: 2, Always: true, Err: broken})
	for i, want := range []error{nil, broken, broken, broken} {
		if _, err := s.Open("a", size); !errors.Is(err, want) {
			t.Errorf("Open %d: %v, want %v", i, err, want)
		}
	}
	s.Heal()
	if _, err := s.Open("a", size); err != nil {
		t.Errorf("healed: %v", err)
	}
	if got := s.Count(OpOpen); got != 5 {
		t.Errorf("%d opens counted, want 5", got)
	}
}

func TestFailedSyncLosesPages(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	s := New()
	b := create(t, s, "a")
	write(t, b, 0, "lost")
	s.Inject(&Fault{Op: OpSync, Err: broken})
	if err := b.Sync(); !errors.Is(err, broken) {
		t.Errorf("Sync: %v", err)
	}
	write(t, b, PageSize, "later")
	if err := b.Sync(); err != nil {
		t.Fatal(err) // as the kernel: the error is told once
	}
	if got := s.Durable("a"); got[0] != 0 || got[PageSize] != 'l' {
		t.Error("a second sync brought pages of a failed one to the device")
	}
	write(t, b, 0, "l") // dirty again
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	if got := s.Durable("a"); string(got[:4]) != "lost" {
		t.Error("a page written again was not synced")
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	s := New()
	b := create(t, s, "a")
	f := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	_, err := s.Create("a", size)
	f("create", err, fs.ErrExist)
	_, err = s.Open("b", size)
	f("open", err, fs.ErrNotExist)
	_, err = s.Open("a", size+1)
	f("open", err, segment.ErrSize)
	f("resize", s.Resize("b", 1), fs.ErrNotExist)
	f("move", s.MoveTo("b", "x"), fs.ErrNotExist)
	f("remove", s.Remove("b"), nil)
	f("close", b.Close(), nil)
	f("write", b.WriteAt([][]byte{{1}}, 0), segment.ErrClosed)
	f("sync", b.Sync(), segment.ErrClosed)
	f("resize", s.Resize("a", 10), nil)
	if got := s.Live("a"); len(got) != 10 || len(s.Durable("a")) != 10 {
		t.Errorf("%d bytes after Resize", len(got))
	}
	f("move", s.MoveTo("a", "cut/0"), nil)
	if s.Live("a") != nil || len(s.Moved("cut/0")) != 10 {
		t.Error("not moved")
	}
	create(t, s, "a")
	f("move", s.MoveTo("a", "cut/0"), fs.ErrExist)
	broken := errors.New("broken")
	s.Inject(&Fault{Op: OpRemove, Err: broken})
	f("remove", s.Remove("a"), broken)
	if s.Live("a") == nil {
		t.Error("gone although Remove failed")
	}
}

// What a failed sync left in the cache is seen until the cache is dropped, in that process and the next one.
func TestDropCacheShowsWhatTheDeviceHas(t *testing.T) {
	t.Parallel()
	s := New()
	b := create(t, s, "a")
	write(t, b, 0, "kept")
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	write(t, b, PageSize, "lost")
	write(t, b, 2*PageSize, "lost")
	s.Inject(&Fault{Op: OpSync, Err: errors.New("broken")})
	if err := b.Sync(); err == nil {
		t.Fatal("no error")
	}
	b, err := s.Open("a", size)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	if string(b.Bytes()[PageSize:PageSize+4]) != "lost" {
		t.Error("the page of a failed sync is not to be seen")
	}
	write(t, b, 3*PageSize, "dirty")
	if err := b.(interface{ DropCache(int64) error }).DropCache(2 * PageSize); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[int]string{0: "kept", PageSize: "lost", 2 * PageSize: "\x00\x00\x00\x00", 3 * PageSize: "dirt"} {
		if got := string(b.Bytes()[at : at+4]); got != want {
			t.Errorf("at %d stands %q, want %q", at, got, want)
		}
	}
}

func TestCrashTearsSomePages(t *testing.T) {
	t.Parallel()
	s := New()
	b := create(t, s, "a")
	for at := int64(0); at < PageSize; at += SectorSize {
		write(t, b, at, "x")
	}
	torn := 0
	for seed := range uint64(400) {
		page, kept := s.CrashClone(newRand(seed), 50).Live("a"), 0
		for at := 0; at < PageSize; at += SectorSize {
			if page[at] == 'x' {
				kept++
			}
		}
		if kept > 0 && kept < PageSize/SectorSize {
			torn++
		}
	}
	if torn == 0 || torn > 100 {
		t.Errorf("%d of 400 pages are torn, want about one in %d", torn, tornPages)
	}
}

// A process that ended leaves the page cache and the names as they are: to be synced by the next one, or lost.
func TestKillKeepsWhatIsNotDurable(t *testing.T) {
	t.Parallel()
	s := New()
	b := create(t, s, "a")
	write(t, b, 0, "durable")
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	write(t, b, PageSize, "cached")
	hold, entered, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s.Inject(&Fault{Op: OpCreate, Name: "b", Hold: hold, Entered: entered})
	go func() {
		defer close(done)
		_, _ = s.Create("b", size)
	}()
	<-entered
	killed := s.KillClone()
	close(hold)
	<-done

	if got := killed.Live("a"); string(got[PageSize:PageSize+6]) != "cached" || killed.Live("b") == nil {
		t.Error("the page cache was lost")
	}
	cut := killed.CrashClone(newRand(1), 0)
	if got := cut.Live("a"); string(got[:7]) != "durable" || got[PageSize] != 0 || cut.Live("b") != nil {
		t.Error("the end of the process made something durable")
	}
	if err := killed.Settle(); err != nil {
		t.Fatal(err)
	}
	if killed.CrashClone(newRand(1), 0).Live("b") == nil {
		t.Error("a settled name was lost")
	}
	if s.CrashClone(newRand(1), 0).Live("b") == nil {
		t.Error("the kill disturbed the one that was killed")
	}
}

func TestRotIsOnTheDevice(t *testing.T) {
	t.Parallel()
	s := New()
	create(t, s, "a")
	s.Rot("a", 7, 0x10)
	if s.Live("a")[7] != 0x10 || s.CrashClone(newRand(1), 0).Live("a")[7] != 0x10 {
		t.Error("the byte is as it was")
	}
}
