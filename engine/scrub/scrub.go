// Package scrub seals full segments of the log and reads sealed ones again, at a bounded rate, to find bytes that have changed on the device.
// It tells what it finds and goes on: damage is never a reason to stop, to refuse or to remove anything.
//
// One goroutine between Start and Close does all of it. A segment gets its seal when it is full, flushed and left by the appender; its hashes are
// made from the mapping, while its records are checked in full, so that a seal vouches for whole records only: what is not whole is listed in the
// seal as damaged, and told. A sealed segment is read from the device, around the page cache.
//
// Nothing that happens here is needed by anybody else. A seal goes before its segment does, or before its bytes change: see Retire, and seal.Keep
// before the log is cut.
package scrub

import (
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"ringmq/engine/commitlog"
	"ringmq/engine/message"
	"ringmq/engine/seal"
	"ringmq/engine/segment"
	"ringmq/internal/durable"
)

// Log is what the scrub asks of the commit log.
type Log interface {
	Segments() *segment.Set
	Flushed() message.Offset
	End() message.Offset
	Inspect(f *segment.File, zerosInText bool, each func(r *message.Record) error, damaged func(commitlog.Damage)) error
}

var _ Log = (*commitlog.Log)(nil)

// Options of a Scrubber; all are needed but Sealed and Metrics.
type Options struct {
	Log      Log
	LogDir   string // names the files of the log in lines
	Dir      string // of the seals; made when it is needed
	Sealed   []seal.File
	Began    message.Offset // where the log ended at the start of this run
	Foreign  bool           // another broker may have had the store: every seal is compared at once
	Settings func() Settings
	Now      func() int64 // ms since 1970
	Metrics  *Metrics
	Logger   *slog.Logger
}

// Scrubber is one goroutine between Start and Close.
type Scrubber struct {
	o     Options
	wake  chan struct{}
	stop  chan struct{}
	done  sync.WaitGroup
	ended atomic.Int64 // segments that were full when Advanced looked last

	// changing is held while a seal is written or damage is told, and while a segment and its seal are removed: so neither is done for a segment
	// that is gone.
	changing sync.Mutex

	damages damages

	// The goroutine's.
	segments map[message.Offset]*state
	buffer   []byte // a block, aligned
	made     bool   // the folder of the seals
	failing  bool   // the last attempt to read or to seal a segment failed, and was told
}

// state is what is known of a full segment.
type state struct {
	sealed bool
	seen   int64 // ms: when it was read last, or never
}

// never was it read: it is due before all that were.
const never = math.MinInt64

// due is when a segment is to be read, in ms.
func (st *state) due(s *Settings) int64 {
	if st.seen == never {
		return never
	}
	return st.seen + s.IntervalMS
}

// New makes a scrubber that does nothing yet.
func New(o Options) *Scrubber {
	if o.Metrics == nil {
		o.Metrics = new(Metrics)
	}
	s := &Scrubber{
		o: o, wake: make(chan struct{}, 1), stop: make(chan struct{}), segments: make(map[message.Offset]*state),
		damages: damages{logger: o.Logger, metrics: o.Metrics},
	}
	for _, f := range o.Sealed {
		s.segments[f.Base] = &state{sealed: true, seen: f.Modified.UnixMilli()}
	}
	return s
}

// Start lets it run.
func (s *Scrubber) Start() { s.done.Go(s.run) }

// Close ends it, within the work on one block.
func (s *Scrubber) Close() {
	close(s.stop)
	s.done.Wait()
}

// Advanced says that the log has grown or was flushed. It never blocks, and mostly compares two numbers.
func (s *Scrubber) Advanced() {
	full := min(int64(s.o.Log.Flushed()), int64(s.o.Log.End())-1) / s.o.Log.Segments().Size()
	if s.ended.Swap(full) != full {
		s.rouse()
	}
}

// SettingsChanged has the settings asked for anew by a scrubber that sleeps. It never blocks.
func (s *Scrubber) SettingsChanged() { s.rouse() }

func (s *Scrubber) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Retire removes the seal of the segment that begins at base, then calls remove, which removes the segment. That a seal could not be removed is
// told, and no reason to keep a segment: the next start removes it.
func (s *Scrubber) Retire(base message.Offset, remove func() error) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if err := seal.Remove(s.o.Dir, base); err != nil {
		s.o.Logger.Warn("the seal of a segment that is removed stays behind until the next start", "segment", segment.Name(int64(base)), "error", err)
	}
	if err := remove(); err != nil {
		return err
	}
	s.damages.forget(base, false)
	return nil
}

// Damages are the stretches of the log that were found damaged in this run and are still there.
func (s *Scrubber) Damages() []Damage { return s.damages.list() }

func (s *Scrubber) run() {
	buffer, free, err := segment.AlignedBuffer(seal.BlockSize)
	if err != nil {
		s.o.Logger.Error("there are no seals and no scrub in this run", "error", err)
		return
	}
	defer free()
	s.buffer = buffer
	s.compareTimes()
	for !s.stopped() {
		s.sealNew()
		f, wait := s.next()
		if f != nil {
			s.look(f)
			continue
		}
		s.sleep(wait)
	}
}

// compareTimes makes those seals due at once whose segment may have been written since.
func (s *Scrubber) compareTimes() {
	for base, st := range s.segments {
		info, err := os.Stat(s.file(base))
		if s.o.Foreign || err == nil && info.ModTime().UnixMilli() > st.seen {
			st.seen = never
		}
	}
}

func (s *Scrubber) file(base message.Offset) string {
	return filepath.Join(s.o.LogDir, segment.Name(int64(base)))
}

// full tells whether a segment is at its end: nothing of it will be written any more, and the device has it.
func (s *Scrubber) full(f *segment.File) bool {
	return f.End() <= int64(s.o.Log.Flushed()) && f.End() < int64(s.o.Log.End())
}

// isNew: at least its end was written in this run.
func (s *Scrubber) isNew(f *segment.File) bool { return f.End() > int64(s.o.Began) }

// stateOf is what is known of a segment.
func (s *Scrubber) stateOf(f *segment.File) *state {
	st := s.segments[message.Offset(f.Base())]
	if st == nil {
		st = &state{seen: never}
		s.segments[message.Offset(f.Base())] = st
	}
	return st
}

// sealNew seals the segments that became full in this run. They come before everything else, for now they are in memory.
func (s *Scrubber) sealNew() {
	for _, f := range s.o.Log.Segments().Files() {
		if !s.isNew(f) || !s.full(f) || s.stopped() {
			continue
		}
		if st := s.stateOf(f); !st.sealed && st.seen == never {
			s.hold(f, func() { s.seal(f, st) })
		}
	}
}

// next is the segment to look at: first those without a seal, then those that were looked at longest ago; nil and how long there is nothing to do.
func (s *Scrubber) next() (*segment.File, time.Duration) {
	settings := s.o.Settings()
	if settings.BytesPerSecond <= 0 {
		return nil, askAgain
	}
	now := s.o.Now()
	var first *segment.File
	var firstDue int64
	files := s.o.Log.Segments().Files()
	for _, f := range files {
		if !s.full(f) {
			continue
		}
		st := s.stateOf(f)
		if st.seen > now { // the clock was set back: what it said means nothing
			st.seen = never
		}
		due := st.due(&settings)
		if first == nil || due < firstDue || due == firstDue && !st.sealed && s.stateOf(first).sealed {
			first, firstDue = f, due
		}
	}
	s.forgetRemoved(files)
	if first == nil {
		return nil, askAgain
	}
	if firstDue > now {
		return nil, time.Duration(min(firstDue-now, askAgain.Milliseconds())) * time.Millisecond
	}
	return first, 0
}

// forgetRemoved lets go of the states of segments that are gone.
func (s *Scrubber) forgetRemoved(files []*segment.File) {
	if len(files) == 0 || len(s.segments) <= len(files) {
		return
	}
	for base := range s.segments {
		if int64(base) < files[0].Base() {
			delete(s.segments, base)
		}
	}
}

// look seals a segment or compares it with its seal.
func (s *Scrubber) look(f *segment.File) {
	st := s.stateOf(f)
	if !s.hold(f, func() {
		if st.sealed {
			s.compare(f, st)
		} else {
			s.seal(f, st)
		}
	}) {
		delete(s.segments, message.Offset(f.Base())) // removed meanwhile
	}
}

func (s *Scrubber) hold(f *segment.File, do func()) bool {
	if !f.Hold() {
		return false
	}
	defer f.Release()
	do()
	return true
}

// save writes a seal, unless the segment has been removed meanwhile.
func (s *Scrubber) save(f *segment.File, sl *seal.Seal) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.removed(f) {
		return segment.ErrClosed
	}
	if !s.made {
		if err := durable.MkdirAll(s.o.Dir); err != nil {
			return err
		}
		s.made = true
	}
	if err := sl.Save(s.o.Dir); err != nil {
		return err
	}
	s.stamp(sl.Base, s.o.Now())
	return nil
}

// removed tells whether a segment is no part of the log any more. While changing is held that does not change.
func (s *Scrubber) removed(f *segment.File) bool { return s.o.Log.Segments().Find(f.Base()) != f }

// stamp dates a seal: its file's time tells the next run when its segment was looked at last. It need not be durable: to lose it costs reading.
func (s *Scrubber) stamp(base message.Offset, nowMS int64) {
	at := time.UnixMilli(nowMS)
	if err := os.Chtimes(seal.Path(s.o.Dir, base), at, at); err != nil {
		s.o.Logger.Debug("a seal could not be dated, or has gone with its segment", "error", err)
	}
}

func (s *Scrubber) stopped() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// sleep waits until there may be something to do.
func (s *Scrubber) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.wake:
	case <-s.stop:
	}
}
