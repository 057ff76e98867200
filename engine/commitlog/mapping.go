package commitlog

import (
	"bytes"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"ringmq/engine/segment"
)

const (
	sequential = unix.MADV_SEQUENTIAL
	normal     = unix.MADV_NORMAL
)

// advise tells the kernel how f is going to be read. It is only a hint; a file in memory takes none.
func advise(f *segment.File, advice int) {
	if f.Fd() >= 0 {
		_ = unix.Madvise(f.Bytes(), advice)
	}
}

// forget lets the page cache drop the bytes of f from at on, which were read only to see that they are zero. Kept, they would
// push out what consumers read, and in large folios that a later small write dirties as a whole.
func forget(f *segment.File, at int64) {
	if f.Fd() < 0 {
		return
	}
	page := int64(os.Getpagesize())
	from := min((at-f.Base()+page-1)/page*page, f.Size())
	if from < f.Size() {
		_ = unix.Madvise(f.Bytes()[from:], unix.MADV_DONTNEED)
		_ = unix.Fadvise(f.Fd(), from, 0, unix.FADV_DONTNEED)
	}
}

// stretch is [from, to) of a file.
type stretch struct{ from, to int64 }

// written lists the stretches of f from off on that may hold something else than zeros. A gigabyte that was only allocated is
// one step for the file system, and a second of reading for us. Where it cannot tell, everything is one stretch. The list is
// made before anything is read: pages that the kernel reads ahead count as written.
func written(f *segment.File, off int64) (list []stretch) {
	for off < f.Size() {
		data, err := seek(f, off, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			// A hole up to the end, which is touched all the same: the file may have become shorter.
			return append(list, stretch{f.Size() - 1, f.Size()})
		}
		hole := f.Size()
		if err == nil {
			hole, err = seek(f, data, unix.SEEK_HOLE)
		}
		if err != nil {
			return append(list, stretch{off, f.Size()})
		}
		hole = min(hole, f.Size())
		list = append(list, stretch{data, hole})
		off = hole
	}
	return list
}

func seek(f *segment.File, off int64, whence int) (int64, error) {
	if f.Fd() < 0 {
		return 0, unix.ENOTSUP
	}
	return unix.Seek(f.Fd(), off, whence)
}

// lastNonZero returns where the last byte of b that is not zero stands, -1 if there is none.
func lastNonZero(b []byte) int {
	const step = 64 << 10
	zeros := make([]byte, step)
	last := -1
	for at := 0; at < len(b); at += step {
		piece := b[at:min(at+step, len(b))]
		if bytes.Equal(piece, zeros[:len(piece)]) {
			continue
		}
		for i := len(piece) - 1; i >= 0; i-- {
			if piece[i] != 0 {
				last = at + i
				break
			}
		}
	}
	return last
}
