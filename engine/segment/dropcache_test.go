package segment

import (
	"bytes"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cached counts the pages of b that are in memory.
func cached(t *testing.T, b []byte) (n int) {
	t.Helper()
	state := make([]byte, (len(b)+unix.Getpagesize()-1)/unix.Getpagesize())
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(unsafe.Pointer(&state[0])))
	if errno != 0 {
		t.Fatal(errno)
	}
	for _, s := range state {
		n += int(s & 1)
	}
	return n
}

func filledFile(t *testing.T, dir *Dir, size int64) (*File, []byte) {
	t.Helper()
	b, err := dir.Create(Name(0), size)
	if err != nil {
		t.Fatal(err)
	}
	f := NewFile(0, b)
	t.Cleanup(func() {
		if err := f.retire(); err != nil {
			t.Error(err)
		}
	})
	content := bytes.Repeat([]byte("0123456789abcde\n"), int(size/16))
	if err := f.WriteAt([][]byte{content}, 0); err != nil {
		t.Fatal(err)
	}
	return f, content
}

func TestRefreshDropsPages(t *testing.T) {
	t.Parallel()
	const size = 3 * dropUnit
	dir, err := NewDir(t.TempDir(), DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f, content := filledFile(t, dir, size)
	if !bytes.Equal(f.Bytes(), content) { // so that all of it is mapped
		t.Fatal("the file has not what was written")
	}
	if err := f.Refresh(dropUnit + 5); err != nil {
		t.Fatal(err)
	}
	if f.metrics.Writes.Load() != 1 {
		t.Error("written again")
	}
	if n := cached(t, f.Bytes()[dropUnit:]); n > 0 {
		t.Skipf("this file system keeps its pages: %d", n)
	}
	if cached(t, f.Bytes()[:dropUnit]) == 0 {
		t.Error("pages below were dropped, too")
	}
	if !bytes.Equal(f.Bytes(), content) {
		t.Error("the file has changed")
	}
	if err := f.Refresh(size); err != nil { // nothing there
		t.Error(err)
	}
}

// Pages that somebody else has mapped cannot be dropped: they are written again.
func TestRefreshWritesAgainWhatIsKept(t *testing.T) {
	t.Parallel()
	const size = 2 * dropUnit
	dir, err := NewDir(t.TempDir(), DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f, content := filledFile(t, dir, size)
	other, err := dir.Open(Name(0), size)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if !bytes.Equal(other.Bytes(), content) {
		t.Fatal("the file has not what was written")
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	d := f.backing.(*dirFile)
	if err := d.DropCache(dropUnit); err != nil {
		t.Fatal(err)
	}
	if n, err := d.rewriteCached(dropUnit); err != nil || n != dropUnit/int64(unix.Getpagesize()) {
		t.Errorf("%d pages were written again, %v", n, err)
	}
	if !bytes.Equal(f.Bytes(), content) {
		t.Error("the file has changed")
	}
}

func TestRefreshRefusesAfterAFailedSync(t *testing.T) {
	t.Parallel()
	b := &brokenSync{data: make([]byte, 4096)}
	f := NewFile(0, b)
	if err := f.Refresh(0); err == nil || b.dropped {
		t.Errorf("error %v, dropped %v", err, b.dropped)
	}
}

// brokenSync is a Backing whose device has lost a write.
type brokenSync struct {
	data    []byte
	dropped bool
}

func (b *brokenSync) Bytes() []byte                 { return b.data }
func (b *brokenSync) WriteAt([][]byte, int64) error { return nil }
func (b *brokenSync) Sync() error                   { return unix.EIO }
func (b *brokenSync) Fd() int                       { return -1 }
func (b *brokenSync) Close() error                  { return nil }
func (b *brokenSync) DropCache(int64) error         { b.dropped = true; return nil }
