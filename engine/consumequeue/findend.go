package consumequeue

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	// filesSearched is how many of a queue's last files are read for its end, as the original does.
	filesSearched = 3

	// The search reads a little first, as most queues are short and a hole that is read costs a page of cache.
	minSearchRead = 4000
	maxSearchRead = 256_000
)

// cleanEnd is where a clean stop of ours left the end: it is one read to see that the last entry is there, and that none follows in its file,
// which is the last one. False when it is not so, or not known.
func (l *loader) cleanEnd(id ID, files []listedFile) (end int64, ok bool, err error) {
	t := l.table
	known := int64(t.o.Known(id))
	number, off := t.place(known - 1)
	last := files[len(files)-1].number
	if !t.o.Clean || known <= files[0].number*(t.o.FileSize/EntrySize) || number != last || off+2*EntrySize > t.o.FileSize {
		return 0, false, nil
	}
	f, err := l.open(t.path(id, number))
	if err != nil {
		return 0, false, err
	}
	b := l.room(2 * EntrySize)
	if f.readAt(b, off) != nil {
		return 0, false, nil // the search knows what to do
	}
	e, there := DecodeEntry(b)
	if _, more := DecodeEntry(b[EntrySize:]); !there || more {
		return 0, false, nil
	}
	l.last = e
	return known, true, nil
}

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

// scan returns the first number in [from, limit) that is not an entry, or limit. Entries that the device cannot read are none: the log has
// what they said.
func (l *loader) scan(id ID, from, limit int64) (int64, error) {
	for from < limit {
		number, off := l.table.place(from)
		n := min((l.table.o.FileSize-off)/EntrySize, limit-from)
		path := l.table.path(id, number)
		whole, err := l.scanFile(path, off, n)
		if errors.Is(err, unix.EIO) {
			l.table.repaired("a consume queue file cannot be read, what follows in it is built again", "path", path, "from", from+whole, "error", err)
			return from + whole, nil
		}
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
	f, err := l.open(path)
	if err != nil {
		return 0, err
	}
	for size := int64(minSearchRead); whole < n; size = min(2*size, maxSearchRead) {
		b := l.room(min(size, (n-whole)*EntrySize))
		if err := f.readAt(b, off+whole*EntrySize); err != nil {
			return whole, fmt.Errorf("consumequeue: %w", err)
		}
		for ; len(b) > 0; b = b[EntrySize:] {
			e, ok := DecodeEntry(b)
			if !ok {
				return whole, nil
			}
			if !e.Filler() {
				l.last = e
			}
			whole++
		}
	}
	return whole, nil
}

// hasData tells whether a byte from off on is not zero, or cannot be read. Holes are passed over.
func (l *loader) hasData(path string, off int64) (bool, error) {
	f, err := l.open(path)
	if err != nil {
		return false, err
	}
	b := l.room(minSearchRead)
	for {
		off, err = f.nextData(off)
		if err != nil {
			return false, fmt.Errorf("consumequeue: %w", err)
		}
		if off < 0 || off >= l.table.o.FileSize {
			return false, nil
		}
		b = b[:min(int64(cap(b)), l.table.o.FileSize-off)]
		if err := f.readAt(b, off); errors.Is(err, unix.EIO) {
			return true, nil
		} else if err != nil {
			return false, fmt.Errorf("consumequeue: %w", err)
		}
		for _, c := range b {
			if c != 0 {
				return true, nil
			}
		}
		off += int64(len(b))
	}
}

// open returns a file to read from, until the next one is opened.
func (l *loader) open(path string) (*file, error) {
	if l.current != nil && l.current.path == path {
		return l.current, nil
	}
	l.closeFile()
	f, err := openFile(path, unix.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("consumequeue: %w", err)
	}
	l.current = f
	return f, nil
}

func (l *loader) closeFile() {
	if l.current != nil {
		l.current.close()
		l.current = nil
	}
}

func (l *loader) room(n int64) []byte {
	if int64(cap(l.buf)) < n {
		l.buf = make([]byte, n)
	}
	return l.buf[:n]
}

// findLast finds the last entry that is not a filler, for LastOffset, which is 0 if the device cannot read it.
func (q *Queue) findLast() error {
	var entries [16]Entry
	q.last.Store(0)
	want := int64(1) // the last one nearly always is a record
	for to := q.max.Load(); to > q.first.Load(); {
		n := min(want, to-q.first.Load())
		if _, err := q.table.readFiles(q, to-n, entries[:n], false); errors.Is(err, unix.EIO) {
			return nil
		} else if err != nil {
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
