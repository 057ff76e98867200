package commitlog

import (
	"fmt"

	"ringmq/engine/message"
)

// SetLimit lets the log grow up to limit; before the first call there is none. Whoever calls it has made durable that bytes below limit
// may be written, so that after a crash nobody has to look behind it for what is left of a torn end. Before the limit is reached, about
// half way, LimitNear asks for the next one. An append that would pass it is ErrBusy. A limit never falls once the log is started.
func (l *Log) SetLimit(limit message.Offset) {
	l.mu.Lock()
	defer l.mu.Unlock()
	end := l.end.Load()
	if int64(limit) < end {
		panic(fmt.Sprintf("BUG: commitlog: limit %d below the end %d", limit, end))
	}
	l.limit = int64(limit)
	l.limitNear = end + (l.limit-end)/2
	l.limitAsked, l.limitErr = false, nil
	l.room.Broadcast()
}

// LimitFailed says why there is no higher limit for now: what would pass the one there is is refused with err, until SetLimit.
func (l *Log) LimitFailed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limitErr = fmt.Errorf("commitlog: no append beyond %d: %w", l.limit, err)
	l.room.Broadcast()
}

// Reached is the position that a limit has to be above: the end, or where an append wanted to end that was refused for its sake.
func (l *Log) Reached() message.Offset { return message.Offset(max(l.reached.Load(), l.end.Load())) }

// withinLocked says whether the log may grow up to end, and asks for a higher limit when that is near.
func (l *Log) withinLocked(end int64) error {
	if end <= l.limitNear {
		return nil
	}
	if end > l.limit && end > l.reached.Load() {
		l.reached.Store(end)
		l.limitAsked = false // more than was asked for
	}
	if !l.limitAsked && l.options.LimitNear != nil {
		l.limitAsked = true
		l.options.LimitNear()
	}
	switch {
	case end <= l.limit:
		return nil
	case l.limitErr != nil:
		return l.limitErr
	}
	return ErrBusy
}
