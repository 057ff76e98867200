package segment

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Pages of a file that were never read are not resident; those that were are.
func TestResident(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	const size = 8 << 20
	if err := os.WriteFile(path, make([]byte, size), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	b, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(b)
	if Resident(b[size-100 : size-50]) {
		t.Skip("this file system keeps its pages")
	}
	if Resident(b) {
		t.Error("a file of which no page is in memory is resident")
	}
	sum := byte(0)
	for i := 0; i < size; i += 4096 {
		sum += b[i]
	}
	if sum != 0 || !Resident(b) || !Resident(b[5:10]) || !Resident(nil) {
		t.Error("what was just read is not resident")
	}
}

// Both ways bring bytes into memory, whatever their place in a page, and tell of those that cannot be read.
func TestPopulate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	const size = 1 << 20
	if err := os.WriteFile(path, make([]byte, size), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(b)
	if err := os.Truncate(path, size/2); err != nil {
		t.Fatal(err)
	}
	page := unix.Getpagesize()
	for name, bring := range map[string]func(b []byte) error{"populate": Populate, "touch": func(b []byte) error { return touch(b, page) }} {
		for _, good := range [][]byte{b[:1], b[4095:4097], b[5 : size/2], b[size/2-1 : size/2]} {
			if err := bring(good); err != nil || !Resident(good) {
				t.Errorf("%s: %d bytes that can be read: %v", name, len(good), err)
			}
		}
		for _, bad := range [][]byte{b[size/2 : size/2+1], b[size/2-1 : size/2+1], b} {
			if err := bring(bad); !errors.Is(err, ErrUnreadable) {
				t.Errorf("%s: %d bytes that cannot be read: %v", name, len(bad), err)
			}
		}
	}
	if err := Populate(nil); err != nil {
		t.Error(err)
	}
}
