package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"ringmq/engine/message"
	"ringmq/engine/segment"
)

// maxSegment is the largest file that a broker maps; a larger one is not mapped here either.
const maxSegment = math.MaxInt32

const (
	sequential = unix.MADV_SEQUENTIAL
	random     = unix.MADV_RANDOM
)

// infoOf is what the file system says of an entry; removed: it has gone since the folder was read.
func infoOf(entry fs.DirEntry) (info fs.FileInfo, removed bool, err error) {
	if info, err = entry.Info(); errors.Is(err, fs.ErrNotExist) {
		return nil, true, nil
	}
	return info, false, err
}

// mapping is a file mapped for reading. Whoever touches its bytes catches faults: the device may not be able to read them, and a file in
// use may have been cut shorter since.
type mapping struct {
	path  string
	bytes []byte
}

func mapFile(path string, advice int) (mapping, error) {
	fd, err := openFile(path)
	if err != nil {
		return mapping{}, err
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return mapping{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	switch {
	case stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return mapping{}, fmt.Errorf("inspect: %s is no plain file", path)
	case stat.Size == 0:
		return mapping{path: path}, nil
	case stat.Size > maxSegment:
		return mapping{}, fmt.Errorf("inspect: %s has %d bytes, a segment has at most %d", path, stat.Size, maxSegment)
	}
	b, err := unix.Mmap(fd, 0, int(stat.Size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return mapping{}, &fs.PathError{Op: "mmap", Path: path, Err: err}
	}
	_ = unix.Madvise(b, advice) // advice only
	return mapping{path, b}, nil
}

func (m *mapping) close() {
	if m.bytes != nil {
		_ = unix.Munmap(m.bytes)
	}
	*m = mapping{}
}

// openFile opens for reading, follows no link at the end and does not wait at a pipe.
func openFile(path string) (fd int, err error) {
	for {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err == nil {
			return fd, nil
		}
		if !errors.Is(err, unix.EINTR) {
			return -1, &fs.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

// readAt fills b from off on, as far as the file goes.
func readAt(path string, b []byte, off int64) (int, error) {
	fd, err := openFile(path)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	return pread(fd, path, b, off)
}

func pread(fd int, path string, b []byte, off int64) (int, error) {
	read := 0
	for read < len(b) {
		n, err := unix.Pread(fd, b[read:], off+int64(read))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return read, &fs.PathError{Op: "read", Path: path, Err: err}
		case n == 0:
			return read, nil
		}
		read += n
	}
	return read, nil
}

// nextData is the first byte from off on that does not lie in a hole, -1 if there is none.
func nextData(fd int, off int64) int64 {
	at, err := unix.Seek(fd, off, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return -1
	case err != nil:
		return off // a file system without holes
	}
	return at
}

// check is message.Check of mapped bytes.
func check(b []byte, at message.Offset, r *message.Record) (kind message.Kind, err error) {
	defer segment.CatchFault(&err, "inspect: read the log", debug.SetPanicOnFault(true))
	return message.Check(b, at, r)
}
