package consumequeue

import "ringmq/engine/message"

// Min is the first entry of a record at or above the log's minimum, Max if there is none. The search is done once for each
// minimum; if the files cannot be read the last result stands.
func (q *Queue) Min() message.QueueOffset {
	logMin := q.table.logMin.Load()
	if q.minFor.Load() == logMin {
		return message.QueueOffset(q.min.Load())
	}
	q.mu.Lock()
	gen := q.minGen
	q.mu.Unlock()
	found, err := q.search(q.first.Load(), q.max.Load(), func(e Entry) bool { return int64(e.Offset) < logMin })
	if err != nil {
		q.table.o.Logger.Error("a consume queue cannot be read", "topic", q.ID.Topic, "queue", q.ID.QueueID, "error", err)
		return message.QueueOffset(q.min.Load())
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if gen == q.minGen {
		q.min.Store(found) // before minFor, which vouches for it
		q.minFor.Store(logMin)
	}
	return message.QueueOffset(found)
}

// forgetMin makes the next Min search again: entries below Max have changed. mu is held.
func (q *Queue) forgetMin() {
	q.minGen++
	q.minFor.Store(-1)
}

// Search finds by halves the first entry of [Min, Max) for which before is false, given that it is true for a first part of the
// queue and false for the rest; Max if it is true for all. Fillers are not shown to it and not found.
func (q *Queue) Search(before func(Entry) bool) (message.QueueOffset, error) {
	low := int64(q.Min())
	found, err := q.search(low, max(q.max.Load(), low), before)
	return message.QueueOffset(found), err
}

// search is Search between two numbers.
func (q *Queue) search(low, high int64, before func(Entry) bool) (int64, error) {
	end := high
	for {
		// What retention removes meanwhile counts as before.
		if low = max(low, q.first.Load()); low >= high {
			break
		}
		middle := low + (high-low)/2
		at, e, err := q.nextRecord(middle, high)
		if err != nil {
			return 0, err
		}
		if at < high && before(e) {
			low = at + 1
		} else {
			high = middle
		}
	}
	at, _, err := q.nextRecord(low, end)
	return at, err
}

// nextRecord is the first entry of [from, to) that is not a filler, to if there is none.
func (q *Queue) nextRecord(from, to int64) (int64, Entry, error) {
	var entries [16]Entry
	for want := int64(1); from < to; want = int64(len(entries)) { // the first one nearly always is a record
		n, err := q.Read(message.QueueOffset(from), entries[:min(want, to-from)])
		if first := q.first.Load(); err == nil && n == 0 && from < first {
			from = first // retention has removed the file meanwhile
			continue
		}
		if err != nil || n == 0 {
			return to, Entry{}, err
		}
		for _, e := range entries[:n] {
			if !e.Filler() {
				return from, e, nil
			}
			from++
		}
	}
	return to, Entry{}, nil
}
