package engine

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"ringmq/engine/checkpoint"
	"ringmq/engine/commitlog"
	"ringmq/engine/consumequeue"
	"ringmq/engine/dispatch"
	"ringmq/engine/message"
	"ringmq/engine/segment"
)

// Recovery tells what Open found and did.
type Recovery struct {
	Clean        bool // the last stop was complete: there was no abort file
	FirstOpening bool // there was no mark that can be believed: every record was checked
	From, End    message.Offset
	Records      int64              // walked
	CutBytes     int64              // behind the end, kept below ringmq/cut
	Dropped      int                // queue entries without a record
	Twice        int                // numbers of queues that another record claims as well
	Damaged      []commitlog.Damage // known, in the order of the log; not more than fit into memory
	DamagedCount int                // found by this walk
	Phases       []Phase

	position dispatch.Position
}

// Phase is one step of Open.
type Phase struct {
	Name string
	Took time.Duration
}

// Recovery is how the store was opened.
func (s *Store) Recovery() Recovery { return s.recovery }

// walk is where recovery begins and from where on a record that is not whole is the torn end instead of damage.
type walk struct {
	from     message.Offset
	boundary message.Offset
}

// known is up to where the device has the log for certain.
func (s *Store) known() message.Offset { return max(s.mark.Flushed, 0) }

func (s *Store) loadLog() error {
	storage, err := s.logStorage()
	if err != nil {
		return err
	}
	o := &s.options
	s.log, err = commitlog.Open(commitlog.Options{
		Storage: storage, SegmentSize: o.SegmentSize, MappedAppend: o.MappedAppend, PoolSize: o.PoolSize, PoolKey: o.poolKey(),
		LockPool: !o.UnlockedPool, PoolLocked: s.poolLocked,
		RoomWanted: func() { s.flusher.Hurry() }, LimitNear: func() { s.keeper.LimitNear() },
		ZeroAhead: o.ZeroAhead, ZeroBytesPerSecond: zeroRate, Segments: &s.segmentMetrics, Now: o.Now, Logger: o.Logger,
	})
	return err
}

func (s *Store) logStorage() (segment.Storage, error) {
	if s.options.Storage != nil {
		return s.options.Storage(s.options.LogDir)
	}
	return segment.NewDir(s.options.LogDir, segment.DirOptions{Writable: s.options.MappedAppend, Metrics: &s.segmentMetrics})
}

func (s *Store) loadQueues() (err error) {
	s.loadMark()
	known := make(map[consumequeue.ID]message.QueueOffset, len(s.mark.Queues))
	for _, q := range s.mark.Queues {
		if s.everything {
			break
		}
		known[consumequeue.ID{Topic: q.Topic, QueueID: q.QueueID}] = q.Max
	}
	s.queues, err = consumequeue.Open(consumequeue.Options{
		Dir: s.paths.queues, FileSize: s.options.QueueFileSize, MaxOpen: s.options.MaxOpenQueues, Sync: derivedSync{s}, Logger: s.options.Logger,
		Metrics: &s.queueMetrics,
		Known:   func(id consumequeue.ID) message.QueueOffset { return known[id] },
		Clean:   s.recovery.Clean && s.mark.Clean && s.lock.LastWasOwn(),
	})
	return err
}

// recover puts the files right and lets the log grow from there on.
func (s *Store) recover() error {
	if err := s.recoverFiles(); err != nil {
		return err
	}
	return s.log.Start(s.recovery.End)
}

// recoverFiles is one algorithm for every store: clean or not, ours or a Java broker's. From where the mark says that queues are complete, every
// record is checked and gets its entry; the first one that is not whole, at or above the boundary, is the end. What stands behind the
// end is kept aside and erased, so that it cannot come back; entries of it are dropped. A lost or wrong mark costs time only, and the
// checkpoint of a Java broker is not believed at all.
func (s *Store) recoverFiles() (err error) {
	s.queues.SetLogMin(s.log.Min())
	// What a process that was killed left in the page cache is made durable before anything is built on it, and after an unclean stop it is
	// read from the device: after a write-back that failed the cache has records which the device never took.
	if err := s.log.Refresh(s.known(), !s.recovery.Clean); err != nil {
		return err
	}
	s.openIndex()
	w, last := s.plan()
	known := s.loadDamage()
	if w.from, err = s.fromHealed(w.from, known); err != nil {
		return err
	}
	w.from = s.withKeys(w.from)
	if s.everything {
		w.from = s.log.Min()
	}
	s.recovery.From = w.from
	if s.recovery.Clean {
		s.options.Logger.Info("the last stop was clean", "walk from", w.from)
	} else {
		s.options.Logger.Warn("the last stop was not clean", "walk from", w.from)
	}
	end, err := s.walk(w, last)
	if err != nil {
		return err
	}
	s.keepDamage(known, w.from)
	if err := s.cut(end); err != nil {
		return err
	}
	s.queues.SetLogMin(s.log.Min())
	if err := s.flushRecovered(); err != nil {
		return err
	}
	s.queues.Range(func(q *consumequeue.Queue) bool {
		q.Next = q.Max()
		return true
	})
	s.recovery.End = end
	s.recovery.position.Dispatched = end
	return nil
}

// plan decides from the mark where to begin. last is the last record that is known to stand before that place.
func (s *Store) plan() (walk, dispatch.Position) {
	mark := &s.mark
	w := walk{from: s.log.Min(), boundary: s.boundary()}
	if mark.Flushed < 0 {
		s.recovery.FirstOpening = true
		if s.log.Segments().First() != nil {
			s.options.Logger.Info("no valid mark, so this is as a first opening: every record is checked, which the next start will not have to do")
		}
	}
	if mark.Last < 0 {
		return w, dispatch.Position{Last: -1}
	}
	w.from = s.completeUpTo(mark, max(mark.Dispatched, w.from))
	return w, dispatch.Position{Last: mark.Last, LastStoreTimeMS: mark.LastStoreTimeMS}
}

// boundary is from where on a record that is not whole is the torn end. A mark that is believed says it, whether it knows of a record or not:
// below the last segment, too, any page may be torn that was not flushed.
func (s *Store) boundary() message.Offset {
	if s.mark.Flushed < 0 {
		return s.log.LastUsed()
	}
	return s.mark.Boundary(s.log.LastUsed(), s.lock.LastWasJava())
}

// loadMark reads the mark and keeps it if it is of this log; else Flushed is -1. One that was saved before the dispatcher had come to a record
// that the device has, as of a log that was empty, names none: then the lock file has to say that nobody else has had the store since.
func (s *Store) loadMark() {
	mark, ok, err := checkpoint.LoadMark(s.paths.mark)
	if ok = ok && (mark.Last >= 0 || s.lock.LastWasOwn()); ok {
		err = s.stands(&mark)
	}
	if err != nil {
		s.options.Logger.Warn("the mark is not usable", "error", err)
	}
	if !ok || err != nil {
		mark = checkpoint.Mark{Last: -1, Flushed: -1}
	}
	if mark.Last < 0 {
		mark.Queues = nil // every record is looked at anyway
	}
	s.mark = mark
}

// stands says why a mark is not of this log.
func (s *Store) stands(mark *checkpoint.Mark) error {
	reaches, end := mark.Dispatched, message.Offset(0)
	if mark.Last < 0 {
		reaches = mark.Flushed
	}
	if last := s.log.Segments().Last(); last != nil {
		end = message.Offset(last.End())
	}
	if reaches > end {
		return fmt.Errorf("engine: the log ends before %d, it says that all is there up to that", reaches)
	}
	if mark.Last < 0 {
		return nil
	}
	return s.recordStands(mark.Last, mark.LastStoreTimeMS)
}

// recordStands says why no record that was stored then begins at a position. It is known by its head, whatever has become of its body.
func (s *Store) recordStands(at message.Offset, storeMS int64) (err error) {
	view, ok := s.log.Segments().View(int64(at), int(s.options.SegmentSize))
	if !ok {
		return fmt.Errorf("engine: the log has no segment with offset %d", at)
	}
	defer view.Release()
	defer segment.CatchFault(&err, "engine: record", debug.SetPanicOnFault(true))
	if _, ok := message.Peek(view.Bytes, at); !ok {
		return fmt.Errorf("engine: no record begins at %d", at)
	}
	if ms, ok := message.StoreTime(view.Bytes); !ok || ms != storeMS {
		return fmt.Errorf("engine: the record at %d was stored at %d, %d is expected", at, ms, storeMS)
	}
	return nil
}

// completeUpTo lowers from to where every queue still has the entries that the mark says it had.
func (s *Store) completeUpTo(mark *checkpoint.Mark, from message.Offset) message.Offset {
	for i := range mark.Queues {
		had := &mark.Queues[i]
		q := s.queues.Find([]byte(had.Topic), had.QueueID)
		complete := from
		switch {
		case q == nil || q.Max() == q.First():
			complete = s.log.Min()
		case q.First() > had.Min && !s.startsBelowMin(q):
			complete = s.log.Min()
		case q.Max() < had.Max:
			complete = max(q.LastOffset(), s.log.Min())
		}
		if complete < from {
			s.options.Logger.Warn("a consume queue has lost entries, they are built again", "topic", had.Topic, "queue", had.QueueID,
				"had", fmt.Sprintf("%d to %d", had.Min, had.Max), "walk from", complete)
			from = complete
		}
	}
	return from
}

// startsBelowMin: the queue's first entry is of a record that retention has removed, so every entry before it is, too.
func (s *Store) startsBelowMin(q *consumequeue.Queue) bool {
	var first [1]consumequeue.Entry
	n, err := q.Read(q.First(), first[:])
	return err == nil && n == 1 && first[0].Offset < s.log.Min()
}

// walk checks and dispatches from w.from to the end of the log.
func (s *Store) walk(w walk, last dispatch.Position) (message.Offset, error) {
	entries := &dispatch.Entries{
		Queues: s.queues, Delays: s.delays, Logger: s.options.Logger,
		Found: dispatch.NewFound(s.options.QueueFileSize/entrySize, s.taken),
	}
	keys := s.keysFrom(w.from)
	progress := s.progress(w.from)
	defer progress.stop()
	each := func(r *message.Record) error {
		if _, _, err := entries.Put(r); err != nil {
			return err
		}
		keys.put(r)
		last.Last, last.LastStoreTimeMS = r.Offset, r.StoreTime
		s.recovery.Records++
		progress.at.Store(int64(r.Offset))
		return nil
	}
	scan := s.log.ScanForeign
	if s.lock.LastWasOwn() {
		scan = s.log.Scan
	}
	end, err := scan(w.from, w.boundary, each, s.foundDamage)
	if err != nil {
		return 0, err
	}
	if n := s.recovery.DamagedCount; n > linesOfDamage {
		s.options.Logger.Error("the commit log is damaged at many places", "places", n)
	}
	if err := keys.reached(end); err != nil {
		return 0, err
	}
	if known := s.known(); end < known {
		s.options.Logger.Error("the commit log ends before what was flushed: bytes were lost", "end", end, "flushed", known)
	}
	s.log.RaiseStoreTime(last.LastStoreTimeMS)
	s.recovery.position = last
	return end, nil
}

// cut keeps aside and erases what stands behind the end, in the log and in the queues.
func (s *Store) cut(end message.Offset) error {
	saved := int64(0)
	s.dropSeals(end)
	if !s.nothingBehind(end) {
		var err error
		if saved, err = s.log.Cut(end, s.limit(end), s.paths.cut); err != nil {
			return err
		}
	}
	if saved > 0 {
		s.options.Logger.Warn("the torn end of the commit log was cut and kept aside", "end", end, "bytes", saved, "folder", s.paths.cut)
	}
	dropped, err := s.queues.Cut(end)
	if err != nil {
		return err
	}
	if dropped > 0 {
		s.options.Logger.Warn("queue entries without a record were dropped", "entries", dropped, "end", end)
	}
	s.recovery.CutBytes, s.recovery.Dropped = saved, dropped
	return nil
}

// nothingBehind: a clean stop of ours left only zeros behind the end, so that gigabytes of them need not be read again. Another broker that
// came after it began to write right there, or in a segment ahead.
func (s *Store) nothingBehind(end message.Offset) bool {
	if !s.recovery.Clean || !s.mark.Clean || end != s.mark.Flushed {
		return false
	}
	return s.zerosBegin(end)
}

// limit is a position at and behind which there are only zeros, 0 if none is known. No append went beyond the mark's Limit, and a start
// left zeros behind the end; unless a Java broker has had the store since, which knows of no limit.
func (s *Store) limit(end message.Offset) message.Offset {
	limit := s.mark.Limit
	if limit < end || !s.lock.LastWasOwn() || !s.zerosBegin(limit) {
		return 0
	}
	return limit
}

// zerosBegin looks at the first bytes at from, and of every segment behind it.
func (s *Store) zerosBegin(from message.Offset) bool {
	var zeros [4 * kib]byte
	for _, f := range s.log.Segments().Files() {
		at := max(int64(from), f.Base()) - f.Base()
		if at >= f.Size() {
			continue
		}
		if !allZero(f.Bytes()[at:min(at+int64(len(zeros)), f.Size())], zeros[:]) {
			return false
		}
	}
	return true
}

// allZero tells whether b, which is not longer than zeros, can be read and is zero.
func allZero(b, zeros []byte) (yes bool) {
	var err error
	func() {
		defer segment.CatchFault(&err, "engine", debug.SetPanicOnFault(true))
		yes = bytes.Equal(b, zeros[:len(b)])
	}()
	return yes && err == nil
}

// reporter tells each second how far a long walk has come.
type reporter struct {
	at   atomic.Int64
	quit chan struct{}
	done chan struct{}
}

func (s *Store) progress(from message.Offset) *reporter {
	p := &reporter{quit: make(chan struct{}), done: make(chan struct{})}
	p.at.Store(int64(from))
	to := int64(0)
	if last := s.log.Segments().Last(); last != nil {
		to = last.End()
	}
	go p.run(s.options.Logger, to)
	return p
}

func (p *reporter) run(logger *slog.Logger, to int64) {
	defer close(p.done)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			logger.Info("store: recovering", "at", p.at.Load(), "log files end at", to)
		case <-p.quit:
			return
		}
	}
}

func (p *reporter) stop() {
	close(p.quit)
	<-p.done
}
