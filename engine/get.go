package engine

import (
	"time"

	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
	"ringmq/engine/segment"
)

const (
	// entriesPerRead is how many entries a Get reads at a time, and scanEntries how many it looks at before it gives the caller a
	// place to go on from, when a filter matches few of them.
	entriesPerRead = 64
	scanEntries    = 1024

	// recentBytes before the end of the log are taken to be in memory, without asking.
	recentBytes = 256 << 20
)

// GetStatus says what a Get found. The words are those of the protocol's remark field.
type GetStatus uint8

const (
	Found         GetStatus = iota
	NoMatched               // nothing matched the filter: go on at Next
	NoQueue                 // NO_MATCHED_LOGIC_QUEUE
	NoMessage               // NO_MESSAGE_IN_QUEUE: the queue is empty
	OverflowOne             // at the end: park
	OverflowBadly           // beyond the end
	TooSmall                // below Min
	Removing                // the record's segment is gone
)

// Filter decides by tags code. It must not block.
type Filter interface{ Match(tagsCode int64) bool }

// GetResult is reused by the caller; Release gives back every view, exactly once.
type GetResult struct {
	Status   GetStatus
	Next     message.QueueOffset // where to go on
	Min, Max message.QueueOffset
	Count    int            // records
	Bytes    int            // of them
	Views    []segment.View // neighbouring records joined
	Cold     bool           // some bytes are not resident: do not write them from an event loop

	entries []consumequeue.Entry
}

// Release gives back the views. A second call does nothing.
func (r *GetResult) Release() {
	for i := range r.Views {
		r.Views[i].Release()
	}
	r.Views = r.Views[:0]
}

func (r *GetResult) reset() {
	if len(r.Views) > 0 {
		panic("BUG: engine: a GetResult is used again before its views were released")
	}
	if r.entries == nil {
		r.entries = make([]consumequeue.Entry, entriesPerRead)
	}
	*r = GetResult{Views: r.Views, entries: r.entries}
}

// Get collects up to max records (and maxBytes bytes, at least one record) from queue offset from on. f nil matches all. No allocation
// once res has grown. The views are to be released also when the status is not Found.
func (s *Store) Get(topic []byte, queueID int32, from message.QueueOffset, max, maxBytes int, f Filter, res *GetResult) {
	res.reset()
	s.metrics.Gets.Add(1)
	s.life.RLock()
	defer s.life.RUnlock()
	q := s.queues.Find(topic, queueID)
	if q == nil || s.closed {
		res.Status = NoQueue
		return
	}
	res.Min, res.Max = q.Min(), q.Max()
	switch {
	case res.Max == 0:
		res.Status = NoMessage
	case from < res.Min:
		res.Status, res.Next = TooSmall, res.Min
	case from == res.Max:
		res.Status, res.Next = OverflowOne, from
	case from > res.Max:
		res.Status, res.Next = OverflowBadly, res.Max
	default:
		g := gathering{store: s, res: res, queue: q, max: max, maxBytes: maxBytes, filter: f}
		g.collect(from)
	}
	s.metrics.GetRecords.Add(int64(res.Count))
	s.metrics.GetBytes.Add(int64(res.Bytes))
	if res.Cold {
		s.metrics.ColdGets.Add(1)
	}
}

// gathering is one Get under way.
type gathering struct {
	store    *Store
	res      *GetResult
	queue    *consumequeue.Queue
	max      int
	maxBytes int
	filter   Filter

	run    segment.View   // what the last records stand in, to the end of what may be read
	runAt  message.Offset // position of its first byte
	runLen int            // bytes of it taken, 0: none
	gone   bool           // a record was below the log's minimum
}

func (g *gathering) collect(from message.QueueOffset) {
	res := g.res
	res.Status, res.Next = NoMatched, from
	limit := min(res.Max, from+max(scanEntries, message.QueueOffset(g.max)))
	for more := true; more && res.Next < limit; {
		n, err := g.queue.Read(res.Next, res.entries[:min(len(res.entries), int(limit-res.Next))])
		if err != nil {
			g.store.options.Logger.Error("a consume queue cannot be read", "topic", g.queue.ID.Topic, "queue", g.queue.ID.QueueID,
				"entry", res.Next, "error", err)
			break
		}
		if n == 0 {
			break
		}
		for _, entry := range res.entries[:n] {
			if more = g.take(entry); !more {
				break
			}
			res.Next++
		}
	}
	g.endRun()
	switch {
	case res.Count > 0:
		res.Status = Found
	case g.gone:
		res.Status = Removing
	}
}

// take adds the record of one entry, or passes over it; false when the result is full and the entry has to wait.
func (g *gathering) take(entry consumequeue.Entry) bool {
	if g.res.Count >= g.max {
		return false
	}
	if entry.Filler() {
		return true
	}
	if g.filter != nil && !g.filter.Match(entry.TagsCode) {
		return true
	}
	if g.res.Count > 0 && g.res.Bytes+int(entry.Size) > g.maxBytes {
		return false
	}
	if entry.Offset < g.store.log.Min() {
		g.gone = true
		return true
	}
	if g.store.knownDamaged(entry) || !g.extend(entry) && !g.open(entry) {
		g.store.damaged(g.queue, g.res.Next, entry)
		return true
	}
	g.res.Count++
	g.res.Bytes += int(entry.Size)
	return true
}

// extend takes the record if it stands right behind the one before, in the same view.
func (g *gathering) extend(entry consumequeue.Entry) bool {
	if g.runLen == 0 || entry.Offset != g.runAt+message.Offset(g.runLen) || !whole(g.run.Bytes[g.runLen:], entry) {
		return false
	}
	g.runLen += int(entry.Size)
	return true
}

// open begins a new view with the record: it reaches as far as following records may be taken from it.
func (g *gathering) open(entry consumequeue.Entry) bool {
	readable := g.store.readable()
	if entry.Size <= 0 || entry.End() > readable {
		return false
	}
	n := min(max(int(entry.Size), g.maxBytes-g.res.Bytes), int(readable-entry.Offset))
	view, ok := g.store.log.View(entry.Offset, n)
	if !ok {
		return false
	}
	if !whole(view.Bytes, entry) {
		view.Release()
		return false
	}
	g.endRun()
	g.run, g.runAt, g.runLen = view, entry.Offset, int(entry.Size)
	return true
}

func (g *gathering) endRun() {
	if g.runLen == 0 {
		return
	}
	g.run.Bytes = g.run.Bytes[:g.runLen:g.runLen]
	if !g.res.Cold && g.runAt+recentBytes < g.store.log.End() {
		g.res.Cold = !resident(g.run.Bytes)
	}
	g.res.Views = append(g.res.Views, g.run)
	g.run, g.runLen = segment.View{}, 0
}

// whole is the light check of what is served: the body's CRC is the scrub's and the client's.
func whole(b []byte, entry consumequeue.Entry) bool {
	size, ok := message.Peek(b, entry.Offset)
	return ok && size == int(entry.Size)
}

// knownDamaged: recovery found that no whole record stands there, whatever its head looks like.
func (s *Store) knownDamaged(entry consumequeue.Entry) bool {
	for _, d := range s.recovery.Damaged {
		if entry.Offset < d.To && entry.End() > d.From {
			return true
		}
	}
	return false
}

// damaged tells of an entry that was passed over, at most once a second: a consumer comes by again and again.
func (s *Store) damaged(q *consumequeue.Queue, at message.QueueOffset, entry consumequeue.Entry) {
	s.metrics.Damaged.Add(1)
	now := time.Now().UnixNano()
	last := s.damageTold.Load()
	if now-last < int64(time.Second) || !s.damageTold.CompareAndSwap(last, now) {
		return
	}
	s.options.Logger.Error("a message is damaged and was passed over", "topic", q.ID.Topic, "queue", q.ID.QueueID, "number", at,
		"offset", entry.Offset, "size", entry.Size, "passed over so far", s.metrics.Damaged.Load())
}

// Queue returns a queue, nil if absent. No allocation.
func (s *Store) Queue(topic []byte, queueID int32) *consumequeue.Queue {
	return s.queues.Find(topic, queueID)
}

// Queues calls fn for every queue until it returns false.
func (s *Store) Queues(fn func(*consumequeue.Queue) bool) { s.queues.Range(fn) }

// Record views the one whole record at a position; false when there is none.
func (s *Store) Record(at message.Offset) (segment.View, bool) {
	s.life.RLock()
	defer s.life.RUnlock()
	readable := s.readable()
	if s.closed || at < s.log.Min() || at+4 > readable {
		return segment.View{}, false
	}
	head, ok := s.log.View(at, 4)
	if !ok || len(head.Bytes) < 4 {
		head.Release()
		return segment.View{}, false
	}
	size := message.Size(head.Bytes)
	head.Release()
	if size <= 0 || at+message.Offset(size) > readable {
		return segment.View{}, false
	}
	view, ok := s.log.View(at, size)
	if !ok {
		return segment.View{}, false
	}
	var r message.Record
	if kind, err := message.Check(view.Bytes, at, &r); err != nil || kind != message.Whole || int(r.Size) != size {
		view.Release()
		return segment.View{}, false
	}
	return view, true
}
