package inspect

import (
	"context"
	"runtime/debug"

	"ringmq/engine/message"
	"ringmq/engine/segment"
)

// logCursor goes over a log record by record: a walk that the caller drives. What holds no whole record is passed over and counted.
type logCursor struct {
	ctx     context.Context
	s       *Store
	segment int // index of the one that at lies in, or the next behind at
	at      int64
	m       mapping
	w       walk
	told    int64
	holes   int64 // bytes passed over that held no whole record
	end     int64 // behind the last record
}

func newLogCursor(ctx context.Context, s *Store) *logCursor {
	return &logCursor{ctx: ctx, s: s, at: s.logMin(), end: s.logMin()}
}

func (c *logCursor) close() { c.m.close() }

// next moves to the next whole record and returns it with its bytes, both valid until the following call; ok is false at the end of the log.
func (c *logCursor) next() (r *message.Record, b []byte, ok bool, err error) {
	for c.segment < len(c.s.segments) {
		if err := c.enter(); err != nil {
			return nil, nil, false, err
		}
		if r, b, ok = c.inSegment(); ok {
			return r, b, true, nil
		}
		c.m.close()
		c.segment++
	}
	return nil, nil, false, nil
}

// enter maps the segment that the cursor has come to. One that cannot be read counts as a hole.
func (c *logCursor) enter() error {
	f := &c.s.segments[c.segment]
	if c.m.path == f.path {
		if c.at-c.told < progressStep {
			return nil
		}
		c.told = c.at
		return c.ctx.Err()
	}
	c.told = f.base
	c.m.close()
	m, err := mapFile(f.path, sequential)
	if err != nil {
		c.holes += f.size
		m = mapping{path: f.path}
	}
	c.m, c.at = m, f.base
	c.w = walk{f: f, b: m.bytes, foreign: c.s.State.Lock.Last != "ringmq"}
	return c.ctx.Err()
}

func (c *logCursor) inSegment() (r *message.Record, b []byte, ok bool) {
	var err error
	defer func() {
		if err != nil {
			c.holes += c.w.f.base + int64(len(c.w.b)) - c.at
			r, b, ok = nil, nil, false
		}
	}()
	defer segment.CatchFault(&err, "inspect: segment "+c.w.f.name, debug.SetPanicOnFault(true))
	w := &c.w
	limit := w.f.base + int64(len(w.b))
	for limit-c.at >= message.BlankLen {
		rest := w.b[c.at-w.f.base:]
		switch kind, _ := w.look(c.at); kind {
		case message.Blank:
			return nil, nil, false
		case message.Whole:
			size := int64(w.record.Size)
			c.at += size
			c.end = c.at
			return &w.record, rest[:size], true
		}
		next := w.resync(c.at+1, limit)
		if next < limit {
			c.holes += next - c.at
		} else {
			c.holes += int64(dataEnd(rest))
		}
		c.at = next
	}
	return nil, nil, false
}
