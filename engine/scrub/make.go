package scrub

import (
	"errors"
	"fmt"
	"runtime/debug"

	"ringmq/engine/commitlog"
	"ringmq/engine/message"
	"ringmq/engine/seal"
	"ringmq/engine/segment"
)

// errStopped ends a walk because the scrubber is to end, or is turned off.
var errStopped = errors.New("scrub: stopped")

// making is one walk over a segment for its seal. Blocks are brought into memory and hashed ahead of the records in them, and what was not in
// memory before is let go behind both.
type making struct {
	s      *Scrubber
	f      *segment.File
	maker  *seal.Maker
	cached []bool // by segment.CacheUnit
	freed  int    // units behind which we are
	pace   pace
	isNew  bool
}

// make walks a segment and makes its seal, without a word about what it finds.
func (s *Scrubber) make(f *segment.File) (seal.Seal, error) {
	m := &making{
		s: s, f: f, maker: seal.NewMaker(message.Offset(f.Base()), f.Size()), cached: f.Cached(), isNew: s.isNew(f),
	}
	if err := m.hashTo(seal.BlockSize); err != nil {
		return seal.Seal{}, err
	}
	each := func(r *message.Record) error {
		m.maker.Record(r)
		end := int64(r.Offset) + int64(r.Size) - f.Base()
		m.free(end)
		return m.hashTo(end + seal.BlockSize)
	}
	damaged := func(d commitlog.Damage) { m.maker.Damaged(d.From, d.To) }
	// A Java broker goes on behind a record with zeros in its properties. What it has left is older than this run.
	old := f.Base() <= int64(s.o.Began)
	if err := s.o.Log.Inspect(f, old, each, damaged); err != nil {
		return seal.Seal{}, err
	}
	if err := m.hashTo(f.Size()); err != nil {
		return seal.Seal{}, err
	}
	m.free(f.Size())
	return m.maker.Seal(), nil
}

// hashTo hashes the blocks that begin before byte limit of the segment.
func (m *making) hashTo(limit int64) error {
	for {
		from, to := m.maker.Next()
		if from >= limit || from == to {
			return nil
		}
		if err := m.hash(m.f.Bytes()[from:to]); err != nil {
			return &unreadable{m.f, seal.Stretch{From: message.Offset(m.f.Base() + from), To: message.Offset(m.f.Base() + to)}, err}
		}
		m.s.o.Metrics.SealedBytes.Add(to - from)
		rate := m.rate(from)
		if rate <= 0 || !m.s.pause(&m.pace, to-from, rate, true) {
			return errStopped
		}
	}
}

func (m *making) hash(b []byte) (err error) {
	if err := segment.Populate(b); err != nil {
		return err
	}
	defer segment.CatchFault(&err, "scrub", debug.SetPanicOnFault(true))
	m.maker.Block(b)
	return nil
}

// rate is that of memory for what is in memory, or has just been, and of the device for the rest.
func (m *making) rate(from int64) int64 {
	device := m.s.o.Settings().BytesPerSecond
	switch {
	case m.isNew, m.cached[from/segment.CacheUnit] && device > 0:
		return max(memoryRate, device)
	default:
		return device
	}
}

// free lets the page cache drop the units before byte upTo that only we have read.
func (m *making) free(upTo int64) {
	for m.freed < len(m.cached) {
		from := int64(m.freed) * segment.CacheUnit
		to := min(from+segment.CacheUnit, m.f.Size())
		if next, _ := m.maker.Next(); to > upTo || to > next {
			return
		}
		if !m.cached[m.freed] {
			m.f.Uncache(from, to)
		}
		m.freed++
	}
}

// unreadable is a block that the device cannot read.
type unreadable struct {
	file  *segment.File
	block seal.Stretch
	err   error
}

func (u *unreadable) Error() string {
	return fmt.Sprintf("scrub: segment %s cannot be read at %d to %d: %v", u.file.Name(), u.block.From, u.block.To, u.err)
}

func (u *unreadable) Unwrap() error { return u.err }

// seal makes a segment's first seal. What holds no whole record already is told, and stands in the seal.
func (s *Scrubber) seal(f *segment.File, st *state) {
	sl, err := s.make(f)
	if err == nil {
		err = s.save(f, &sl)
	}
	if s.failed(f, st, err) {
		return
	}
	st.sealed, st.seen, s.failing = true, s.o.Now(), false
	s.o.Metrics.Sealed.Add(1)
	s.o.Logger.Debug("a segment of the commit log was sealed", "segment", f.Name(), "records", sl.Records)
	s.tellSealed(f, &sl)
}

// failed deals with an error on the way. It is tried again in the next round, and one of a row of errors is told.
func (s *Scrubber) failed(f *segment.File, st *state, err error) bool {
	switch {
	case err == nil:
		return false
	case errors.Is(err, errStopped), errors.Is(err, segment.ErrClosed), s.removed(f):
		return true // no end of it, or no segment any more
	}
	st.seen = s.o.Now()
	s.o.Metrics.Failed.Add(1)
	if u := (*unreadable)(nil); errors.As(err, &u) {
		s.tell(f, u.block, "the device cannot read it: "+u.err.Error(), false)
		return true
	}
	if !s.failing {
		s.failing = true
		s.o.Logger.Warn("a segment of the commit log could not be sealed, or compared with its seal; it is tried again in the next round",
			"segment", f.Name(), "error", err)
	}
	return true
}

// tellSealed tells of what was damaged before the segment was sealed.
func (s *Scrubber) tellSealed(f *segment.File, sl *seal.Seal) {
	for _, d := range sl.Damaged {
		s.tell(f, d, "no whole record stood here when the segment was sealed", true)
	}
}
