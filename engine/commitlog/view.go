package commitlog

import (
	"ringmq/engine/message"
	"ringmq/engine/segment"
)

// View returns up to n bytes at from, of one segment, never beyond End: from the mapping what is committed, from the pool a
// copy of what is not. It never joins the two: a view that begins below Committed ends there at the latest, which is the
// boundary of a record. False if from is not in [Min, End) or its segment has been removed.
func (l *Log) View(from message.Offset, n int) (segment.View, bool) {
	at := int64(from)
	if at < 0 || n <= 0 {
		return segment.View{}, false
	}
	for {
		// End first: it is never below a Committed that was loaded earlier.
		end, committed := l.end.Load(), l.committed.Load()
		if at >= end {
			return segment.View{}, false
		}
		if l.pool == nil {
			committed = end // Append publishes the two one after the other
		}
		if at < committed {
			return l.set.View(at, int(min(int64(n), committed-at)))
		}
		segmentEnd := at - at%l.options.SegmentSize + l.options.SegmentSize
		if v, ok := l.pool.View(at, int(min(int64(n), end-at, segmentEnd-at))); ok {
			return v, true
		}
		// The committer was faster; then the mapping has it. The pool gives up nothing else, unless it is closed.
		if l.committed.Load() <= at {
			return segment.View{}, false
		}
	}
}
