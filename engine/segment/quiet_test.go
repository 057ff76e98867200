package segment

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"testing"
)

// Units are told apart, what is let go is no longer in memory, and its neighbours are.
func TestCachedAndUncache(t *testing.T) {
	t.Parallel()
	const size = 3*CacheUnit + 5000
	dir, err := NewDir(t.TempDir(), DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f, content := filledFile(t, dir, size/16*16)
	if got := f.Cached(); !slices.Equal(got, []bool{true, true, true, true}) {
		t.Errorf("just written: in memory are %v", got)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	f.Uncache(CacheUnit, 2*CacheUnit)
	f.Uncache(3*CacheUnit, f.Size())
	f.Uncache(5, 5)
	if got := f.Cached(); slices.Equal(got, []bool{true, true, true, true}) {
		t.Skip("this file system keeps its pages")
	} else if !slices.Equal(got, []bool{true, false, true, false}) {
		t.Errorf("in memory are %v", got)
	}
	if !bytes.Equal(f.Bytes(), content) {
		t.Error("other bytes")
	}
}

// A device reads what the file has, whatever its size, and leaves the page cache as it is if it says so.
func TestDevice(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{CacheUnit, 1<<20 + 4096, 1<<20 + 512, 1<<20 + 16} {
		dir, err := NewDir(t.TempDir(), DirOptions{})
		if err != nil {
			t.Fatal(err)
		}
		f, content := filledFile(t, dir, size)
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		f.Uncache(0, size)
		dropped := !slices.Contains(f.Cached(), true)
		d, err := f.OpenDevice()
		if err != nil {
			t.Fatal(err)
		}
		b, free, err := AlignedBuffer(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		for off := int64(0); off < size; off += 1 << 20 {
			n, err := d.ReadAt(b, off)
			if err != nil || n != int(min(1<<20, size-off)) {
				t.Fatalf("size %d: at %d: %d bytes, %v", size, off, n, err)
			}
			got = append(got, b[:n]...)
		}
		if !bytes.Equal(got, content) {
			t.Errorf("size %d: other bytes", size)
		}
		if dropped && d.Direct() && slices.Contains(f.Cached(), true) {
			t.Errorf("size %d: the page cache was filled", size)
		}
		if n, err := d.ReadAt(b, size/4096*4096+4096); n != 0 || err != nil {
			t.Errorf("behind the end: %d, %v", n, err)
		}
		if err := errors.Join(d.Close(), free()); err != nil {
			t.Error(err)
		}
	}
}

// Where O_DIRECT is refused, by open or by read, the file is read through the page cache.
func TestDeviceWithoutDirect(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/file"
	content := bytes.Repeat([]byte("0123456789abcdef"), 1000)
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := &dirDevice{name: path, fd: int(f.Fd()), direct: true}
	if err := d.leaveDirect(); err != nil || d.Direct() {
		t.Fatal(err)
	}
	odd := make([]byte, 20_001)[1:] // no buffer for O_DIRECT
	if n, err := d.ReadAt(odd, 0); err != nil || !bytes.Equal(odd[:n], content) {
		t.Errorf("%d bytes, %v", n, err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	b, err := (&dirFile{file: file}).OpenDevice()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := b.ReadAt(odd, 0); err != nil || !bytes.Equal(odd[:n], content) { // a buffer that O_DIRECT refuses
		t.Errorf("%d bytes, %v", n, err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := (&dirFile{file: file}).OpenDevice(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is gone: %v", err)
	}
}
