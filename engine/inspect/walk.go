package inspect

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime/debug"

	"ringmq/engine/message"
	"ringmq/engine/segment"
)

// visitor is told what a walk over a segment finds, in the order of the log.
type visitor interface {
	// whole is told of a record; its slices are valid during the call.
	whole(w *walk, r *message.Record) error
	// broken is told of a place that holds no record, and says where the walk goes on; the same place ends it.
	broken(w *walk, at int64, why string) (next int64, err error)
}

// walk goes over the bytes of one segment.
type walk struct {
	f      *segmentFile
	b      []byte
	record message.Record

	// A Java broker wrote last: it takes a record whose properties were torn for whole and goes on behind it, so that such a one counts,
	// and zeros is set, if another follows.
	foreign bool
	zeros   bool
}

// run walks from at on. It returns the end of what was walked: the end of the segment, or where broken ended it. err may be
// segment.ErrUnreadable.
func (w *walk) run(at int64, v visitor) (end int64, err error) {
	end = at
	defer segment.CatchFault(&err, "inspect: segment "+w.f.name, debug.SetPanicOnFault(true))
	limit := w.f.base + int64(len(w.b))
	for limit-end >= message.BlankLen {
		kind, why := w.look(end)
		switch kind {
		case message.Blank:
			return limit, nil
		case message.Whole:
			if err := v.whole(w, &w.record); err != nil {
				return end, err
			}
			end += int64(w.record.Size)
		default:
			next, err := v.broken(w, end, reason(kind, why))
			if err != nil || next <= end {
				return end, err
			}
			end = next
		}
	}
	// Too little room for an end record: only another writer leaves a segment like that.
	return max(end, limit), nil
}

// look says what stands at at; a whole record is then in record.
func (w *walk) look(at int64) (kind message.Kind, why error) {
	kind, why = message.Check(w.b[at-w.f.base:], message.Offset(at), &w.record)
	w.zeros = w.foreign && errors.Is(why, message.ErrZerosInText) && w.goesOn(at+int64(w.record.Size))
	if w.zeros {
		kind = message.Whole
	}
	return kind, why
}

// goesOn tells whether a record or the end of the segment stands at at, maybe behind others with zeros in their text.
func (w *walk) goesOn(at int64) bool {
	var r message.Record
	for w.f.base+int64(len(w.b))-at >= message.BlankLen {
		kind, why := message.Check(w.b[at-w.f.base:], message.Offset(at), &r)
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

// resync finds the next whole record that begins in [at, limit), or returns limit. A record is found by its magic and believed if the
// offset it claims is its place and all of it checks.
func (w *walk) resync(at, limit int64) int64 {
	limit = min(limit, w.f.base+int64(len(w.b)))
	var r message.Record
	for ; at < limit; at++ {
		from := at - w.f.base + magicAt
		if from >= int64(len(w.b)) {
			return limit
		}
		i := bytes.Index(w.b[from:], magicPrefix())
		if i < 0 || at+int64(i) >= limit {
			return limit
		}
		at += int64(i)
		rest := w.b[at-w.f.base:]
		if _, ok := message.Peek(rest, message.Offset(at)); !ok {
			continue
		}
		if kind, _ := message.Check(rest, message.Offset(at), &r); kind == message.Whole {
			return at
		}
	}
	return limit
}

// last finds the last record whose size, magic and own offset are right, searching backwards; ok is false if there is none.
func (w *walk) last() (at int64, size int, ok bool) {
	for end := len(w.b); end > 0; {
		i := bytes.LastIndex(w.b[:end], magicPrefix())
		if i < magicAt {
			return 0, 0, false
		}
		at = w.f.base + int64(i) - magicAt
		if size, ok = message.Peek(w.b[i-magicAt:], message.Offset(at)); ok {
			return at, size, true
		}
		end = i + len(magicPrefix()) - 1
	}
	return 0, 0, false
}

// magicAt is where the magic stands in a record.
const magicAt = 4

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

// firstData is the first byte of b that is not zero, len(b) if there is none.
func firstData(b []byte) int {
	var zeros [4096]byte
	at := 0
	for len(b)-at >= len(zeros) && bytes.Equal(b[at:at+len(zeros)], zeros[:]) {
		at += len(zeros)
	}
	for at < len(b) && b[at] == 0 {
		at++
	}
	return at
}

// dataEnd is one more than the last byte of b that is not zero, 0 if there is none.
func dataEnd(b []byte) int {
	var zeros [4096]byte
	end := len(b)
	for end >= len(zeros) && bytes.Equal(b[end-len(zeros):end], zeros[:]) {
		end -= len(zeros)
	}
	for end > 0 && b[end-1] == 0 {
		end--
	}
	return end
}
