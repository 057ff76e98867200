package flush

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"ringmq/engine/message"
	"ringmq/engine/segment"
)

// expireInterval is how far beyond its deadline a wait may be answered.
const expireInterval = 100 * time.Millisecond

// Service runs the committer, and with ASYNC_FLUSH the real-time flusher beside it.
type Service struct {
	Committed Queue // waits for page cache (or device)
	Flushed   Queue // waits for the device

	o       Options
	metrics Metrics
	files   []*segment.File // of the sync under way; of the goroutine that syncs
	failed  atomic.Pointer[error]

	awake   atomic.Bool   // wake has a token, or its taker has not begun its round yet
	due     atomic.Int64  // with Transient: no wake before End is there; of the committer
	wanted  atomic.Bool   // with Transient: whatever was appended is to be written out
	wake    chan struct{} // one slot: something was appended
	written chan struct{} // one slot: something was committed, for the flusher

	commitNow chan chan error // answered by the committer after a round
	flushNow  chan chan error // answered by the flusher when all that is committed is flushed

	flusherTold chan struct{} // one slot each: the settings have changed
	markerTold  chan struct{}

	started   bool
	closeOnce sync.Once
	committer task
	flusher   task
	marker    task
	expirer   task
	closed    chan struct{} // all goroutines have ended
}

// task is one goroutine that ends after stop is closed, and closes done.
type task struct{ stop, done chan struct{} }

func (t *task) run(f func()) {
	t.stop, t.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(t.done)
		f()
	}()
}

func (t *task) end() {
	if t.stop != nil {
		close(t.stop)
		<-t.done
	}
}

// New makes a Service that does nothing until Start. Waits may join before.
func New(o Options) *Service {
	if o.Transient && (o.Sync || o.SegmentSize <= 0) {
		panic("BUG: flush: the transient pool with SYNC_FLUSH, or without the size of a segment")
	}
	nothing := func() {}
	if o.Released == nil {
		o.Released = nothing
	}
	if o.Advanced == nil {
		o.Advanced = nothing
	}
	return &Service{
		o:           o,
		wake:        make(chan struct{}, 1),
		written:     make(chan struct{}, 1),
		commitNow:   make(chan chan error),
		flushNow:    make(chan chan error),
		flusherTold: make(chan struct{}, 1),
		markerTold:  make(chan struct{}, 1),
		closed:      make(chan struct{}),
	}
}

// Start runs the goroutines; the log has been started.
func (s *Service) Start() {
	s.started = true
	if s.o.Transient {
		s.committer.run(s.commitTransient)
	} else {
		s.committer.run(s.commit)
	}
	if !s.o.Sync {
		s.flusher.run(s.flush)
	}
	told := s.o.Log.Flushed()
	s.marker.run(func() { s.mark(told) })
	s.expirer.run(s.expire)
}

// Metrics are the counters of this service.
func (s *Service) Metrics() *Metrics { return &s.metrics }

// Wake says that something was appended; never blocks. Many calls during one round cost one atomic load each.
func (s *Service) Wake() {
	if s.o.Transient && int64(s.o.Log.End()) < s.due.Load() {
		return
	}
	s.token()
}

// token lets the committer have a look.
func (s *Service) token() {
	// The committer clears awake before it looks at End. So who finds it set has appended before that look.
	if s.awake.Load() || !s.awake.CompareAndSwap(false, true) {
		return
	}
	s.wake <- struct{}{} // one slot, and only the taker of the token clears awake
}

// SettingsChanged has the settings read anew by those who wait by them: a shorter interval does not begin behind the longer one that is
// under way. It never blocks.
func (s *Service) SettingsChanged() {
	if s.o.Transient {
		s.token()
	}
	for _, told := range []chan struct{}{s.flusherTold, s.markerTold} {
		select {
		case told <- struct{}{}:
		default:
		}
	}
}

// FlushAll returns nil when everything appended before the call is on the device. After Start only.
func (s *Service) FlushAll() error {
	if !s.started {
		return fmt.Errorf("%w: not started", ErrClosed)
	}
	if err := s.ask(s.commitNow); err != nil || s.o.Sync {
		return err
	}
	return s.ask(s.flushNow)
}

// ask has a goroutine do its round now and returns the outcome.
func (s *Service) ask(now chan chan error) error {
	reply := make(chan error, 1)
	select {
	case now <- reply:
		return <-reply
	case <-s.closed:
		return ErrClosed
	}
}

// Close flushes everything that was appended, answers every wait and ends the goroutines. It returns the error that latched
// the log, if one did. The caller has stopped appending.
func (s *Service) Close() error {
	s.closeOnce.Do(func() {
		s.marker.end() // first: it asks the flusher
		s.committer.end()
		s.flusher.end()
		s.expirer.end() // last: the others may hang in a sync until here
		close(s.closed)
		s.Committed.Fail(ErrClosed)
		s.Flushed.Fail(ErrClosed)
		s.o.Released()
	})
	return s.failure()
}

// failure is the error that stopped the service, nil while it works.
func (s *Service) failure() error {
	if p := s.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// fail latches the log and answers everybody; only the first failure counts. It returns that one.
func (s *Service) fail(err error) error {
	latched := fmt.Errorf("%w: %w", ErrLatched, err)
	if !s.failed.CompareAndSwap(nil, &latched) {
		return s.failure()
	}
	// In this order: an append that got past the latch finds the queue failed, or its wait is among those answered.
	s.o.Log.Latch(latched)
	s.metrics.Latched.Store(true)
	if s.Committed.Fail(latched)+s.Flushed.Fail(latched) > 0 {
		s.o.Released()
	}
	if s.o.Failed != nil {
		s.o.Failed(latched)
	}
	return latched
}

// released counts n answered waits and lets their replies go.
func (s *Service) released(n int) {
	if n == 0 {
		return
	}
	s.metrics.Released.Add(int64(n))
	raise(&s.metrics.ReleasedMax, int64(n))
	s.o.Released()
}

// expire answers overdue waits until it is stopped.
func (s *Service) expire() {
	ticker := time.NewTicker(expireInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-s.expirer.stop:
			return
		}
		now := s.o.Now()
		if n := s.Committed.Expire(now, ErrTimeout) + s.Flushed.Expire(now, ErrTimeout); n > 0 {
			s.metrics.TimedOut.Add(int64(n))
			s.o.Released()
		}
	}
}

// mark sees to it every thorough interval that everything committed is flushed, and tells up to where if that is more than
// told.
func (s *Service) mark(told message.Offset) {
	for {
		if !s.pauseThorough() {
			return
		}
		if !s.o.Sync && s.ask(s.flushNow) != nil {
			continue // stopped for good; nothing will be news any more
		}
		if flushed := s.o.Log.Flushed(); flushed > told && s.o.Thorough != nil {
			s.o.Thorough(flushed)
			told = flushed
		}
	}
}

// pauseThorough waits for the thorough interval, which may change meanwhile; false when the marker is to stop.
func (s *Service) pauseThorough() bool {
	begun := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(left(begun, s.o.Settings().FlushThoroughIntervalMS))
		select {
		case <-timer.C:
			return true
		case <-s.markerTold:
		case <-s.marker.stop:
			return false
		}
	}
}

// left is what is left of an interval, of at least a millisecond, that began then.
func left(begun time.Time, intervalMS int64) time.Duration {
	return time.Until(begun.Add(time.Duration(max(intervalMS, 1)) * time.Millisecond))
}

// pause waits for so many milliseconds, at least one; false if stop was closed meanwhile.
func pause(ms int64, stop <-chan struct{}) bool {
	timer := time.NewTimer(time.Duration(max(ms, 1)) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-stop:
		return false
	}
}
