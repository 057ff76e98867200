package commitlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"

	"ringmq/engine/message"
	"ringmq/engine/segment"
)

// Damage is a stretch of the log that holds no whole record.
type Damage struct {
	From, To message.Offset
	Reason   string // of its first byte
}

// Scan walks [from, end of files) and calls each for every whole record, in order; each may stop it by an error, and the
// record is valid only during the call. from is the boundary of a record or segment.
//
// Below mark, a position that is known to have been flushed, what is not whole is damage: it is skipped and reported to
// damaged (which may be nil), merged with what follows it at once, before the next record. A missing segment is damage too, and so
// is what the device cannot read.
// At or above mark the first place that is not whole is the end, whatever follows: a power cut writes pages back in any order.
// But if it is the device that cannot read it, and a whole record stands behind it, Scan fails: another attempt may read it.
// Scan never returns an end below mark, unless the files end before it.
//
// Before Start only.
func (l *Log) Scan(from, mark message.Offset, each func(r *message.Record) error, damaged func(Damage)) (message.Offset, error) {
	return l.scan(&scanner{mark: int64(mark), each: each, damaged: damaged}, from)
}

// ScanForeign is Scan of a log that a Java broker wrote last. That broker looks at no properties: a record whose properties were torn when it
// was killed is whole to it, and at its next start it goes on behind it. So a record with message.ErrZerosInText counts as whole here
// if another one follows.
func (l *Log) ScanForeign(from, mark message.Offset, each func(r *message.Record) error, damaged func(Damage)) (message.Offset, error) {
	return l.scan(&scanner{mark: int64(mark), each: each, damaged: damaged, foreign: true}, from)
}

func (l *Log) scan(s *scanner, from message.Offset) (message.Offset, error) {
	s.log = l
	defer func() { l.RaiseStoreTime(s.storeTimeMS) }()
	at := int64(from)
	for {
		var more bool
		var err error
		if f := l.set.Find(at); f != nil {
			at, more, err = s.segment(f, at)
		} else {
			at, more = s.gap(at)
		}
		if err != nil {
			return message.Offset(at), err
		}
		if !more {
			s.settle()
			return message.Offset(at), nil
		}
	}
}

// LastUsed is the first byte of the last segment that begins with anything but zeros, Min if there is none. In a store
// without a flush mark everything before it counts as flushed: its writer went on to another segment since.
func (l *Log) LastUsed() message.Offset {
	files := l.set.Files()
	for i := len(files) - 1; i >= 0; i-- {
		if begun(files[i]) {
			return message.Offset(files[i].Base())
		}
	}
	return l.Min()
}

// begun tells whether anything but zeros stands at the beginning of f; what cannot be read is something.
func begun(f *segment.File) bool {
	var err error
	head := func() uint64 {
		defer segment.CatchFault(&err, "", debug.SetPanicOnFault(true))
		return binary.BigEndian.Uint64(f.Bytes())
	}()
	return head != 0 || err != nil
}

// scanner is one Scan.
type scanner struct {
	log         *Log
	mark        int64
	at          int64 // the record looked at
	foreign     bool  // a Java broker wrote last
	each        func(r *message.Record) error
	damaged     func(Damage)
	record      message.Record
	pending     Damage // not yet reported, if it is not empty
	storeTimeMS int64  // the latest
}

// segment walks f from at on. It returns where the walk goes on, and whether it does.
func (s *scanner) segment(f *segment.File, at int64) (next int64, more bool, err error) {
	advise(f, sequential)
	defer advise(f, normal)
	for s.at = at; ; {
		more, err, unreadable := s.records(f)
		if unreadable != nil {
			more, err = s.passUnreadable(f)
		}
		if err != nil || !more || s.at >= f.End() {
			return s.at, more, err
		}
	}
}

// records walks f from s.at to its end, or to a place that is not whole at or above mark. It breaks off with unreadable when the record
// at s.at cannot be read.
func (s *scanner) records(f *segment.File) (more bool, err, unreadable error) {
	defer segment.CatchFault(&unreadable, "commitlog: read segment "+f.Name(), debug.SetPanicOnFault(true))
	b := f.Bytes()
	for f.End()-s.at >= message.BlankLen {
		kind, why := message.Check(b[s.at-f.Base():], message.Offset(s.at), &s.record)
		if s.foreign && errors.Is(why, message.ErrZerosInText) && s.goesOn(f, s.at+int64(s.record.Size)) {
			kind = message.Whole
		}
		switch kind {
		case message.Blank:
			s.at = f.End()
			return true, nil, nil
		case message.Whole:
			s.settle()
			s.storeTimeMS = max(s.storeTimeMS, s.record.StoreTime)
			if err := s.each(&s.record); err != nil {
				return false, err, nil
			}
			s.at += int64(s.record.Size)
		default:
			if s.at >= s.mark {
				return false, nil, nil
			}
			to := s.resync(f, s.at+1)
			s.damage(s.at, to, reason(kind, why))
			s.at = to
		}
	}
	// Too little room for an end record: only another writer leaves a segment like that.
	s.at = f.End()
	return true, nil, nil
}

// passUnreadable decides about a record at s.at that the device cannot read. Below mark it is damage. Above, it is the torn end if no whole
// record stands behind it, for a sector that was being written may be left unreadable. Else nobody knows what has been promised of that one.
func (s *scanner) passUnreadable(f *segment.File) (more bool, err error) {
	b, from := f.Bytes(), int(s.at-f.Base())
	bad := f.Base() + int64(firstUnreadable(b, from, len(b)))
	if s.at < s.mark {
		to := s.resync(f, s.at+1)
		s.damage(s.at, to, fmt.Sprintf("the device cannot read byte %d", bad))
		s.at = to
		return true, nil
	}
	behind := s.wholeBehind(f, from+1)
	if behind < 0 {
		return false, nil
	}
	return false, fmt.Errorf("commitlog: the device cannot read segment %s at byte %d, above %d up to which the log is known to be flushed, and a whole "+
		"record stands behind it at %d; nothing was cut. Bring the segment back from a copy; or write zeros there, then the log ends at %d and what "+
		"stands behind it is kept aside: %w", f.Name(), bad-f.Base(), s.mark, behind, s.at, segment.ErrUnreadable)
}

// wholeBehind is the position of the first whole record of f from byte from on, or of a later segment; -1 if there is none.
func (s *scanner) wholeBehind(f *segment.File, from int) int64 {
	for _, later := range s.log.set.Files() {
		if later.Base() < f.Base() {
			continue
		}
		b := later.Bytes()
		if later != f {
			from = 0
		}
		if at := NextWhole(b, message.Offset(later.Base()), from, len(b)); at < len(b) {
			return later.Base() + int64(at)
		}
	}
	return -1
}

// goesOn tells whether a record or the end of the segment stands at the position at of f, maybe behind others with zeros in their text.
func (s *scanner) goesOn(f *segment.File, at int64) bool {
	var r message.Record
	for f.End()-at >= message.BlankLen {
		kind, why := message.Check(f.Bytes()[at-f.Base():], message.Offset(at), &r)
		if kind == message.Whole || kind == message.Blank {
			return true
		}
		if !errors.Is(why, message.ErrZerosInText) {
			return false
		}
		at += int64(r.Size)
	}
	return false
}

// gap handles a position that no segment covers.
func (s *scanner) gap(at int64) (next int64, more bool) {
	if at >= s.mark {
		return at, false
	}
	for _, f := range s.log.set.Files() {
		if f.Base() > at && f.Base() <= s.mark {
			s.damage(at, f.Base(), "segment missing")
			return f.Base(), true
		}
	}
	s.damage(at, s.mark, "segment missing")
	return at, false
}

// resync returns where the walk goes on behind a place below mark that is not whole: the next whole record of the segment if
// it begins at or below mark, else mark itself or the end of the segment, whichever comes first.
func (s *scanner) resync(f *segment.File, at int64) int64 {
	limit := min(s.mark, f.End())
	if at >= limit {
		return limit
	}
	return f.Base() + int64(NextWhole(f.Bytes(), message.Offset(f.Base()), int(at-f.Base()), int(limit-f.Base())))
}

func reason(kind message.Kind, why error) string {
	if kind == message.Zero {
		return "zeros"
	}
	return why.Error()
}

// damage notes that [from, to) holds no whole record.
func (s *scanner) damage(from, to int64, why string) {
	if s.pending.To == message.Offset(from) && s.pending.From < s.pending.To {
		s.pending.To = message.Offset(to)
		return
	}
	s.settle()
	s.pending = Damage{From: message.Offset(from), To: message.Offset(to), Reason: why}
}

// settle reports damage that has ended.
func (s *scanner) settle() {
	if s.pending.From < s.pending.To && s.damaged != nil {
		s.damaged(s.pending)
	}
	s.pending = Damage{}
}
