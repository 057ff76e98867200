package consumequeue

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// filesSearched is how many of a queue's last files are read for its end, as the original does.
	filesSearched = 3

	// The search reads a little first, as most queues are short and a hole that is read costs a page of cache.
	minSearchRead = 4000
	maxSearchRead = 256_000
)

// findEnd is the number of the first unit that is not an entry. The search begins where the caller of Open knows entries to be, else with
// the third-last file: what lies before that was whole long before the last stop.
func (l *loader) findEnd(id ID, files []listedFile) (int64, error) {
	t := l.table
	perFile := t.o.FileSize / EntrySize
	first, limit := files[0].number*perFile, (files[len(files)-1].number+1)*perFile
	from := files[max(len(files)-filesSearched, 0)].number * perFile
	if known := int64(t.o.Known(id)); known > first && known <= limit {
		if end, err := l.scan(id, known-1, known); err != nil {
			return 0, err
		} else if end == known { // the last known one is there
			from = known
		}
	}
	return l.scan(id, from, limit)
}

// scan returns the first number in [from, limit) that is not an entry, or limit.
func (l *loader) scan(id ID, from, limit int64) (int64, error) {
	for from < limit {
		number, off := l.table.place(from)
		n := min((l.table.o.FileSize-off)/EntrySize, limit-from)
		whole, err := l.scanFile(l.table.path(id, number), off, n)
		if err != nil {
			return 0, err
		}
		if from += whole; whole < n {
			break
		}
	}
	return from, nil
}

// scanFile counts the entries that follow each other from byte off of a file on, up to n.
func (l *loader) scanFile(path string, off, n int64) (whole int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("consumequeue: %w", err)
	}
	defer f.Close()
	for size := int64(minSearchRead); whole < n; size = min(2*size, maxSearchRead) {
		b := l.room(min(size, (n-whole)*EntrySize))
		if _, err := f.ReadAt(b, off+whole*EntrySize); err != nil {
			return 0, fmt.Errorf("consumequeue: read %s at %d: %w", path, off+whole*EntrySize, err)
		}
		for ; len(b) > 0; b = b[EntrySize:] {
			if _, ok := DecodeEntry(b); !ok {
				return whole, nil
			}
			whole++
		}
	}
	return whole, nil
}

func (l *loader) room(n int64) []byte {
	if int64(cap(l.buf)) < n {
		l.buf = make([]byte, n)
	}
	return l.buf[:n]
}

// hasData tells whether a byte from off on is not zero. Holes are passed over.
func hasData(path string, off int64) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, fmt.Errorf("consumequeue: %w", err)
	}
	defer f.Close()
	var b, zeros [4096]byte
	for {
		off, err = f.Seek(off, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return false, nil // a hole up to the end
		}
		if err != nil {
			return false, fmt.Errorf("consumequeue: seek in %s: %w", path, err)
		}
		n, err := f.ReadAt(b[:], off)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, fmt.Errorf("consumequeue: read %s at %d: %w", path, off, err)
		}
		if !bytes.Equal(b[:n], zeros[:n]) {
			return true, nil
		}
		off += int64(n)
	}
}

// findLast finds the last entry that is not a filler, for LastOffset.
func (q *Queue) findLast() error {
	var entries [16]Entry
	q.last.Store(0)
	want := int64(1) // the last one nearly always is a record
	for to := q.max.Load(); to > q.first.Load(); {
		n := min(want, to-q.first.Load())
		if _, err := q.table.readFiles(q, to-n, entries[:n]); err != nil {
			return err
		}
		for i := n - 1; i >= 0; i-- {
			if !entries[i].Filler() {
				q.last.Store(int64(entries[i].End()))
				return nil
			}
		}
		to -= n
		want = int64(len(entries))
	}
	return nil
}
