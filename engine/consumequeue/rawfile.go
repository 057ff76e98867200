package consumequeue

import (
	"errors"
	"io"
	"io/fs"

	"golang.org/x/sys/unix"
)

// file is a bare descriptor. An os.File would be offered to the poller first, which takes six system calls more for each open, and a
// store may open a hundred thousand.
type file struct {
	path string
	fd   int
}

func openFile(path string, flags int) (*file, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o644)
		if err == nil {
			return &file{path, fd}, nil
		}
		if !errors.Is(err, unix.EINTR) {
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

// readAt fills b from off on.
func (f *file) readAt(b []byte, off int64) error {
	for len(b) > 0 {
		n, err := unix.Pread(f.fd, b, off)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return f.error("read", err)
		case n == 0:
			return f.error("read", io.ErrUnexpectedEOF)
		}
		b, off = b[n:], off+int64(n)
	}
	return nil
}

// readNow fills b from off on if that needs no reading from the device; ErrWouldWait otherwise.
func (f *file) readNow(b []byte, off int64) error {
	n, err := unix.Preadv2(f.fd, [][]byte{b}, off, unix.RWF_NOWAIT)
	switch {
	case err == nil && n == len(b):
		return nil
	case errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS): // nobody can tell
		return f.readAt(b, off)
	case err == nil || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return ErrWouldWait
	}
	return f.error("read", err)
}

// writeAt writes all of b at off.
func (f *file) writeAt(b []byte, off int64) error {
	for len(b) > 0 {
		n, err := unix.Pwrite(f.fd, b, off)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return f.error("write", err)
		}
		b, off = b[n:], off+int64(n)
	}
	return nil
}

// nextData is the first byte from off on that does not lie in a hole, -1 if there is none.
func (f *file) nextData(off int64) (int64, error) {
	at, err := unix.Seek(f.fd, off, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return -1, nil
	}
	if err != nil {
		return 0, f.error("seek", err)
	}
	return at, nil
}

func (f *file) truncate(size int64) error {
	for {
		err := unix.Ftruncate(f.fd, size)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EINTR) {
			return f.error("truncate", err)
		}
	}
}

// sync is fsync: also for what fdatasync may leave out.
func (f *file) sync() error {
	for {
		err := unix.Fsync(f.fd)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EINTR) {
			return f.error("sync", err)
		}
	}
}

// close has no error that tells anything: whoever wrote has synced before.
func (f *file) close() { _ = unix.Close(f.fd) }

func (f *file) error(op string, err error) error {
	return &fs.PathError{Op: op, Path: f.path, Err: err}
}

// createFile makes a file of zeros, without a block on the device. One that a failed attempt left behind is taken over.
func createFile(path string, size int64) error {
	f, err := openFile(path, unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		return err
	}
	defer f.close()
	return f.truncate(size)
}

// resize gives a file several lengths in turn, and makes the result durable.
func resize(path string, sizes ...int64) error {
	f, err := openFile(path, unix.O_RDWR)
	if err != nil {
		return err
	}
	defer f.close()
	for _, size := range sizes {
		if err := f.truncate(size); err != nil {
			return err
		}
	}
	return f.sync()
}
