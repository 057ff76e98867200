package commitlog

import (
	"fmt"

	"ringmq/engine/message"
	"ringmq/engine/segment"
	"ringmq/internal/failpoint"
	"ringmq/internal/mutant"
)

// WriteOut hands everything appended so far to the page cache and returns the new committed position. One caller. A failed
// write latches the log: what the file holds there is not known any more.
func (l *Log) WriteOut() (message.Offset, error) {
	if err := l.Latched(); err != nil {
		return l.Committed(), err
	}
	if l.pool == nil {
		return l.Committed(), nil // appended is committed
	}
	end := l.end.Load()
	for from := l.committed.Load(); from < end; {
		to, err := l.writeSegment(from, end)
		if err != nil {
			if !mutant.NoLatch {
				l.Latch(err)
			}
			return message.Offset(from), err
		}
		from = to
	}
	return l.Committed(), nil
}

// writeSegment writes [from, end), cut at the end of from's segment, as whole blocks of the file and publishes how far it
// came. The first block begins before from: its bytes are still in the pool, for Free stops at blocks.
func (l *Log) writeSegment(from, end int64) (to int64, err error) {
	f := l.set.Find(from)
	if f == nil {
		panic(fmt.Sprintf("BUG: commitlog: no segment for committed position %d", from))
	}
	to = min(end, f.End())
	first := blockStart(f, from)
	pieces := l.pool.Pieces(first, to, l.pieces[:0])
	if pad := min(blockStart(f, to+blockSize-1), f.End()) - to; pad > 0 {
		pieces = append(pieces, l.zeros[:pad])
	}
	l.pieces = pieces

	failpoint.Hit(failpoint.BeforeWrite)
	if err := f.WriteAt(pieces, first-f.Base()); err != nil {
		return from, fmt.Errorf("commitlog: write [%d, %d): %w", from, to, err)
	}
	failpoint.Hit(failpoint.AfterWrite)
	l.metrics.Writes.Add(1)
	l.metrics.WrittenBytes.Add(to - first)

	// Readers go to the mapping from here on, so the pool may be overwritten only after it.
	l.committed.Store(to)
	l.pool.Free(blockStart(f, to))
	l.wakeRoom()
	return to, nil
}

// Unsynced appends to dst the segments with committed bytes in [Flushed, upTo).
func (l *Log) Unsynced(upTo message.Offset, dst []*segment.File) []*segment.File {
	from := l.flushed.Load()
	if from >= int64(upTo) {
		return dst
	}
	for _, f := range l.set.Files() {
		if f.End() > from && f.Base() < int64(upTo) {
			dst = append(dst, f)
		}
	}
	return dst
}

// SetFlushed publishes that the device has everything before to. One caller.
func (l *Log) SetFlushed(to message.Offset) {
	if at, committed := l.flushed.Load(), l.committed.Load(); int64(to) < at || int64(to) > committed {
		panic(fmt.Sprintf("BUG: commitlog: flushed position %d, must be in [%d, %d]", to, at, committed))
	}
	l.flushed.Store(int64(to))
}
