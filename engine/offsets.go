package engine

import (
	"runtime/debug"

	"ringmq/engine/commitlog"
	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
	"ringmq/engine/segment"
)

// OffsetByTime is the first message of a queue that was stored at timeMS or later: Min if all were, Max if none was. It may be a damaged one,
// which a pull passes over. False when there is no such queue.
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
	s.life.RLock()
	defer s.life.RUnlock()
	var entry [1]consumequeue.Entry
	if s.closed || at < q.Min() {
		return 0, false
	}
	if n, err := q.Read(at, entry[:]); err != nil || n == 0 || entry[0].Filler() {
		return 0, false
	}
	return s.storeTime(entry[0])
}

// firstFrom searches by halves, for store times rise with the log.
func (s *Store) firstFrom(q *consumequeue.Queue, timeMS int64) message.QueueOffset {
	s.life.RLock()
	defer s.life.RUnlock()
	if s.closed {
		return q.Min()
	}
	times := storeTimes{store: s}
	at, err := q.Search(func(e consumequeue.Entry) bool { return times.of(e) < timeMS })
	if err != nil {
		s.options.Logger.Error("a consume queue cannot be searched", "topic", q.ID.Topic, "queue", q.ID.QueueID, "error", err)
		return q.Min()
	}
	return at
}

// storeTimes knows a time for every entry, for one search. A damaged record counts as stored when the next whole one of the log was: so the
// times still rise, and no damage leads a search past messages that are there.
type storeTimes struct {
	store    *Store
	from, to message.Offset // no whole record begins in [from, to),
	nextMS   int64          // and this is when the one at to was stored
}

// never is later than all store times.
const never = 1<<63 - 1

func (t *storeTimes) of(e consumequeue.Entry) int64 {
	if ms, ok := t.store.storeTime(e); ok {
		return ms
	}
	if e.Offset < t.from || e.Offset >= t.to {
		t.from = e.Offset
		t.to, t.nextMS = t.store.nextStored(e.Offset)
	}
	return t.nextMS
}

// nextStored is the first whole record at from or behind it, and when it was stored; below the log's minimum it is the beginning of time,
// and the end of the log is never.
func (s *Store) nextStored(from message.Offset) (at message.Offset, ms int64) {
	if low := s.log.Min(); from < low {
		return low, 0
	}
	size, end := message.Offset(s.options.SegmentSize), s.readable()
	for at = from; at < end; {
		segmentEnd := at - at%size + size
		if view, ok := s.log.View(at, int(segmentEnd-at)); ok { // else the segment is missing
			n := commitlog.NextWhole(view.Bytes, at, 0, len(view.Bytes))
			ms, ok := storedAt(view.Bytes[n:])
			view.Release()
			if ok {
				return at + message.Offset(n), ms
			}
		}
		at = segmentEnd
	}
	return max(from+1, end), never
}

// storeTime reads the head of a record.
func (s *Store) storeTime(e consumequeue.Entry) (ms int64, ok bool) {
	if e.Size <= 0 || e.Offset < s.log.Min() || e.End() > s.readable() || s.knownDamaged(e) {
		return 0, false
	}
	view, ok := s.log.View(e.Offset, int(e.Size))
	if !ok {
		return 0, false
	}
	defer view.Release()
	if !isWhole(view.Bytes, e) {
		return 0, false
	}
	return storedAt(view.Bytes)
}

// isWhole is whole of bytes that may not be in memory.
func isWhole(b []byte, e consumequeue.Entry) (ok bool) {
	var err error
	func() {
		defer segment.CatchFault(&err, "engine", debug.SetPanicOnFault(true))
		ok = whole(b, e)
	}()
	return ok && err == nil
}

// storedAt is the store time in the head of a record.
func storedAt(head []byte) (ms int64, ok bool) {
	var err error
	func() {
		defer segment.CatchFault(&err, "engine", debug.SetPanicOnFault(true))
		ms, ok = message.StoreTime(head)
	}()
	return ms, ok && err == nil
}
