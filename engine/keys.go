package engine

import (
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"ringmq/engine/commitlog"
	"ringmq/engine/index"
	"ringmq/engine/message"
	"ringmq/engine/segment"
)

const (
	// walkForKeys is how much further back recovery begins for the sake of the index. What lies further is caught up with when the store is
	// open: until then old messages are not found by key.
	walkForKeys = 256 * mib

	// keysRetryAfter is the pause before the index is tried again that could not be written: the disk may be full.
	keysRetryAfter = 5 * time.Second

	// handOver is how far the index may be behind for the dispatcher to close the gap by itself. While messages come without a pause nobody
	// else can: when the last record before the dispatcher's has been put, that one has been passed over.
	handOver = 256 * kib
)

// openIndex opens the index of keys. Without one, messages are taken all the same.
func (s *Store) openIndex() {
	o := &s.options
	if o.NoIndex {
		return
	}
	x, err := index.Open(index.Options{
		Dir: s.paths.index, Progress: s.paths.indexed, Slots: int32(o.IndexSlots), Entries: int32(o.IndexEntries),
		Now: o.Now, Logger: o.Logger, Metrics: &s.indexMetrics, Sync: derivedSync{s}.syncer().SyncFds,
	}, index.Found{
		Clean: s.recovery.Clean && s.mark.Clean && s.lock.LastWasOwn(), Min: s.log.Min(),
		Stands: func(at message.Offset, storeMS int64) bool { return s.recordStands(at, storeMS) == nil },
		Within: func(position message.Offset) bool {
			last := s.log.Segments().Last()
			return last != nil && position <= message.Offset(last.End()) || position <= s.log.Min()
		},
	})
	if err != nil {
		o.Logger.Error("there is no key index in this run: messages are taken, and not found by key", "error", err)
		return
	}
	s.index = x
}

func (s *Store) closeIndex() error {
	if s.index == nil {
		return nil
	}
	return s.index.Close()
}

// withKeys lowers from to where the index ends, if that is not far.
func (s *Store) withKeys(from message.Offset) message.Offset {
	if s.index == nil {
		return from
	}
	if next := s.index.Next(); next < from && int64(from-next) <= walkForKeys {
		return next
	}
	return from
}

// walkedKeys puts into the index what recovery walks by, as long as there is no gap before it.
type walkedKeys struct {
	store     *Store
	following bool
}

func (s *Store) keysFrom(from message.Offset) *walkedKeys {
	return &walkedKeys{store: s, following: s.index != nil && s.index.Next() >= from}
}

func (k *walkedKeys) put(r *message.Record) {
	if k.following {
		k.following = k.store.index.PutNext(r)
	}
}

// reached: the log ends here. An index that goes on behind it is of another log.
func (k *walkedKeys) reached(end message.Offset) error {
	x := k.store.index
	switch {
	case x == nil:
	case x.Next() > end:
		k.store.options.Logger.Warn("the key index goes on behind the end of the log; it is built anew", "from", x.Next(), "end", end)
		return x.Reset(k.store.log.Min())
	case k.following:
		x.Pass(x.Next(), end)
	}
	return nil
}

// flushRecovered makes durable what was derived from the log. The log is by then.
func (s *Store) flushRecovered() error {
	due := false
	if s.index != nil {
		_, due = s.index.Prepare(true)
	}
	err := s.queues.Flush()
	if due {
		s.index.Finish()
	}
	return err
}

// derivedSync syncs the files of the queues in one batch with those of the index that are ready for it.
type derivedSync struct{ store *Store }

// SyncFds says how it went for the queues; the index is told by itself.
func (d derivedSync) SyncFds(fds []int) error {
	if x := d.store.index; x != nil {
		return x.SyncWith(fds, d.syncer().SyncFdsEach)
	}
	return d.syncer().SyncFds(fds)
}

func (d derivedSync) syncer() DerivedSyncer {
	if syncer := d.store.options.DerivedSyncer; syncer != nil {
		return syncer
	}
	return d.store.queueRing
}

// catchUp is a goroutine that puts into the index what the dispatcher passed over: because the index was behind when the store was opened,
// or could not be written for a while.
type catchUp struct {
	wake    chan struct{}
	stop    chan struct{}
	done    sync.WaitGroup
	waiting atomic.Bool // the index could not be written, and is tried again later
	rebuilt atomic.Bool // it was broken, and is built anew
}

func newCatchUp() catchUp {
	return catchUp{wake: make(chan struct{}, 1), stop: make(chan struct{})}
}

// rebuildIndex has the index built anew from the log in the background, once in a run: if it breaks again, the disk is at fault.
func (s *Store) rebuildIndex(reason error) {
	if !s.keys.rebuilt.CompareAndSwap(false, true) {
		return
	}
	s.options.Logger.Error("a key file is broken; the key index is built anew from the log, until then old messages are not found by key", "reason", reason)
	if err := s.index.Reset(s.log.Min()); err != nil {
		s.options.Logger.Error("the broken key index cannot be removed", "error", err)
		return
	}
	s.keys.tell()
}

// tell wakes it; it never blocks.
func (c *catchUp) tell() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *catchUp) start(s *Store) {
	if s.index == nil {
		return
	}
	if next, end := s.index.Next(), s.recovery.End; next < end {
		s.options.Logger.Info("the key index is behind the log; it catches up in the background", "from", next, "to", end)
	}
	c.tell()
	c.done.Go(func() { c.run(s) })
}

func (c *catchUp) close() {
	close(c.stop)
	c.done.Wait()
}

func (c *catchUp) run(s *Store) {
	for {
		select {
		case <-c.stop:
			return
		case <-c.wake:
		}
		for s.index.Next() < s.dispatcher.Dispatched() {
			if s.indexSome(s.index.Next(), s.dispatcher.Dispatched(), c.stop) {
				continue
			}
			c.waiting.Store(true)
			select {
			case <-c.stop:
				return
			case <-time.After(keysRetryAfter):
			}
			c.waiting.Store(false)
		}
	}
}

// keysBehind is told by the dispatcher that the index missed the record at at. If it is not far behind, what is missing is put here and now,
// which is the end of catching up.
func (s *Store) keysBehind(at message.Offset) bool {
	for next := s.index.Next(); next < at; next = s.index.Next() {
		if int64(at-next) > handOver || s.keys.waiting.Load() || !s.indexSome(next, at, s.keys.stop) {
			s.keys.tell()
			return false
		}
	}
	return true
}

// indexSome puts the records in [from, to) that stand in from's segment. False when it is to stop or the index cannot be written.
func (s *Store) indexSome(from, to message.Offset, stop <-chan struct{}) bool {
	size := message.Offset(s.options.SegmentSize)
	segmentEnd := from - from%size + size
	view, ok := s.log.View(from, int(min(to, segmentEnd)-from))
	if !ok { // removed, or missing
		s.index.Pass(from, min(max(segmentEnd, s.log.Min()), to))
		return true
	}
	defer view.Release()
	var r message.Record
	at := from
	for count := 0; at < to && at < segmentEnd && int(at-from) < len(view.Bytes); count++ {
		if count%1024 == 0 {
			select {
			case <-stop:
				return false
			default:
			}
		}
		rest := view.Bytes[at-from:]
		kind, err := checkFrame(rest, at, &r)
		switch {
		case err == nil && kind == message.Whole:
			if !s.index.Put(&r) {
				return false
			}
			at += message.Offset(r.Size)
		case err == nil && kind == message.Blank:
			s.index.Pass(at, segmentEnd)
			at = segmentEnd
		case at > from && int64(len(view.Bytes)) < int64(min(to, segmentEnd)-from):
			return true // the view broke off in a record: the next one begins with it
		default: // damage, which recovery has told
			next := at + message.Offset(commitlog.NextWhole(rest, at, 1, len(rest)))
			s.index.Pass(at, next)
			at = next
		}
	}
	return true
}

// checkFrame is check without the body's CRC, which the dispatcher or recovery has seen to: so catching up is faster than what it follows. A
// key of a record that was damaged since is found out by the query.
func checkFrame(b []byte, at message.Offset, r *message.Record) (kind message.Kind, err error) {
	defer segment.CatchFault(&err, "engine: record", debug.SetPanicOnFault(true))
	if size, ok := message.Peek(b, at); ok && message.Decode(b[:size], r) == nil {
		return message.Whole, nil
	}
	return message.Check(b, at, r)
}
