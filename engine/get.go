package engine

import (
	"runtime/debug"

	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
	"ringmq/engine/segment"
)

const (
	// entriesPerRead is how many entries a Get reads at a time, and scanEntries how many it looks at before it gives the caller a
	// place to go on from, when a filter matches few of them.
	entriesPerRead = 64
	scanEntries    = 1024

	// recentBytes before the end of the log are taken to be in memory, without asking the kernel, if this process has written them.
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
	Unreadable              // the device cannot read the queue's entries at Next: its file has to be built again
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
	Cold     bool           // something had to be read from the disk

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
// once res has grown. The views are to be released also when the status is not Found. What is not in memory is read, so Get may wait for
// the disk; what the disk cannot read is passed over as damaged.
func (s *Store) Get(topic []byte, queueID int32, from message.QueueOffset, max, maxBytes int, f Filter, res *GetResult) {
	s.get(gathering{store: s, res: res, max: max, maxBytes: maxBytes, filter: f}, topic, queueID, from)
}

// GetNow is Get for event loops: it ends before the first record, or entry, that is not in memory. False when that is the first there is:
// then nothing was found out, and Get is to be called where the caller may wait.
func (s *Store) GetNow(topic []byte, queueID int32, from message.QueueOffset, max, maxBytes int, f Filter, res *GetResult) bool {
	return s.get(gathering{store: s, res: res, max: max, maxBytes: maxBytes, filter: f, now: true}, topic, queueID, from)
}

func (s *Store) get(g gathering, topic []byte, queueID int32, from message.QueueOffset) bool {
	res := g.res
	res.reset()
	s.life.RLock()
	defer s.life.RUnlock()
	q := s.queues.Find(topic, queueID)
	if q == nil || s.closed {
		res.Status = NoQueue
		return true
	}
	if g.now {
		var known bool
		if res.Min, known = q.MinNow(); !known {
			return false
		}
	} else {
		res.Min = q.Min()
	}
	res.Max = q.Max()
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
		g.queue = q
		g.collect(from)
		if g.stopped && res.Count == 0 && res.Next == from {
			return false
		}
	}
	s.metrics.Gets.Add(1)
	s.metrics.GetRecords.Add(int64(res.Count))
	s.metrics.GetBytes.Add(int64(res.Bytes))
	if res.Cold {
		s.metrics.ColdGets.Add(1)
	}
	return true
}

// gathering is one Get under way.
type gathering struct {
	store    *Store
	res      *GetResult
	queue    *consumequeue.Queue
	max      int
	maxBytes int
	filter   Filter
	now      bool // must not wait for the disk
	stopped  bool // because it would have had to

	entry  consumequeue.Entry // looked at
	trial  segment.View       // opened for it, not taken yet
	run    segment.View       // what the last records stand in, to the end of what may be read
	runAt  message.Offset     // position of its first byte
	runLen int                // bytes of it taken, 0: none
	inMem  int                // bytes of it that are in memory
	gone   bool               // a record was below the log's minimum
	broken bool               // the queue's file cannot be read
}

func (g *gathering) collect(from message.QueueOffset) {
	res := g.res
	res.Status, res.Next = NoMatched, from
	limit := min(res.Max, from+max(scanEntries, message.QueueOffset(g.max)))
	for err := g.gather(limit); err != nil; err = g.gather(limit) {
		// The disk cannot read what was believed to be in memory.
		g.trial.Release()
		g.store.damaged(g.queue, res.Next, g.entry)
		res.Next++
	}
	g.endRun()
	switch {
	case res.Count > 0:
		res.Status = Found
	case g.broken && res.Next == from:
		res.Status = Unreadable
	case g.gone:
		res.Status = Removing
	}
}

// gather goes on at res.Next. It ends with an error at bytes that cannot be read.
func (g *gathering) gather(limit message.QueueOffset) (err error) {
	defer segment.CatchFault(&err, "engine", debug.SetPanicOnFault(true))
	res := g.res
	for more := true; more && res.Next < limit; {
		n := g.read(res.entries[:min(len(res.entries), int(limit-res.Next))])
		if n == 0 {
			break
		}
		for _, g.entry = range res.entries[:n] {
			if more = g.take(g.entry); !more {
				break
			}
			res.Next++
		}
	}
	return nil
}

// read reads entries from res.Next on; 0 when there are none, or none that can be read.
func (g *gathering) read(dst []consumequeue.Entry) int {
	n, err := 0, error(nil)
	if g.now {
		n, err = g.queue.ReadNow(g.res.Next, dst)
	} else {
		n, err = g.queue.Read(g.res.Next, dst)
	}
	switch {
	case err == consumequeue.ErrWouldWait:
		g.stopped = true
		return 0
	case err != nil:
		g.broken = true
		g.store.options.Logger.Error("a consume queue cannot be read", "topic", g.queue.ID.Topic, "queue", g.queue.ID.QueueID,
			"entry", g.res.Next, "error", err)
		return 0
	}
	return n
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
		if g.stopped {
			return false
		}
		g.store.damaged(g.queue, g.res.Next, entry)
		return true
	}
	g.res.Count++
	g.res.Bytes += int(entry.Size)
	return true
}

// extend takes the record if it stands right behind the one before, in the same view.
func (g *gathering) extend(entry consumequeue.Entry) bool {
	if g.runLen == 0 || entry.Offset != g.runAt+message.Offset(g.runLen) || entry.Size <= 0 || int(entry.Size) > len(g.run.Bytes)-g.runLen {
		return false
	}
	end := g.runLen + int(entry.Size)
	if end > g.inMem && !g.bring(g.run.Bytes[g.runLen:end], entry.Offset) || !whole(g.run.Bytes[g.runLen:], entry) {
		return false
	}
	g.runLen = end
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
	g.trial = view
	inMem := len(view.Bytes)
	if !g.recent(entry.Offset) && !segment.Resident(view.Bytes) {
		inMem = int(entry.Size)
		ok = inMem <= len(view.Bytes) && g.bring(view.Bytes[:inMem], entry.Offset)
	}
	if !ok || !whole(view.Bytes, entry) {
		g.trial.Release()
		return false
	}
	g.endRun()
	g.run, g.runAt, g.runLen, g.inMem = view, entry.Offset, int(entry.Size), inMem
	g.trial = segment.View{}
	return true
}

// recent: appended not long ago, so taken to be in memory.
func (g *gathering) recent(at message.Offset) bool {
	return at >= g.store.recovery.End && at+g.store.recent >= g.store.log.End()
}

// bring has the bytes of one record in memory, so that touching them neither waits nor faults. False when they cannot be read, or when that
// would take time and there is none.
func (g *gathering) bring(b []byte, at message.Offset) bool {
	if g.recent(at) || segment.Resident(b) {
		return true
	}
	if g.now {
		g.stopped = true
		return false
	}
	g.res.Cold = true
	return segment.Populate(b) == nil
}

func (g *gathering) endRun() {
	if g.runLen == 0 {
		return
	}
	g.run.Bytes = g.run.Bytes[:g.runLen:g.runLen]
	g.res.Views = append(g.res.Views, g.run)
	g.run, g.runLen = segment.View{}, 0
}

// whole is the light check of what is served: the body's CRC is the scrub's and the client's.
func whole(b []byte, entry consumequeue.Entry) bool {
	size, ok := message.Peek(b, entry.Offset)
	return ok && size == int(entry.Size)
}

// Queue returns a queue, nil if absent. No allocation.
func (s *Store) Queue(topic []byte, queueID int32) *consumequeue.Queue {
	return s.queues.Find(topic, queueID)
}

// Queues calls fn for every queue until it returns false.
func (s *Store) Queues(fn func(*consumequeue.Queue) bool) { s.queues.Range(fn) }

// Record views the one whole record at a position; false when there is none, or the disk cannot read it.
func (s *Store) Record(at message.Offset) (view segment.View, ok bool) {
	var r message.Record
	return s.record(at, &r)
}

// record is Record that also decodes it, into slices of the view.
func (s *Store) record(at message.Offset, r *message.Record) (view segment.View, ok bool) {
	s.life.RLock()
	defer s.life.RUnlock()
	readable := s.readable()
	if s.closed || at < s.log.Min() || at+4 > readable {
		return segment.View{}, false
	}
	head, ok := s.log.View(at, 4)
	if !ok {
		return segment.View{}, false
	}
	size := sizeOf(head.Bytes)
	head.Release()
	if size <= 0 || at+message.Offset(size) > readable {
		return segment.View{}, false
	}
	view, ok = s.log.View(at, size)
	if !ok {
		return segment.View{}, false
	}
	if kind, err := check(view.Bytes, at, r); err != nil || kind != message.Whole || int(r.Size) != size {
		view.Release()
		return segment.View{}, false
	}
	return view, true
}

// sizeOf is the size field of a record, 0 if there is none to be read.
func sizeOf(head []byte) int {
	size, err := 0, error(nil)
	func() {
		defer segment.CatchFault(&err, "engine", debug.SetPanicOnFault(true))
		if len(head) >= 4 {
			size = message.Size(head)
		}
	}()
	return size
}

// check is message.Check of bytes that may not be in memory: what cannot be read is not whole.
func check(b []byte, at message.Offset, r *message.Record) (kind message.Kind, err error) {
	defer segment.CatchFault(&err, "engine: record", debug.SetPanicOnFault(true))
	return message.Check(b, at, r)
}
