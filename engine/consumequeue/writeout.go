package consumequeue

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Buffers of the tails come in two sizes, so that very many queues with a few new entries each cost little. A tail that is full
// grows once; when the tails of all queues together have reached maxTailBytes, it is written out instead.
const (
	smallTail    = 16 * EntrySize
	largeTail    = 204 * EntrySize // 4 KiB
	maxTailBytes = 32 << 20
)

type tailPool struct{ small, large sync.Pool }

func newTailPool() *tailPool {
	return &tailPool{
		small: sync.Pool{New: func() any { return new([smallTail]byte) }},
		large: sync.Pool{New: func() any { return new([largeTail]byte) }},
	}
}

func (p *tailPool) get(n int) []byte {
	if n == smallTail {
		return p.small.Get().(*[smallTail]byte)[:0]
	}
	return p.large.Get().(*[largeTail]byte)[:0]
}

func (p *tailPool) put(tail []byte) {
	switch cap(tail) {
	case smallTail:
		p.small.Put((*[smallTail]byte)(tail[:smallTail]))
	case largeTail:
		p.large.Put((*[largeTail]byte)(tail[:largeTail]))
	}
}

// makeRoom gives the tail room for one more entry. mu is held.
func (q *Queue) makeRoom() error {
	t := q.table
	size := smallTail
	switch {
	case cap(q.tail) == largeTail, cap(q.tail) == smallTail && t.metrics.TailBytes.Load() >= maxTailBytes:
		return q.writeOut()
	case cap(q.tail) == smallTail:
		size = largeTail
	}
	grown := append(t.tails.get(size), q.tail...)
	q.dropTail()
	q.tail = grown
	t.metrics.TailBytes.Add(int64(size))
	return nil
}

// dropTail gives the buffer back. mu is held.
func (q *Queue) dropTail() {
	q.table.metrics.TailBytes.Add(-int64(cap(q.tail)))
	q.table.tails.put(q.tail)
	q.tail = nil
}

// writeOut writes the tail to the files. On an error the tail stays as it is; what was written of it is written again. mu is held.
func (q *Queue) writeOut() error {
	if err := q.writeRange(q.written, q.tail); err != nil {
		return err
	}
	q.written += int64(len(q.tail) / EntrySize)
	q.tail = q.tail[:0]
	return nil
}

// writeRange writes entries that may span files; files that are not there yet are made. mu is held.
func (q *Queue) writeRange(from int64, entries []byte) error {
	for len(entries) > 0 {
		number, off := q.table.place(from)
		if number == q.endFile {
			if err := q.create(number); err != nil {
				return err
			}
			q.endFile++
		}
		n := min(int64(len(entries)), q.table.o.FileSize-off)
		if err := q.writeAt(number, entries[:n], off); err != nil {
			return err
		}
		from += n / EntrySize
		entries = entries[n:]
	}
	return nil
}

// writeAt writes inside one file. mu is held.
func (q *Queue) writeAt(number int64, b []byte, off int64) error {
	q.settle()
	return q.table.files.writeAt(q, number, b, off)
}

// create makes a file of zeros, and the folders above it. Flush makes their names durable. mu is held.
func (q *Queue) create(number int64) error {
	q.settled = false
	path := q.table.path(q.ID, number)
	err := createFile(path, q.table.o.FileSize)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			err = createFile(path, q.table.o.FileSize)
		}
	}
	if err != nil {
		return fmt.Errorf("consumequeue: %s/%d: %w", q.ID.Topic, q.ID.QueueID, err)
	}
	q.settle()
	return nil
}

// settle sees to it that the next Flush makes the names of the queue's files and folders durable: once after Open, as a process that
// was killed may have left them in memory only, and after each new file. mu is held.
func (q *Queue) settle() {
	if !q.settled {
		q.settled = true
		q.table.addUnsettled(q)
	}
}

// fill puts fillers from the end up to n. mu is held.
func (q *Queue) fill(n int64) error {
	t := q.table
	from := q.max.Load()
	empty := from == q.first.Load() && q.endFile == from*EntrySize/t.o.FileSize
	if empty { // no file yet: the queue begins with the file of n
		number, _ := t.place(n)
		from = number * (t.o.FileSize / EntrySize)
	}
	if n-from > maxGapEntries {
		return fmt.Errorf("%w: %s/%d: entry %d behind %d entries, at most %d beyond", ErrGap, q.ID.Topic, q.ID.QueueID, n, from, maxGapEntries)
	}
	if empty {
		number, _ := t.place(n)
		q.onDisk, q.endFile, q.written = number, number, from
		q.min.Store(from)
		q.max.Store(from) // before first: First never passes Max
		q.first.Store(from)
	}
	q.forgetMin()
	if err := q.writeOut(); err != nil {
		return err
	}
	if err := q.writeFillers(from, n); err != nil {
		return err
	}
	q.written = n
	q.max.Store(n)
	if n > from {
		t.repaired("a gap in a consume queue was filled", "topic", q.ID.Topic, "queue", q.ID.QueueID, "from", from, "to", n, "first", empty)
	}
	return nil
}

// fillerChunk is how many fillers one pwrite takes at most.
const fillerChunk = 4096

func (q *Queue) writeFillers(from, to int64) error {
	if from >= to {
		return nil
	}
	fillers := make([]byte, 0, min(to-from, fillerChunk)*EntrySize)
	for len(fillers) < cap(fillers) {
		fillers = AppendEntry(fillers, filler)
	}
	for from < to {
		n := min(to-from, fillerChunk)
		if err := q.writeRange(from, fillers[:n*EntrySize]); err != nil {
			return err
		}
		q.table.metrics.Fillers.Add(n)
		from += n
	}
	return nil
}

// extendDown makes the files from that of entry n up to the first one there is, the last of them first, so that there never is a
// gap between files, and full of fillers, so that there never is a hole. mu is held.
func (q *Queue) extendDown(n int64) error {
	t := q.table
	perFile := t.o.FileSize / EntrySize
	target, _ := t.place(n)
	first := q.first.Load()
	if first-target*perFile > maxGapEntries {
		return fmt.Errorf("%w: %s/%d: entry %d, but the files begin with %d, at most %d below", ErrGap, q.ID.Topic, q.ID.QueueID, n, first, maxGapEntries)
	}
	// A queue may have all its entries in memory yet; then its own file is to be there first.
	if err := q.writeOut(); err != nil {
		return err
	}
	for number := first/perFile - 1; number >= target; number-- {
		if err := q.create(number); err != nil {
			return err
		}
		if err := q.writeFillers(number*perFile, (number+1)*perFile); err != nil {
			return err
		}
		q.first.Store(number * perFile)
		q.onDisk = min(q.onDisk, number)
	}
	q.forgetMin()
	t.repaired("missing files of a consume queue were made anew", "topic", q.ID.Topic, "queue", q.ID.QueueID, "first was", first, "is", q.first.Load())
	return nil
}
