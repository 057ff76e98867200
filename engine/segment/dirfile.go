package segment

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// maxPieces is the most pieces that one pwritev takes (IOV_MAX).
const maxPieces = 1024

// dirFile is an open file of a Dir: one descriptor for all writes and flushes, and one mapping for readers.
type dirFile struct {
	file *os.File
	fd   int // of file; kept, since os.File.Fd takes a lock
	data []byte
	sync stickyError
}

var _ Backing = (*dirFile)(nil)

// mapped takes over f, whose size is size.
func (d *Dir) mapped(f *os.File, size int64) (Backing, error) {
	prot := unix.PROT_READ
	if d.o.Writable {
		prot |= unix.PROT_WRITE
	}
	fd := int(f.Fd())
	data, err := unix.Mmap(fd, 0, int(size), prot, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("segment: map %s: %w", f.Name(), err), f.Close())
	}
	return &dirFile{file: f, fd: fd, data: data}, nil
}

func (f *dirFile) Bytes() []byte { return f.data }
func (f *dirFile) Fd() int       { return f.fd }

// Sync is fdatasync: the size of the file never changes, so there is no metadata that reading back needs.
func (f *dirFile) Sync() error {
	if err := f.sync.get(); err != nil {
		return err
	}
	err := unix.Fdatasync(f.fd)
	for err == unix.EINTR {
		err = unix.Fdatasync(f.fd)
	}
	f.sync.set(err)
	return err
}

func (f *dirFile) Close() error {
	data := f.data
	f.data = nil
	return errors.Join(unix.Munmap(data), f.file.Close())
}

// WriteAt writes all pieces by as few calls as the kernel allows, and goes on behind a short write.
func (f *dirFile) WriteAt(pieces [][]byte, off int64) error {
	for len(pieces) > 0 {
		n, err := unix.Pwritev(f.fd, pieces[:min(len(pieces), maxPieces)], off)
		if err == unix.EINTR {
			continue
		}
		if err == nil && n == 0 && len(pieces[0]) > 0 {
			err = io.ErrShortWrite // no progress: going on would be for ever
		}
		if err != nil {
			return fmt.Errorf("segment: write %s at %d: %w", f.file.Name(), off, err)
		}
		off += int64(n)
		for len(pieces) > 0 && n >= len(pieces[0]) {
			n -= len(pieces[0])
			pieces = pieces[1:]
		}
		if n == 0 {
			continue
		}
		// The kernel stopped inside a piece. Its rest goes alone, since the caller's slice must not be altered.
		if err := f.writeAll(pieces[0][n:], off); err != nil {
			return err
		}
		off += int64(len(pieces[0]) - n)
		pieces = pieces[1:]
	}
	return nil
}

func (f *dirFile) writeAll(b []byte, off int64) error {
	for len(b) > 0 {
		n, err := unix.Pwrite(f.fd, b, off)
		if err == unix.EINTR {
			continue
		}
		if err == nil && n == 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			return fmt.Errorf("segment: write %s at %d: %w", f.file.Name(), off, err)
		}
		off += int64(n)
		b = b[n:]
	}
	return nil
}
