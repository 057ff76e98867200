package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"

	"ringmq/net/remoting"
)

// Reasons of the watch for a loop to look around, bits of loop.due.
const (
	dueScan     = 1 << iota // idle connections and stale frames
	dueBacklogs             // connections that may be handled again
)

// loop is what the server keeps beside one of gnet's event loops. It is the task that others post there: at most one at a
// time, however many connections have something to send. Posting costs gnet a few small allocations, once per batch.
type loop struct {
	server *Server
	el     gnet.EventLoop

	// Owned by the loop.
	now      time.Duration // as of the last scan: exact enough for timeouts
	request  remoting.Command
	answer   remoting.Command // of the server itself
	buffers  buffers
	iov      [][]byte
	paused   []*conn
	flushing []*conn // the other half of dirty

	pausedCount atomic.Int64

	connsMu sync.Mutex // taken by the loop to change conns and by others to read them
	conns   map[*conn]struct{}

	mu    sync.Mutex
	dirty []*conn // have an outbound batch or a wish to close; guarded by mu

	posted atomic.Bool // Run is to come and has not begun
	due    atomic.Uint32

	gate sync.Mutex
	over bool // nothing may be posted any more; guarded by gate
}

// loopOf finds or makes the loop of el; called on el.
func (s *Server) loopOf(el gnet.EventLoop) *loop {
	for _, l := range *s.loops.Load() {
		if l.el == el {
			return l
		}
	}
	l := &loop{server: s, el: el, now: s.now(), conns: make(map[*conn]struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.loops.Load()
	loops := append(old[:len(old):len(old)], l)
	s.loops.Store(&loops)
	return l
}

// mark lists c for the next Run.
func (l *loop) mark(c *conn) {
	l.mu.Lock()
	l.dirty = append(l.dirty, c)
	l.mu.Unlock()
}

func (l *loop) hasDirty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.dirty) > 0
}

// post makes Run happen on the loop, once for all posts until it begins. After shut it does nothing: gnet closes the loop's
// eventfd then, and a late wake-up would write into whatever file has got that number.
func (l *loop) post() {
	if !l.posted.CompareAndSwap(false, true) {
		return
	}
	l.gate.Lock()
	defer l.gate.Unlock()
	if !l.over {
		_ = l.el.Execute(context.Background(), l) // fails only when the engine has ended
	}
}

// shut refuses all later posts. A task that gnet has not run by the end of its loop never runs; what it would have sent goes
// out, or is released, when the connections end.
func (l *loop) shut() {
	l.gate.Lock()
	l.over = true
	l.gate.Unlock()
}

// Run is called by gnet on the event loop.
func (l *loop) Run(context.Context) error {
	l.posted.Store(false) // before looking: what is marked from here on posts again
	due := l.due.Swap(0)
	if due&dueScan != 0 {
		l.now = l.server.now()
	}
	l.flushDirty()
	if due&dueScan != 0 {
		l.scan()
	}
	if due != 0 {
		l.resume()
	}
	return nil
}

func (l *loop) flushDirty() {
	l.mu.Lock()
	list := l.dirty
	l.dirty = l.flushing[:0]
	l.mu.Unlock()
	for _, c := range list {
		c.flushListed()
	}
	clear(list)
	l.flushing = list
}

// scan ends connections that are silent, or slow with a frame, for too long.
func (l *loop) scan() {
	limit := l.server.opts.IdleTimeout
	for c := range l.conns { // closing one deletes it, which a range over a map allows
		switch {
		case l.now-c.heardAt > limit:
			l.server.log.Debug("server: idle connection closed", "remote", c.remote, "limit", limit)
			l.close(c)
		case len(c.in) > 0 && !c.paused && l.now-time.Duration(c.frameSince.Load()) > limit:
			l.server.noise.warn("server: connection closed: its frame is not complete", "remote", c.remote, "bytes", len(c.in), "limit", limit)
			l.close(c)
		case c.unsent > 0:
			c.settle()
		}
	}
}

// resume handles the connections again whose peers have taken enough. gnet does not tell when it has sent what it held, so
// this is asked for every few milliseconds while there are any.
func (l *loop) resume() {
	list := l.paused
	l.paused = nil
	for _, c := range list {
		if c.gone {
			continue
		}
		c.settle()
		if c.gone {
			continue
		}
		if c.waiting.Load() > int64(l.server.opts.OutboundLimit/2) {
			l.paused = append(l.paused, c)
			continue
		}
		c.paused = false
		c.frameSince.Store(int64(l.now))
		l.pausedCount.Add(-1)
		c.receive(nil)
	}
}

// close ends a connection now; ended is called within.
func (l *loop) close(c *conn) {
	_ = l.el.Close(c.socket) // complains of descriptors that are gone already
}
