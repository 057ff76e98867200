package engine

import (
	"runtime/debug"

	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
	"ringmq/engine/segment"
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

// firstFrom searches by halves, for store times rise with the log. A record that cannot be read counts as stored earlier: a consumer
// that begins there would pass over it.
func (s *Store) firstFrom(q *consumequeue.Queue, timeMS int64) message.QueueOffset {
	s.life.RLock()
	defer s.life.RUnlock()
	if s.closed {
		return q.Min()
	}
	at, err := q.Search(func(e consumequeue.Entry) bool {
		stored, ok := s.storeTime(e)
		return !ok || stored < timeMS
	})
	if err != nil {
		s.options.Logger.Error("a consume queue cannot be searched", "topic", q.ID.Topic, "queue", q.ID.QueueID, "error", err)
		return q.Min()
	}
	return at
}

// storeTime reads the head of a record.
func (s *Store) storeTime(e consumequeue.Entry) (ms int64, ok bool) {
	if e.Size <= 0 || e.Offset < s.log.Min() || e.End() > s.readable() {
		return 0, false
	}
	view, ok := s.log.View(e.Offset, int(e.Size))
	if !ok {
		return 0, false
	}
	defer view.Release()
	var err error
	func() {
		defer segment.CatchFault(&err, "engine", debug.SetPanicOnFault(true))
		if ok = whole(view.Bytes, e); ok {
			ms, ok = message.StoreTime(view.Bytes)
		}
	}()
	return ms, ok && err == nil
}
