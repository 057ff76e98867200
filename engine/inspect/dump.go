package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"

	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
	"ringmq/engine/segment"
)

// Filter chooses records, or entries by their records. The zero value takes all.
type Filter struct {
	From, To     int64 // offsets: those that begin in [From, To); To 0: no end
	Topic        string
	QueueID      int32 // with HasQueue
	HasQueue     bool
	Key          string // one of KEYS, or UNIQ_KEY
	Since, Until int64  // store times in ms: those in [Since, Until); Until 0: no end
}

func (f *Filter) inRange(at int64) bool { return at >= f.From && (f.To <= 0 || at < f.To) }

// byRecord tells whether more than an entry is needed to decide.
func (f *Filter) byRecord() bool { return f.Key != "" || f.Since != 0 || f.Until != 0 }

func (f *Filter) takes(r *message.Record) bool {
	switch {
	case !f.inRange(int64(r.Offset)):
	case f.Topic != "" && f.Topic != string(r.Topic):
	case f.HasQueue && f.QueueID != r.QueueID:
	case r.StoreTime < f.Since || f.Until > 0 && r.StoreTime >= f.Until:
	case f.Key != "" && !hasKey(r.Properties, f.Key):
	default:
		return true
	}
	return false
}

func hasKey(properties []byte, key string) bool {
	if unique, ok := message.Property(properties, message.PropertyUniqueKey); ok && string(unique) == key {
		return true
	}
	keys, _ := message.Property(properties, message.PropertyKeys)
	for one := range bytes.SplitSeq(keys, []byte(" ")) {
		if len(one) > 0 && string(one) == key {
			return true
		}
	}
	return false
}

// ErrEnough is what a visit returns to end the visiting; the caller gets nil.
var ErrEnough = errors.New("inspect: enough")

func enough(err error) error {
	if errors.Is(err, ErrEnough) {
		return nil
	}
	return err
}

// Hole is a stretch of the log that holds no whole record, but bytes that are not zero; or one that cannot be read.
type Hole struct {
	From, To int64
	Why      string
}

// Records visits the whole records that the filter takes, in the order of the log, wherever they stand: also behind damage and behind the
// end. The record's slices are valid during the call. hole, which may be nil, is told what lies between them in the filter's range.
func (s *Store) Records(ctx context.Context, f Filter, visit func(r *message.Record) error, hole func(Hole) error) error {
	d := &dumper{ctx: ctx, f: &f, visit: visit, hole: hole}
	next := s.logMin()
	for i := range s.segments {
		file := &s.segments[i]
		if file.base > next {
			if err := d.tellHole(Hole{next, file.base, "no segment"}); err != nil {
				return enough(err)
			}
		}
		next = file.base + s.segmentSize
		if file.end() <= f.From || f.To > 0 && file.base >= f.To {
			continue
		}
		if err := d.segment(file, s.State.InUse()); err != nil {
			return enough(err)
		}
	}
	return nil
}

// dumper is one Records.
type dumper struct {
	ctx   context.Context
	f     *Filter
	visit func(r *message.Record) error
	hole  func(Hole) error
	told  int64
}

func (d *dumper) segment(f *segmentFile, inUse bool) error {
	m, err := mapFile(f.path, sequential)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) && inUse {
			return nil
		}
		return d.tellHole(Hole{f.base, f.end(), err.Error()})
	}
	defer m.close()
	w := &walk{f: f, b: m.bytes, foreign: true}
	from := f.base
	if d.f.From > from {
		if from, err = w.safeResync(d.f.From); err != nil {
			return d.tellHole(Hole{d.f.From, f.end(), err.Error()})
		}
	}
	end, err := w.run(from, d)
	if errors.Is(err, segment.ErrUnreadable) {
		return d.tellHole(Hole{end, f.end(), err.Error()})
	}
	return err
}

// safeResync is resync over a mapping.
func (w *walk) safeResync(at int64) (next int64, err error) {
	defer segment.CatchFault(&err, "inspect: segment "+w.f.name, debug.SetPanicOnFault(true))
	return w.resync(at, w.f.end()), nil
}

func (d *dumper) whole(_ *walk, r *message.Record) error {
	at := int64(r.Offset)
	if at-d.told >= progressStep || at < d.told {
		d.told = at
		if err := d.ctx.Err(); err != nil {
			return err
		}
	}
	if d.f.To > 0 && at >= d.f.To {
		return ErrEnough
	}
	if !d.f.takes(r) {
		return nil
	}
	return d.visit(r)
}

func (d *dumper) broken(w *walk, at int64, why string) (int64, error) {
	if err := d.ctx.Err(); err != nil {
		return at, err
	}
	end := w.f.base + int64(len(w.b))
	next := w.resync(at+1, end)
	stretch := w.b[at-w.f.base : next-w.f.base]
	to := at + int64(dataEnd(stretch))
	if next < end {
		to = next // zeros before a record are a hole, too
	}
	if to > at {
		if err := d.tellHole(Hole{at, to, why}); err != nil {
			return at, err
		}
	}
	return next, nil
}

func (d *dumper) tellHole(h Hole) error {
	if d.hole == nil || h.To <= d.f.From || d.f.To > 0 && h.From >= d.f.To {
		return nil
	}
	return d.hole(h)
}

// QueueEntry is one entry with its place.
type QueueEntry struct {
	ID     consumequeue.ID
	Number int64
	consumequeue.Entry
}

// Entries visits the queue entries that the filter takes, queue by queue. With a key or times, an entry is taken if its record is, so one
// whose record cannot be read is left out.
func (s *Store) Entries(ctx context.Context, f Filter, visit func(e QueueEntry) error) error {
	buf := make([]byte, maxScanRead)
	for _, q := range s.queues {
		if f.Topic != "" && f.Topic != q.id.Topic || f.HasQueue && f.QueueID != q.id.QueueID {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		_, err := q.scanEntries(q.first(), buf, func(n int64, e consumequeue.Entry) error {
			if !f.inRange(int64(e.Offset)) {
				return nil
			}
			if f.byRecord() && (e.Filler() || !s.takes(&f, int64(e.Offset))) {
				return nil
			}
			return visit(QueueEntry{q.id, n, e})
		})
		if errors.Is(err, ErrEnough) {
			return nil
		}
		if err != nil && !(s.State.InUse() && errors.Is(err, fs.ErrNotExist)) {
			return fmt.Errorf("inspect: queue %s: %w", queueName(q.id), err)
		}
	}
	return nil
}

// takes tells whether the filter takes the record at offset at.
func (s *Store) takes(f *Filter, at int64) (yes bool) {
	var r message.Record
	var err error
	func() {
		defer segment.CatchFault(&err, "inspect: read the log", debug.SetPanicOnFault(true))
		yes = s.record(at, &r) == nil && f.takes(&r)
	}()
	return yes && err == nil
}
