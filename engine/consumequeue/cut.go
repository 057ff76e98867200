package consumequeue

import (
	"ringmq/engine/message"
	"ringmq/internal/durable"
)

// Cut drops the entries of records that do not end at or before end, and makes them zero on the device, so that they cannot come back
// when the queue grows again. Before the first reader and the first append only. A queue that loses all entries keeps its numbering.
func (t *Table) Cut(end message.Offset) (dropped int, err error) {
	t.flushMu.Lock()
	defer t.flushMu.Unlock()
	if t.closed.Load() {
		return 0, ErrClosed
	}
	for _, q := range t.all() {
		if q.LastOffset() <= end {
			continue
		}
		n, err := q.cut(end)
		dropped += n
		if err != nil {
			return dropped, err
		}
	}
	return dropped, nil
}

func (q *Queue) cut(end message.Offset) (dropped int, err error) {
	from, err := q.firstBeyond(end)
	if err != nil {
		return 0, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	dropped = int(q.max.Load() - from)
	if dropped == 0 {
		return 0, nil
	}
	// Everything is put into the files first: then there is one thing to cut, and nothing is left in memory.
	if err := q.writeOut(); err != nil {
		return 0, err
	}
	if err := q.truncate(from); err != nil {
		return 0, err
	}
	q.written = from
	q.max.Store(from)
	q.forgetMin()
	if err := q.findLast(); err != nil {
		return dropped, err
	}
	q.Next = q.Max()
	return dropped, nil
}

// firstBeyond is the number of the first of the queue's last entries that are all of records which do not end at or before end; Max if there
// is none. It reads from the back, one after the other: an entry further up may have rotted, and a search by halves would believe it.
func (q *Queue) firstBeyond(end message.Offset) (int64, error) {
	var entries [readChunk]Entry
	first, beyond := q.first.Load(), q.max.Load()
	for to := beyond; to > first; {
		n := min(to-first, int64(len(entries)))
		if got, err := q.Read(message.QueueOffset(to-n), entries[:n]); err != nil || int64(got) < n {
			return 0, err
		}
		for i := n - 1; i >= 0; i-- {
			switch e := entries[i]; {
			case e.Filler():
			case e.End() <= end:
				return beyond, nil
			default:
				beyond = to - n + i
			}
		}
		to -= n
	}
	return beyond, nil
}

// truncate removes the files behind from, the last one first, and erases the rest of the file that from lies in. The first file
// stays. mu is held.
func (q *Queue) truncate(from int64) error {
	t := q.table
	perFile := t.o.FileSize / EntrySize
	keep := from / perFile
	if from%perFile == 0 && from > q.first.Load() {
		keep-- // it ends exactly there
	}
	t.files.drop(func(key fileKey) bool { return key.queue == q && key.number > keep })
	for q.endFile > keep+1 {
		if err := durable.Remove(t.path(q.ID, q.endFile-1)); err != nil {
			return err
		}
		q.endFile--
	}
	off := from*EntrySize - keep*t.o.FileSize
	if off == t.o.FileSize {
		return nil
	}
	return t.files.truncate(q, keep, off)
}
