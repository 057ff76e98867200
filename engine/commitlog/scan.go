package commitlog

import (
	"bytes"
	"encoding/binary"
	"errors"
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
// damaged (which may be nil), merged with what follows it at once, before the next record. A missing segment is damage too.
// At or above mark the first place that is not whole is the end, whatever follows: a power cut writes pages back in any order.
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
	foreign     bool // a Java broker wrote last
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
	defer segment.CatchFault(&err, "commitlog: read segment "+f.Name(), debug.SetPanicOnFault(true))
	b := f.Bytes()
	for f.End()-at >= message.BlankLen {
		kind, why := message.Check(b[at-f.Base():], message.Offset(at), &s.record)
		if s.foreign && errors.Is(why, message.ErrZerosInText) && s.goesOn(f, at+int64(s.record.Size)) {
			kind = message.Whole
		}
		switch kind {
		case message.Blank:
			return f.End(), true, nil
		case message.Whole:
			s.settle()
			s.storeTimeMS = max(s.storeTimeMS, s.record.StoreTime)
			if err := s.each(&s.record); err != nil {
				return at, false, err
			}
			at += int64(s.record.Size)
		default:
			if at >= s.mark {
				return at, false, nil
			}
			to := s.resync(f, at+1)
			s.damage(at, to, reason(kind, why))
			at = to
		}
	}
	// Too little room for an end record: only another writer leaves a segment like that.
	return f.End(), true, nil
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
// it begins at or below mark, else mark itself or the end of the segment, whichever comes first. A record is found by its
// magic, believed if the offset it claims is its place and all of it checks.
func (s *scanner) resync(f *segment.File, at int64) int64 {
	limit := min(s.mark, f.End())
	b := f.Bytes()
	var record message.Record
	for at < limit {
		i := bytes.Index(b[min(at+4-f.Base(), f.Size()):], magicPrefix())
		if i < 0 {
			return limit
		}
		at += int64(i)
		if at >= limit {
			return limit
		}
		rest := b[at-f.Base():]
		if _, ok := message.Peek(rest, message.Offset(at)); ok {
			if kind, _ := message.Check(rest, message.Offset(at), &record); kind == message.Whole {
				return at
			}
		}
		at++
	}
	return limit
}

// magicPrefix is what the magics of both record versions begin with.
func magicPrefix() []byte {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], message.MagicV1)
	return b[:3]
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
