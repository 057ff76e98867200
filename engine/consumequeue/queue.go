package consumequeue

import (
	"fmt"
	"sync"
	"sync/atomic"

	"ringmq/engine/message"
)

// Queue is one consume queue. One goroutine at a time puts; any number read.
type Queue struct {
	ID ID
	// Next is the queue offset of the next append, guarded by the put lock of the log. Open and Cut leave it at Max.
	Next message.QueueOffset

	table *Table
	bad   error // the name cannot be a folder's: nothing is ever put

	first  atomic.Int64 // first entry of the first file
	max    atomic.Int64 // stored after the tail holds the entry
	last   atomic.Int64 // end of the last record that has an entry
	min    atomic.Int64 // result of the last search for Min,
	minFor atomic.Int64 // and the log's minimum it was for; -1: search again

	mu        sync.Mutex // all below
	minGen    int        // counts what makes a search for Min under way worthless
	minOffset int64      // of the record that min points to, -1: it points to none yet
	written   int64      // entries before it are in the files
	tail      []byte     // entries from written to max
	endFile   int64      // number behind the last file; equal to first's number: no file yet
	onDisk    int64      // number of the first file; below first's while files wait for RemoveExpired
	settled   bool       // folders are durable, or in Table.unsettled
	queued    bool       // in Table.dirty
	deleted   bool
}

func newQueue(t *Table, id ID) *Queue {
	q := &Queue{ID: id, table: t, bad: checkID(id)}
	q.minFor.Store(-1)
	return q
}

// First is the first entry number of the first file there is: what is below has been removed, or never was. It equals Max when
// the queue has no entry.
func (q *Queue) First() message.QueueOffset { return message.QueueOffset(q.first.Load()) }

// Max is the number of the next entry: readers see all before it.
func (q *Queue) Max() message.QueueOffset { return message.QueueOffset(q.max.Load()) }

// LastOffset is the end (offset+size) of the last entry's record, 0 when there is none.
func (q *Queue) LastOffset() message.Offset { return message.Offset(q.last.Load()) }

// Put stores e as entry at. An entry that is already there and equal is kept; below Max another one replaces it (rebuilding);
// above Max the gap is filled with fillers and said, in a queue without entries only from the start of at's file. Below First
// the missing files are made anew, full of fillers. After an error the entry is not there, and Put may be called again.
func (q *Queue) Put(at message.QueueOffset, e Entry) error {
	if !e.valid() || at < 0 {
		return fmt.Errorf("consumequeue: %s/%d: entry %d of a record at %d with %d bytes", q.ID.Topic, q.ID.QueueID, at, e.Offset, e.Size)
	}
	if q.bad != nil {
		return q.bad
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return ErrDeleted
	}
	if q.table.closed.Load() {
		return ErrClosed
	}
	n := int64(at)
	switch limit := q.max.Load(); {
	case n < q.first.Load():
		if err := q.extendDown(n); err != nil {
			return err
		}
		return q.replace(n, e)
	case n < limit:
		return q.replace(n, e)
	case n > limit:
		if err := q.fill(n); err != nil {
			return err
		}
	}
	return q.append(n, e)
}

// append puts the entry behind the last one. mu is held.
func (q *Queue) append(n int64, e Entry) error {
	if len(q.tail)+EntrySize > cap(q.tail) {
		if err := q.makeRoom(); err != nil {
			return err
		}
	}
	q.tail = AppendEntry(q.tail, e)
	q.enqueue()
	q.table.metrics.Entries.Add(1)
	q.last.Store(int64(e.End())) // before max: who sees the entry sees its end
	q.max.Store(n + 1)
	return nil
}

// enqueue makes sure that the next Flush looks at the queue. mu is held.
func (q *Queue) enqueue() {
	if !q.queued {
		q.queued = true
		q.table.addDirty(q)
	}
}

// replace puts an entry where one is. mu is held.
func (q *Queue) replace(n int64, e Entry) error {
	if n >= q.written {
		unit := q.tail[(n-q.written)*EntrySize:][:EntrySize]
		if there, _ := DecodeEntry(unit); there == e {
			q.table.metrics.Skipped.Add(1)
			return nil
		}
		AppendEntry(unit[:0], e)
		q.replaced(n, e)
		return nil
	}
	var unit [EntrySize]byte
	number, off := q.table.place(n)
	if err := q.table.files.readAt(q, number, unit[:], off); err != nil {
		return err
	}
	if there, _ := DecodeEntry(unit[:]); there == e {
		q.table.metrics.Skipped.Add(1)
		return q.writeAt(number, unit[:], off) // see Rewrite
	}
	if err := q.writeAt(number, AppendEntry(unit[:0], e), off); err != nil {
		return err
	}
	q.replaced(n, e)
	return nil
}

func (q *Queue) replaced(n int64, e Entry) {
	q.table.metrics.Replaced.Add(1)
	q.forgetMin()
	if n == q.max.Load()-1 {
		q.last.Store(int64(e.End()))
	}
}

// Rewrite writes entries, which were read from number from on, to where they are. Recovery does so with those it finds and is going to claim:
// they may be in the page cache only, left there by a process that was killed, and after a write-back that failed a sync would say nothing
// of pages that are clean. Entries of one file; those that are in memory still are left alone.
func (q *Queue) Rewrite(from message.QueueOffset, entries []Entry) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return ErrDeleted
	}
	n := min(q.written-int64(from), int64(len(entries)))
	if n <= 0 {
		return nil
	}
	units := make([]byte, 0, rewriteRoom)
	for _, e := range entries[:n] {
		units = AppendEntry(units, e)
	}
	number, off := q.table.place(int64(from))
	return q.writeAt(number, units, off)
}

// rewriteRoom keeps the buffer of Rewrite off the heap for as many entries as recovery reads at a time.
const rewriteRoom = 32 * EntrySize

// Read copies entries from number from on into dst, as many as there are, and tells how many. Below First and from Max on there
// are none. Fillers are returned as they are.
func (q *Queue) Read(from message.QueueOffset, dst []Entry) (int, error) {
	return q.read(from, dst, false)
}

// ReadNow is Read for those who must not wait for the disk: it is ErrWouldWait when an entry is not in memory.
func (q *Queue) ReadNow(from message.QueueOffset, dst []Entry) (int, error) {
	return q.read(from, dst, true)
}

func (q *Queue) read(from message.QueueOffset, dst []Entry, now bool) (int, error) {
	q.mu.Lock()
	written := q.written
	n := int(min(int64(len(dst)), q.max.Load()-int64(from)))
	if n <= 0 || from < q.First() {
		q.mu.Unlock()
		return 0, nil
	}
	inFiles := int(min(max(written-int64(from), 0), int64(n)))
	tail := q.tail[max(int64(from)-written, 0)*EntrySize:]
	for i := inFiles; i < n; i++ {
		dst[i], _ = DecodeEntry(tail)
		tail = tail[EntrySize:]
	}
	q.mu.Unlock()
	// What is in the files stays as it is, so it is read without the lock: a cold page holds up nobody else.
	if got, err := q.table.readFiles(q, int64(from), dst[:inFiles], now); err != nil || got < inFiles {
		if err != nil && from < q.First() {
			return 0, nil // the file was removed meanwhile
		}
		return got, err
	}
	return n, nil
}

// readChunk is how many entries one pread takes at most.
const readChunk = 204

type chunk [readChunk * EntrySize]byte

func (t *Table) readFiles(q *Queue, from int64, dst []Entry, now bool) (int, error) {
	if len(dst) == 0 {
		return 0, nil
	}
	buf := t.chunks.Get().(*chunk)
	defer t.chunks.Put(buf)
	done := 0
	for done < len(dst) {
		number, off := t.place(from + int64(done))
		n := min(len(dst)-done, readChunk, int((t.o.FileSize-off)/EntrySize))
		var err error
		if now {
			err = t.files.readNow(q, number, buf[:n*EntrySize], off)
		} else {
			err = t.files.readAt(q, number, buf[:n*EntrySize], off)
		}
		if err != nil {
			return done, err
		}
		for i := range n {
			dst[done+i], _ = DecodeEntry(buf[i*EntrySize:])
		}
		done += n
	}
	return done, nil
}

// place tells where entry n is: the number of its file and the byte in it.
func (t *Table) place(n int64) (number, off int64) {
	at := n * EntrySize
	return at / t.o.FileSize, at % t.o.FileSize
}
