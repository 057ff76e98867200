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

// WriteAt writes all pieces by as few calls as the kernel allows.
func (f *dirFile) WriteAt(pieces [][]byte, off int64) error {
	if err := writeAll(descriptor(f.fd), pieces, off); err != nil {
		return fmt.Errorf("segment: write %s: %w", f.file.Name(), err)
	}
	return nil
}

// pieceWriter is pwritev on something; like it, it may write less than all.
type pieceWriter interface {
	writePieces(pieces [][]byte, off int64) (int, error)
}

type descriptor int

func (d descriptor) writePieces(pieces [][]byte, off int64) (int, error) {
	return unix.Pwritev(int(d), pieces, off)
}

// writeAll goes on behind short and interrupted writes until everything is written. It does not alter pieces. Generic, so
// that passing a descriptor allocates nothing.
func writeAll[W pieceWriter](w W, pieces [][]byte, off int64) error {
	for len(pieces) > 0 {
		if len(pieces[0]) == 0 {
			pieces = pieces[1:]
			continue
		}
		n, err := w.writePieces(pieces[:min(len(pieces), maxPieces)], off)
		if err == unix.EINTR {
			continue
		}
		if err == nil && n == 0 {
			err = io.ErrShortWrite // no progress: going on would be for ever
		}
		if err != nil {
			return fmt.Errorf("at %d: %w", off, err)
		}
		off += int64(n)
		for len(pieces) > 0 && n >= len(pieces[0]) {
			n -= len(pieces[0])
			pieces = pieces[1:]
		}
		if n == 0 {
			continue
		}
		// The kernel stopped inside a piece: its rest goes alone, since the caller's slice stays as it is.
		rest := pieces[0][n:]
		if err := writeAll(w, [][]byte{rest}, off); err != nil {
			return err
		}
		off += int64(len(rest))
		pieces = pieces[1:]
	}
	return nil
}
