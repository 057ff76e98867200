package consumequeue

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"

	"ringmq/internal/durable"
)

// listing is what the folder of one topic holds.
type listing struct {
	queues []listed
	strays []string // paths that are no queue's or file's
}

// listed is a queue as its folder lists it.
type listed struct {
	id    ID
	files []listedFile // in order
}

type listedFile struct {
	number int64
	size   int64
}

// load finds the queues, all of them before it touches one, so that a wrong configured size is noticed in time; then it puts them
// right and finds their ends. Both is done for several at a time, as it is mostly waiting for the file system.
func (t *Table) load() error {
	topics, err := t.readDir(t.o.Dir)
	if err != nil {
		return err
	}
	perTopic := make([]listing, len(topics))
	err = sideBySide(len(topics), func(next func() (int, bool)) error {
		for i, ok := next(); ok; i, ok = next() {
			if err := t.listTopic(topics[i], &perTopic[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	var queues []listed
	for _, topic := range perTopic {
		queues = append(queues, topic.queues...)
		for _, path := range topic.strays {
			t.o.Logger.Warn("a stray file among the consume queues is ignored", "path", path)
		}
	}
	if err := t.checkSizes(queues); err != nil {
		return err
	}
	return sideBySide(len(queues), func(next func() (int, bool)) error {
		l := loader{table: t}
		defer l.closeFile()
		for i, ok := next(); ok; i, ok = next() {
			if err := l.load(queues[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// sideBySide runs work in a few goroutines that share the numbers below n among them, and returns the error of one that failed.
func sideBySide(n int, work func(next func() (int, bool)) error) error {
	var taken atomic.Int64
	next := func() (int, bool) {
		i := int(taken.Add(1)) - 1
		return i, i < n
	}
	workers := min(2*runtime.GOMAXPROCS(0), n)
	failed := make(chan error, workers)
	for range workers {
		go func() { failed <- work(next) }()
	}
	var first error
	for range workers {
		if err := <-failed; err != nil && first == nil {
			first = err
		}
	}
	return first
}

func (t *Table) listTopic(topic fs.DirEntry, found *listing) error {
	dir := filepath.Join(t.o.Dir, topic.Name())
	if !topic.IsDir() {
		found.strays = append(found.strays, dir)
		return nil
	}
	ids, err := t.readDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range ids {
		path := filepath.Join(dir, entry.Name())
		id, ok := parseQueueID(entry.Name())
		if !ok || !entry.IsDir() {
			found.strays = append(found.strays, path)
			continue
		}
		files, err := t.listFiles(path, found)
		if err != nil {
			return err
		}
		found.queues = append(found.queues, listed{ID{topic.Name(), id}, files})
	}
	return nil
}

func (t *Table) listFiles(dir string, found *listing) (files []listedFile, err error) {
	names, err := t.readDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range names { // sorted by name, which is by position
		path := filepath.Join(dir, entry.Name())
		base, ok := parseFileName(entry.Name())
		if !ok || !entry.Type().IsRegular() {
			found.strays = append(found.strays, path)
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return nil, fmt.Errorf("consumequeue: %w", err)
		}
		if base%t.o.FileSize != 0 {
			return nil, t.sizeError(path, fmt.Sprintf("begins at %d", base))
		}
		files = append(files, listedFile{base / t.o.FileSize, info.Size()})
	}
	return files, nil
}

func (t *Table) readDir(dir string) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("consumequeue: %w", err)
	}
	return entries, nil
}

func (t *Table) sizeError(path, found string) error {
	return fmt.Errorf("consumequeue: %s %s, which does not go with mappedFileSizeConsumeQueue=%d", path, found, t.o.FileSize)
}

// checkSizes refuses what must be a wrong setting and not a torn file: a file that is too large, a short one that is not the last of
// its queue, or no file as configured while two or more have the same other size.
func (t *Table) checkSizes(queues []listed) error {
	right := 0
	var other, example listedFile
	var owner ID
	others, same := 0, true
	for _, q := range queues {
		for i, f := range q.files {
			switch {
			case f.size == t.o.FileSize:
				right++
				continue
			case f.size == 0:
				continue
			case f.size > t.o.FileSize || i < len(q.files)-1:
				return t.sizeError(t.path(q.id, f.number), fmt.Sprintf("has %d bytes", f.size))
			}
			if others++; others == 1 {
				other, example, owner = f, f, q.id
			}
			same = same && f.size == other.size
		}
	}
	if right == 0 && others > 1 && same {
		return t.sizeError(t.path(owner, example.number), fmt.Sprintf("and %d more files have %d bytes", others-1, example.size))
	}
	return nil
}

// loader loads one queue after the other, with one buffer and one open file.
type loader struct {
	table   *Table
	buf     []byte
	current *file
	last    Entry // the last record's among the entries scanned of this queue
}

func (l *loader) load(found listed) error {
	t := l.table
	files, err := l.repair(found)
	if err != nil || len(files) == 0 {
		return err
	}
	q := newQueue(t, found.id)
	perFile := t.o.FileSize / EntrySize
	first := files[0].number * perFile
	l.last = filler
	end, clean, err := l.cleanEnd(found.id, files)
	if err == nil && !clean {
		end, err = l.findEnd(found.id, files)
	}
	if err != nil {
		return err
	}
	// The file that the end lies in stays, also when it is empty: its name keeps the numbering.
	last := max((end-1)/perFile, files[0].number)
	if i := int(last - files[0].number); i+1 < len(files) && end == files[i+1].number*perFile {
		last++
	}
	if !clean {
		if err := l.erase(found.id, end, last, files); err != nil {
			return err
		}
	}
	q.first.Store(first)
	q.max.Store(end)
	q.min.Store(first)
	q.written, q.onDisk, q.endFile = end, files[0].number, last+1
	if !l.last.Filler() {
		q.last.Store(int64(l.last.End()))
	} else if err := q.findLast(); err != nil {
		return err
	}
	q.Next = q.Max()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.addLocked(q)
	return nil
}

// repair brings the files to their size and cuts off what stands behind a missing one.
func (l *loader) repair(found listed) ([]listedFile, error) {
	t := l.table
	files := found.files
	for i := 0; i < len(files); i++ {
		path := t.path(found.id, files[i].number)
		switch size := files[i].size; {
		case size == 0:
			if err := durable.Remove(path); err != nil {
				return nil, fmt.Errorf("consumequeue: %w", err)
			}
			t.repaired("a consume queue file without a byte was removed", "path", path)
			files = slices.Delete(files, i, i+1)
			i--
		case size < t.o.FileSize:
			if err := resize(path, t.o.FileSize); err != nil {
				return nil, fmt.Errorf("consumequeue: %w", err)
			}
			t.repaired("a short consume queue file was filled up with zeros", "path", path, "had", size, "has", t.o.FileSize)
		}
	}
	for i := 1; i < len(files); i++ {
		if files[i].number != files[i-1].number+1 {
			t.repaired("a consume queue file is missing, those behind it go too", "path", t.path(found.id, files[i-1].number+1))
			return files[:i], l.remove(found.id, files[i:])
		}
	}
	return files, nil
}

// remove removes files, the last one first: at no moment is there a gap.
func (l *loader) remove(id ID, files []listedFile) error {
	for _, f := range slices.Backward(files) {
		if err := durable.Remove(l.table.path(id, f.number)); err != nil {
			return fmt.Errorf("consumequeue: %w", err)
		}
	}
	return nil
}

// erase removes what stands behind the end: the rest of the last file, which would come back when the queue grows up to it, and the
// files behind.
func (l *loader) erase(id ID, end, last int64, files []listedFile) error {
	t := l.table
	path := t.path(id, last)
	off := end*EntrySize - last*t.o.FileSize
	rest, err := l.hasData(path, off)
	if err != nil {
		return err
	}
	behind := files[last-files[0].number+1:]
	if len(behind) > 0 {
		t.repaired("consume queue files behind the end of their queue are removed", "path", path, "end", end, "files", len(behind))
		if err := l.remove(id, behind); err != nil {
			return err
		}
	}
	if !rest {
		return nil
	}
	t.repaired("what stood behind the end of a consume queue is erased", "path", path, "end", end)
	if err := resize(path, off, t.o.FileSize); err != nil {
		return fmt.Errorf("consumequeue: %w", err)
	}
	return nil
}
