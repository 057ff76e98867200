package commitlog

import (
	"errors"
	"fmt"

	"ringmq/engine/message"
	"ringmq/internal/failpoint"
)

// minRecord is below the length of any record; it only keeps a wrong caller from reading beyond its bytes.
const minRecord = 91

// MaxAppend is the number of bytes that one Append can take at most.
func (l *Log) MaxAppend() int {
	n := l.options.SegmentSize
	if !l.options.MappedAppend {
		// The pool also keeps the block that is written next, and must be able to hold the rest of a segment that these
		// bytes did not fit into.
		n = min(n, l.options.PoolSize-blockSize)
	}
	return int(n - message.BlankLen)
}

// Append stamps and copies records that stand one behind the other in recs, all of one queue, whole or not at all; they
// get consecutive queue offsets from *next, which is guarded by the put lock and moved on. A record whose sysflag says
// prepared or rollback neither has a number nor uses one up. They are placed in one segment, next to each other. Store times
// never go backwards. The bytes are the caller's again when it returns.
//
// It returns ErrBusy, or ErrPoolFull which is one, instead of waiting, ErrTooLarge, the latch's error after Latch, or why the next segment cannot be made
// (a full disk); then nothing is placed and *next is as it was. No allocation.
func (l *Log) Append(recs []byte, next *message.QueueOffset, p Placer) (Appended, error) {
	if err := l.fits(len(recs)); err != nil {
		return Appended{}, err
	}
	checkSizes(recs)
	// Read before the lock, for it takes as long as the rest: whoever was overtaken gets the time of the one before.
	now := l.options.Now()
	l.mu.Lock()
	a, err := l.appendLocked(recs, next, now, p)
	l.mu.Unlock()
	if err != nil && errors.Is(err, ErrBusy) {
		l.metrics.Busy.Add(1)
	}
	return a, err
}

func (l *Log) appendLocked(recs []byte, next *message.QueueOffset, nowMS int64, p Placer) (Appended, error) {
	if err := l.refusalLocked(); err != nil {
		return Appended{}, err
	}
	start := l.end.Load()
	if start+int64(len(recs))+message.BlankLen > l.segmentEnd {
		if err := l.rollLocked(); err != nil {
			return Appended{}, err
		}
		start = l.end.Load()
	}
	end := start + int64(len(recs))
	if !l.poolHas(end) {
		return Appended{}, ErrPoolFull
	}
	if err := l.withinLocked(end); err != nil {
		return Appended{}, err
	}
	failpoint.Hit(failpoint.BeforeStamp)
	l.storeTimeMS = max(l.storeTimeMS, nowMS)
	a := Appended{Start: message.Offset(start), End: message.Offset(end), StoreTimeMS: l.storeTimeMS}
	a.QueueOffset = stamp(recs, a.Start, next, a.StoreTimeMS)
	l.putLocked(start, recs)
	failpoint.Hit(failpoint.AfterCopy)
	if p != nil {
		p.Placed(a)
	}
	l.publishLocked(end)
	if l.entered {
		l.askLocked()
	}
	return a, nil
}

// stamp fills in the records at start and returns the queue offset of the first.
func stamp(recs []byte, start message.Offset, next *message.QueueOffset, storeTimeMS int64) message.QueueOffset {
	first := message.QueueOffset(0)
	if message.InQueue(message.SysFlag(recs)) {
		first = *next
	}
	for at := 0; at < len(recs); {
		rec := recs[at : at+message.Size(recs[at:])]
		message.Stamp(rec, *next, start+message.Offset(at), storeTimeMS)
		if message.InQueue(message.SysFlag(rec)) {
			*next++
		}
		at += len(rec)
	}
	return first
}

// putLocked copies b to position at.
func (l *Log) putLocked(at int64, b []byte) {
	if l.pool != nil {
		l.pool.Put(at, b)
		return
	}
	copy(l.current.Bytes()[at-l.current.Base():], b)
	l.current.MarkDirty()
}

// publishLocked shows everything before end to the committer and to readers.
func (l *Log) publishLocked(end int64) {
	l.end.Store(end)
	if l.pool == nil {
		l.committed.Store(end)
	}
}

func (l *Log) refusal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refusalLocked()
}

func (l *Log) refusalLocked() error {
	if err := l.Latched(); err != nil {
		return err
	}
	if l.closed || !l.started {
		return ErrClosed
	}
	return nil
}

func (l *Log) poolHas(end int64) bool { return l.pool == nil || l.pool.Room(end) }

// fits says whether n bytes could ever be appended.
func (l *Log) fits(n int) error {
	if limit := l.MaxAppend(); n > limit {
		key, value := "mappedFileSizeCommitLog", l.options.SegmentSize
		if int64(n)+message.BlankLen <= value {
			key, value = l.options.PoolKey, l.options.PoolSize
		}
		return fmt.Errorf("%w: %d bytes, at most %d with %s=%d", ErrTooLarge, n, limit, key, value)
	}
	return nil
}

// checkSizes panics unless recs is a sequence of records: whoever calls has just encoded them. It runs before the lock is
// taken.
func checkSizes(recs []byte) {
	at := 0
	for at < len(recs) {
		size := 0
		if len(recs)-at >= minRecord {
			size = message.Size(recs[at:])
		}
		if size < minRecord || size > len(recs)-at {
			panic(fmt.Sprintf("BUG: commitlog: append of %d bytes with a record of size %d at %d", len(recs), size, at))
		}
		at += size
	}
	if at == 0 {
		panic("BUG: commitlog: append of no record")
	}
}
