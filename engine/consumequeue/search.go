package consumequeue

import "ringmq/engine/message"

// Min is the first entry of a record at or above the log's minimum, Max if there is none. The search is done once for each
// minimum; if the files cannot be read the last result stands.
func (q *Queue) Min() message.QueueOffset {
	found, err := q.findMin(false)
	if err != nil {
		q.table.o.Logger.Error("a consume queue cannot be read", "topic", q.ID.Topic, "queue", q.ID.QueueID, "error", err)
		return message.QueueOffset(q.min.Load())
	}
	return message.QueueOffset(found)
}

// MinNow is Min for those who must not wait for the disk: false when a search is due that needs what is not in memory.
func (q *Queue) MinNow() (message.QueueOffset, bool) {
	found, err := q.findMin(true)
	return message.QueueOffset(found), err == nil
}

// findMin searches if what the last search found is not enough to know: most queues have all their records above the log's new minimum, or
// all below it.
func (q *Queue) findMin(now bool) (int64, error) {
	logMin := q.table.logMin.Load()
	if q.minFor.Load() == logMin {
		return q.min.Load(), nil
	}
	q.mu.Lock()
	gen, low := q.minGen, q.first.Load()
	if was := q.minFor.Load(); was >= 0 && was <= logMin {
		low = max(low, q.min.Load())
		if q.minOffset >= logMin {
			q.minFor.Store(logMin)
			q.mu.Unlock()
			return q.min.Load(), nil
		}
	}
	high := q.max.Load()
	if q.last.Load() <= logMin {
		q.foundMin(high, -1, logMin)
		q.mu.Unlock()
		return high, nil
	}
	q.mu.Unlock()
	found, e, err := q.search(low, max(high, low), now, func(e Entry) bool { return int64(e.Offset) < logMin })
	if err != nil {
		return 0, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if gen == q.minGen {
		q.foundMin(found, int64(e.Offset), logMin)
	}
	return found, nil
}

// foundMin keeps the result of a search: the entry's number, and its record's offset, -1 if there is none. mu is held.
func (q *Queue) foundMin(n, offset, logMin int64) {
	q.minOffset = offset
	q.min.Store(n) // before minFor, which vouches for it
	q.minFor.Store(logMin)
}

// forgetMin makes the next Min search again: entries below Max have changed. mu is held.
func (q *Queue) forgetMin() {
	q.minGen++
	q.minFor.Store(-1)
}

// RefreshMins searches the minimum of every queue, so that nobody else has to after SetLogMin.
func (t *Table) RefreshMins() {
	for _, q := range t.all() {
		q.Min()
	}
}

// Search finds by halves the first entry of [Min, Max) for which before is false, given that it is true for a first part of the
// queue and false for the rest; Max if it is true for all. Fillers are not shown to it and not found.
func (q *Queue) Search(before func(Entry) bool) (message.QueueOffset, error) {
	low := int64(q.Min())
	found, _, err := q.search(low, max(q.max.Load(), low), false, before)
	return message.QueueOffset(found), err
}

// search is Search between two numbers; it also returns the entry it found. With now it does not wait for the disk: ErrWouldWait.
func (q *Queue) search(low, high int64, now bool, before func(Entry) bool) (int64, Entry, error) {
	end := high
	for {
		// What retention removes meanwhile counts as before.
		if low = max(low, q.first.Load()); low >= high {
			break
		}
		middle := low + (high-low)/2
		at, e, err := q.nextRecord(middle, high, now)
		if err != nil {
			return 0, Entry{}, err
		}
		if at < high && before(e) {
			low = at + 1
		} else {
			high = middle
		}
	}
	return q.nextRecord(low, end, now)
}

// nextRecord is the first entry of [from, to) that is not a filler, to and an entry at -1 if there is none.
func (q *Queue) nextRecord(from, to int64, now bool) (int64, Entry, error) {
	var entries [16]Entry
	for want := int64(1); from < to; want = int64(len(entries)) { // the first one nearly always is a record
		n, err := q.read(message.QueueOffset(from), entries[:min(want, to-from)], now)
		if first := q.first.Load(); err == nil && n == 0 && from < first {
			from = first // retention has removed the file meanwhile
			continue
		}
		if err != nil || n == 0 {
			return to, Entry{Offset: -1}, err
		}
		for _, e := range entries[:n] {
			if !e.Filler() {
				return from, e, nil
			}
			from++
		}
	}
	return to, Entry{Offset: -1}, nil
}
