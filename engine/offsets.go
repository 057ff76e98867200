package engine

import (
	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
)

// OffsetByTime is the first message of a queue that was stored at timeMS or later: Min if all were, Max if none was. False when there is no
// such queue.
func (s *Store) OffsetByTime(topic []byte, queueID int32, timeMS int64) (message.QueueOffset, bool) {
	q := s.Queue(topic, queueID)
	if q == nil {
		return 0, false
	}
	return s.firstFrom(q, timeMS), true
}

// LastOffsetByTime is the last message of a queue that was stored at timeMS or earlier, Min if none was: the upper boundary of the
// protocol's search.
func (s *Store) LastOffsetByTime(topic []byte, queueID int32, timeMS int64) (message.QueueOffset, bool) {
	q := s.Queue(topic, queueID)
	if q == nil {
		return 0, false
	}
	return max(s.firstFrom(q, timeMS+1)-1, q.Min()), true
}

// StoreTime is when the message with a number was stored, in ms.
func (s *Store) StoreTime(topic []byte, queueID int32, at message.QueueOffset) (int64, bool) {
	q := s.Queue(topic, queueID)
	if q == nil {
		return 0, false
	}
	return s.storeTime(q, at)
}

// firstFrom searches the queue by halves: store times rise with the log. A number without a readable record says nothing, so the next
// one that has a record is asked in its place.
func (s *Store) firstFrom(q *consumequeue.Queue, timeMS int64) message.QueueOffset {
	low, high := q.Min(), q.Max()
	for low < high {
		middle := low + (high-low)/2
		probe := middle
		stored, ok := s.storeTime(q, probe)
		for !ok && probe+1 < high {
			probe++
			stored, ok = s.storeTime(q, probe)
		}
		if !ok || stored >= timeMS {
			high = middle
		} else {
			low = probe + 1
		}
	}
	return low
}

func (s *Store) storeTime(q *consumequeue.Queue, at message.QueueOffset) (int64, bool) {
	s.life.RLock()
	defer s.life.RUnlock()
	if s.closed || at < q.Min() || at >= q.Max() {
		return 0, false
	}
	var entry [1]consumequeue.Entry
	if n, err := q.Read(at, entry[:]); err != nil || n == 0 {
		return 0, false
	}
	e := entry[0]
	if e.Size <= 0 || e.Offset < s.log.Min() || e.Offset+message.Offset(e.Size) > s.readable() {
		return 0, false
	}
	view, ok := s.log.View(e.Offset, int(e.Size))
	if !ok {
		return 0, false
	}
	defer view.Release()
	if !whole(view.Bytes, e) {
		return 0, false
	}
	return message.StoreTime(view.Bytes)
}
