package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestServe goes through the kernel: a write is seen at once and durable after fsync, and after a cut everything fails with EIO.
func TestServe(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip(err)
	}
	d, medium := newTestDisk(t, 64, 1, delays{})
	folder := t.TempDir()
	server, err := serve(d, folder)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := leave(server, folder); err != nil {
			t.Error(err)
		}
	}()
	f, err := os.OpenFile(filepath.Join(folder, imageName), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() != 64*blockSize {
		t.Fatal(info, err)
	}
	want, got := bytes.Repeat([]byte("durable "), 1000), make([]byte, 8000)
	if _, err := f.WriteAt(want, 5000); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadAt(got, 5000); err != nil || !bytes.Equal(got, want) {
		t.Fatal("a read does not see the write", err)
	}
	if _, err := medium.ReadAt(got, 5000); err != nil || !bytes.Equal(got, make([]byte, 8000)) {
		t.Fatal("the medium has it before the sync", err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if _, err := medium.ReadAt(got, 5000); err != nil || !bytes.Equal(got, want) {
		t.Fatal("the medium does not have it after the sync", err)
	}
	if _, err := d.Cut(); err != nil {
		t.Fatal(err)
	}
	_, writeErr := f.WriteAt(want, 0)
	_, readErr := f.ReadAt(got, 0)
	for _, err := range []error{writeErr, readErr, f.Sync()} {
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("error %v, want EIO", err)
		}
	}
}
