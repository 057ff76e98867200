package segment

import (
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"
)

// zeroChunk is the size of one O_DIRECT write of zeros: large enough for the device's full speed, small enough to leave
// a flush beside it its turn.
const zeroChunk = 1 << 20

// zeroBlock is what O_DIRECT writes must be a multiple of, on devices of any sector size in use.
const zeroBlock = 4096

// zeroer is a Backing that can write zeros around the page cache.
type zeroer interface {
	zero(pace pacer) (written int64, err error)
}

// pacer bounds the rate of a background writer and tells it when to stop early.
type pacer struct {
	bytesPerSecond int64
	quit           <-chan struct{}
	hurry          func() bool
}

// pause waits until written bytes since start are within the rate; false when the rest is not wanted any more.
func (p pacer) pause(start time.Time, written int64) bool {
	seconds := min(float64(written)/float64(p.bytesPerSecond), 1<<30) // bounded, as a Duration is
	due := time.Duration(seconds * float64(time.Second))
	for {
		left := due - time.Since(start)
		if p.hurry() {
			return false
		}
		if left <= 0 {
			break
		}
		// Short naps, so that who begins to wait for the file meanwhile is served soon.
		nap := time.NewTimer(min(left, 5*time.Millisecond))
		select {
		case <-p.quit:
			nap.Stop()
			return false
		case <-nap.C:
		}
	}
	select {
	case <-p.quit:
		return false
	default:
		return true
	}
}

// zero writes zeros into the holes of the file, which are allocated but unwritten blocks: the first write to such a block
// has to journal that it is written now, on every fdatasync of the log. It goes through a descriptor of its own, O_DIRECT,
// for two reasons: zeros in the page cache would push out what consumers read, and they would be there in large folios,
// which later stores and flushes write back as a whole. Where the file system refuses O_DIRECT the file stays as it is.
//
// This is the one write that does not go through the file's main descriptor. It happens before the first write of that
// one, and Sync of the main descriptor follows.
func (f *dirFile) zero(pace pacer) (written int64, err error) {
	fd, err := unix.Open(f.file.Name(), unix.O_WRONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("segment: open %s to write zeros: %w", f.file.Name(), err)
	}
	defer unix.Close(fd) // nothing of it is buffered: its errors came with the writes

	// A mapping, since O_DIRECT wants memory aligned to pages; all zero as it comes.
	zeros, err := unix.Mmap(-1, 0, zeroChunk, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return 0, fmt.Errorf("segment: map zeros: %w", err)
	}
	defer unix.Munmap(zeros)

	start := time.Now()
	skip := func(from, to int64) error { return nil }
	err = f.stretches(skip, func(from, to int64) error {
		// Only whole blocks can be written around the cache; the odd tail of a file stays unwritten.
		from, to = (from+zeroBlock-1)/zeroBlock*zeroBlock, to/zeroBlock*zeroBlock
		for from < to && pace.pause(start, written) {
			n, err := unix.Pwrite(fd, zeros[:min(zeroChunk, to-from)], from)
			if err == unix.EINTR {
				continue
			}
			if err == unix.EINVAL && written == 0 {
				return nil // O_DIRECT was accepted at open but is not possible
			}
			if err == nil && n == 0 {
				err = io.ErrShortWrite
			}
			if err != nil {
				return fmt.Errorf("segment: write zeros to %s at %d: %w", f.file.Name(), from, err)
			}
			from += int64(n)
			written += int64(n)
		}
		return nil
	})
	return written, err
}

// stretches walks the file: data for what may be other than zero, hole for what is zero for certain. Allocated but unwritten
// blocks are holes for SEEK_DATA, unless the page cache has them.
func (f *dirFile) stretches(data, hole func(from, to int64) error) error {
	size := int64(len(f.data))
	for at := int64(0); at < size; {
		from, err := unix.Seek(f.fd, at, unix.SEEK_DATA)
		switch {
		case err == unix.ENXIO:
			from = size // no data behind at
		case err != nil:
			from = at // the file system does not know: all of it is data
		}
		if from > at {
			if err := hole(at, from); err != nil {
				return err
			}
		}
		if from >= size {
			return nil
		}
		to, err := unix.Seek(f.fd, from, unix.SEEK_HOLE)
		if err != nil || to <= from {
			to = size
		}
		if err := data(from, min(to, size)); err != nil {
			return err
		}
		at = to
	}
	return nil
}

// firstNonZero returns where b has its first byte that is not zero, -1 if there is none. Holes are not read.
func firstNonZero(b Backing) (int64, error) {
	f, ok := b.(*dirFile)
	if !ok {
		return indexNonZero(b.Bytes()), nil
	}
	found := int64(-1)
	buf := make([]byte, zeroChunk)
	err := f.stretches(func(from, to int64) error {
		for from < to && found < 0 {
			n, err := unix.Pread(f.fd, buf[:min(zeroChunk, to-from)], from)
			if err == unix.EINTR {
				continue
			}
			if err == nil && n == 0 {
				err = io.ErrUnexpectedEOF
			}
			if err != nil {
				return fmt.Errorf("segment: read %s at %d: %w", f.file.Name(), from, err)
			}
			if at := indexNonZero(buf[:n]); at >= 0 {
				found = from + at
			}
			from += int64(n)
		}
		return nil
	}, func(from, to int64) error { return nil })
	// Reading has filled the page cache with zeros in large folios; see zero for why they must not stay.
	_ = unix.Fadvise(f.fd, 0, 0, unix.FADV_DONTNEED)
	return found, err
}

func indexNonZero(b []byte) int64 {
	for i, c := range b {
		if c != 0 {
			return int64(i)
		}
	}
	return -1
}
