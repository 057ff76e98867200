package commitlog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"ringmq/engine/message"
	"ringmq/engine/segment"
	"ringmq/internal/durable"
	"ringmq/internal/failpoint"
	"ringmq/internal/mutant"
)

// Cut saves what stands behind end below dir (fsynced), erases it durably, and removes the later segments that hold anything.
// It says how many bytes it saved. Before Start only, and always before it: bytes that stayed could come back as records
// once the log has grown up to them.
//
// The bytes of one segment go into one file of dir, named by the position of the first as 20 digits, with a suffix if that
// name is taken; zeros at their end are left out, and what the device cannot read is saved as zeros. Nothing is erased before its copy is
// durable, so Cut may be stopped anywhere and done again: at worst a stretch is saved twice. Later segments that are all zero stay, to be used.
//
// At and behind limit there are only zeros for certain, and nobody looks; 0: that is not known.
func (l *Log) Cut(end, limit message.Offset, dir string) (saved int64, err error) {
	if limit == 0 {
		limit = math.MaxInt64
	}
	tail := l.set.Find(int64(end))
	expected := int64(end)
	if tail != nil {
		expected = tail.End()
	}
	later := l.set.Files()
	for len(later) > 0 && later[0].Base() <= int64(end) {
		later = later[1:]
	}
	// From the back, so that what is left when we are stopped is always a beginning.
	saved, err = l.cutLater(later, expected, int64(limit), dir)
	if err != nil || tail == nil {
		return saved, err
	}
	n, err := l.cutTail(tail, int64(end), int64(limit), dir)
	return saved + n, err
}

// cutLater moves the segments of later away that are not all zero, and removes what stands behind them or behind a gap.
func (l *Log) cutLater(later []*segment.File, expected, limit int64, dir string) (saved int64, err error) {
	removeFrom := int64(-1)
	if len(later) > 0 && later[0].Base() != expected {
		removeFrom = later[0].Base()
	}
	for i := len(later) - 1; i >= 0; i-- {
		f := later[i]
		last, err := usedUpTo(f, f.Base(), limit)
		if err != nil {
			return saved, err
		}
		if last == f.Base() {
			continue
		}
		n, err := l.saveSegment(f, last, dir)
		saved += n
		if err != nil {
			return saved, err
		}
		if removeFrom < 0 || f.Base() < removeFrom {
			removeFrom = f.Base()
		}
	}
	if removeFrom < 0 || mutant.NoErase {
		return saved, nil
	}
	if err := l.set.RemoveFrom(removeFrom); err != nil {
		return saved, fmt.Errorf("commitlog: cut: %w", err)
	}
	return saved, nil
}

// saveSegment brings a whole segment to safety, by renaming it, or by a copy if dir is on another file system.
func (l *Log) saveSegment(f *segment.File, last int64, dir string) (int64, error) {
	path, err := freePath(dir, f.Base())
	if err != nil {
		return 0, err
	}
	if !mutant.NoErase {
		err := l.options.Storage.MoveTo(f.Name(), path)
		if err == nil {
			return f.Size(), nil
		}
		// Another file system, or one that cannot rename without replacing.
		if !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.EINVAL) {
			return 0, fmt.Errorf("commitlog: cut segment %s: %w", f.Name(), err)
		}
	}
	return l.save(f, f.Base(), last, path)
}

// cutTail saves and erases what f holds at and behind end.
func (l *Log) cutTail(f *segment.File, end, limit int64, dir string) (saved int64, err error) {
	last, err := usedUpTo(f, end, limit)
	if err != nil || last == end {
		return 0, err
	}
	path, err := freePath(dir, end)
	if err != nil {
		return 0, err
	}
	saved, err = l.save(f, end, last, path)
	if err != nil {
		return 0, err
	}
	failpoint.Hit(failpoint.MidCut)
	if mutant.NoErase {
		return saved, nil
	}
	return saved, erase(f, end, last)
}

// usedUpTo returns the position behind the last byte of f that is not zero or cannot be read, at least from. Behind limit it does not look.
func usedUpTo(f *segment.File, from, limit int64) (at int64, err error) {
	if from >= limit {
		return from, nil
	}
	advise(f, sequential)
	defer advise(f, normal)
	defer forget(f, from)
	defer segment.CatchFault(&err, "commitlog: read segment "+f.Name(), debug.SetPanicOnFault(true))
	last := from
	for _, s := range written(f, from-f.Base()) {
		s.to = min(s.to, limit-f.Base())
		if s.from >= s.to {
			break
		}
		if i := lastUsed(f.Bytes()[s.from:s.to]); i >= 0 {
			last = f.Base() + s.from + int64(i) + 1
		}
	}
	return last, nil
}

// save makes a durable copy of [from, to) at path.
func (l *Log) save(f *segment.File, from, to int64, path string) (n int64, err error) {
	if err := durable.MkdirAll(filepath.Dir(path)); err != nil {
		return 0, fmt.Errorf("commitlog: cut: %w", err)
	}
	lost := 0
	err = durable.WriteFileFrom(path, func(w io.Writer) (err error) {
		lost, err = copyReadable(w, f.Bytes()[from-f.Base():to-f.Base()])
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("commitlog: cut: %w", err)
	}
	if lost > 0 {
		l.logger.Error("commitlog: the device cannot read some of what is cut, it is kept as zeros", "path", path, "bytes", lost)
	}
	return to - from, nil
}

// copyReadable writes b, with zeros for what the device cannot read, and tells how much that is.
func copyReadable(w io.Writer, b []byte) (lost int, err error) {
	for at := 0; at < len(b) && err == nil; {
		start, end := readableRun(b, at)
		for ; at < start && err == nil; at += min(start-at, runBytes) {
			lost += min(start-at, runBytes)
			_, err = w.Write(make([]byte, min(start-at, runBytes)))
		}
		if err == nil {
			_, err = w.Write(b[start:end])
		}
		at = end
	}
	return lost, err
}

// erase overwrites [from, to) with zeros and flushes.
func erase(f *segment.File, from, to int64) error {
	zeros := make([]byte, min(to-from, 1<<20))
	for at := from; at < to; {
		n := min(to-at, int64(len(zeros)))
		if err := f.WriteAt([][]byte{zeros[:n]}, at-f.Base()); err != nil {
			return fmt.Errorf("commitlog: erase [%d, %d): %w", from, to, err)
		}
		at += n
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("commitlog: erase [%d, %d): %w", from, to, err)
	}
	return nil
}

// freePath is a path in dir for bytes cut at position at, where nothing is yet.
func freePath(dir string, at int64) (string, error) {
	for i := 0; ; i++ {
		path := filepath.Join(dir, segment.Name(at))
		if i > 0 {
			path += fmt.Sprintf(".%d", i)
		}
		_, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return path, nil
		}
		if err != nil {
			return "", fmt.Errorf("commitlog: cut: %w", err)
		}
	}
}
