package commitlog

import (
	"fmt"

	"ringmq/engine/message"
	"ringmq/engine/segment"
	"ringmq/internal/failpoint"
)

// retryMS is how long an append that needs a segment which could not be made is refused at once, before there is another
// attempt. What is missing is most likely disk space, and an attempt costs one failing allocation.
const retryMS = 1000

// rollLocked closes the segment with an end record and goes on to the next, if that is ready. It stands for itself: also when
// the append that caused it then finds no room, the log is as it should be.
func (l *Log) rollLocked() error {
	if !l.poolHas(l.segmentEnd) {
		return ErrPoolFull
	}
	if err := l.withinLocked(l.segmentEnd); err != nil {
		return err
	}
	next, err := l.nextLocked()
	if err != nil {
		return err
	}
	at := l.end.Load()
	// Less than an end record remains only in a store that somebody else wrote: Append keeps 8 bytes free.
	if rest := l.segmentEnd - at; rest >= message.BlankLen {
		l.blank = message.AppendBlank(l.blank[:0], int(rest))
		l.putLocked(at, l.blank)
		at += message.BlankLen
	}
	if l.pool != nil {
		l.pool.Zero(at, l.segmentEnd-at) // of an earlier lap; a mapped segment is zero already
	}
	failpoint.Hit(failpoint.MidRoll)
	l.publishLocked(l.segmentEnd)
	l.enterLocked(next)
	l.metrics.Rolls.Add(1)
	return nil
}

// nextLocked returns the segment behind the current one: recovery found it ahead, or the preparer has made it. While it is
// being made that is ErrBusy; when it could not be made, why, until it is tried again.
func (l *Log) nextLocked() (*segment.File, error) {
	if f := l.set.Find(l.segmentEnd); f != nil {
		return f, nil
	}
	f, ready, err := l.preparer.Take(l.segmentEnd)
	if ready {
		l.set.Add(f)
		if l.failing.Swap(false) {
			l.logger.Info("the next segment of the commit log could be made at last", "segment", f.Name())
		}
		return f, nil
	}
	now := l.options.Now()
	since := now - l.triedMS // negative: the clock was set back
	if err != nil && since >= 0 && since < retryMS {
		return nil, cannotMake(l.segmentEnd, err)
	}
	if err != nil {
		l.triedMS = now
		l.preparer.Prepare(l.segmentEnd)
	}
	return nil, ErrBusy
}

// enterLocked makes f the segment that is appended to. The next append asks for the one behind it: a store that has just been opened is to
// answer before a gigabyte is written in the background, and one that nobody uses needs no segment ahead.
func (l *Log) enterLocked(f *segment.File) {
	l.current, l.segmentEnd, l.entered = f, f.End(), true
}

// askLocked asks for the segment behind the current one, once for each.
func (l *Log) askLocked() {
	l.entered = false
	if l.set.Find(l.segmentEnd) == nil {
		l.triedMS = l.options.Now()
		l.preparer.Prepare(l.segmentEnd)
	}
}

func cannotMake(base int64, err error) error {
	return fmt.Errorf("commitlog: cannot make segment %s: %w", segment.Name(base), err)
}

// prepareFailed is called by the preparer. It speaks once for a row of failures, since appends try again every second.
func (l *Log) prepareFailed(base int64, err error) {
	if !l.failing.Swap(true) {
		l.logger.Error("the next segment of the commit log cannot be made; appends that need it are refused",
			"segment", segment.Name(base), "error", err)
	}
}

// Room waits until Append of n bytes would not say ErrBusy; another one may take the room before the caller does. It
// returns what Append would return if that is another error.
func (l *Log) Room(n int) error { return l.await(n, true) }

// RoomBesidePool is Room, but where that waits for the pool it returns ErrPoolFull.
func (l *Log) RoomBesidePool(n int) error { return l.await(n, false) }

func (l *Log) await(n int, forPool bool) error {
	if err := l.fits(n); err != nil {
		return err
	}
	for waited := false; ; waited = true {
		base, err := l.awaitPool(int64(n), forPool, &waited)
		if err != nil || base < 0 {
			return err
		}
		// The pool has room but the next segment is missing: the preparer makes it in a hurry.
		if !waited {
			l.metrics.Waits.Add(1)
		}
		if err := l.preparer.Await(base); err != nil && l.refusal() == nil {
			return cannotMake(base, err)
		}
	}
}

// awaitPool waits until pool and limit have room for an append of n bytes and what a roll puts before it. It returns the base of a
// segment that is needed first and not ready, or -1.
func (l *Log) awaitPool(n int64, forPool bool, waited *bool) (base int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Before the first look: whoever makes room afterwards sees that somebody waits.
	l.waiting.Add(1)
	defer l.waiting.Add(-1)
	for {
		if err := l.refusalLocked(); err != nil {
			return -1, err
		}
		rolls := l.end.Load()+n+message.BlankLen > l.segmentEnd
		wanted := l.wantedLocked(n, rolls)
		limited := l.withinLocked(wanted)
		if limited != nil && limited != ErrBusy {
			return -1, limited
		}
		if limited == nil && l.poolHas(wanted) {
			if rolls {
				return l.missingLocked()
			}
			return -1, nil
		}
		if limited == nil && !forPool {
			return -1, ErrPoolFull
		}
		if !*waited {
			l.metrics.Waits.Add(1)
			*waited = true
		}
		if limited == nil && l.options.RoomWanted != nil {
			l.options.RoomWanted()
		}
		l.room.Wait()
	}
}

// wantedLocked is the position up to which the pool must have room for n bytes.
func (l *Log) wantedLocked(n int64, rolls bool) int64 {
	if !rolls {
		return l.end.Load() + n
	}
	if rest := l.segmentEnd - l.end.Load(); l.pool != nil && rest+n > l.pool.Size()-blockSize {
		return l.segmentEnd // it cannot hold both at once: roll first
	}
	return l.segmentEnd + n
}

// missingLocked is the base of the next segment if it is not ready, or -1. Whoever waits for it does not take it.
func (l *Log) missingLocked() (int64, error) {
	_, err := l.nextLocked() // if there is one it is in the set now, where Append finds it
	if err == ErrBusy {
		l.preparer.Prepare(l.segmentEnd)
		return l.segmentEnd, nil
	}
	return -1, err
}

// wakeRoom lets those in Room look again. The lock is taken only if somebody waits; taken it must be, so that nobody is
// between looking and waiting.
func (l *Log) wakeRoom() {
	if l.waiting.Load() == 0 {
		return
	}
	l.mu.Lock()
	l.room.Broadcast()
	l.mu.Unlock()
}
