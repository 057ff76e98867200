package server

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"

	"ringmq/net/remoting"
)

// accountSlack is how far a connection's share of Server.memory may lag behind while a batch grows.
const accountSlack = 64 << 10

// hardBacklog times OutboundLimit waiting for a connection end it. Only handlers that do not ask Backlogged get there.
const hardBacklog = 4

// conn implements Conn.
type conn struct {
	id            uint64
	server        *Server
	remote, local netip.AddrPort
	loop          *loop // set before anybody but the server knows the connection

	// Owned by the loop.
	socket  gnet.Conn
	in      []byte // received and not handled: the beginning of a frame, or anything while paused
	heardAt time.Duration
	paused  bool // requests are not handled because the peer does not read
	gone    bool // gnet has closed it; the descriptor's number may belong to another by now

	closing    atomic.Bool  // ends when it is flushed next
	waiting    atomic.Int64 // queued + unsent
	frameSince atomic.Int64 // a time.Duration: when in began to wait for its frame to be whole; written by the loop only

	mu        sync.Mutex
	out       *batch       // replies that gnet has not been given; nil: none
	queued    int          // bytes in out
	unsent    int          // bytes gnet holds, as of the last look; written by the loop only
	inCap     int          // capacity of in, as of the last look
	handling  bool         // its loop is in receive and will flush at the end; written by the loop only
	dirty     bool         // is in its loop's list
	closed    bool         // ended has been called
	accounted atomic.Int64 // its share of Server.memory; written under mu
}

func (s *Server) newConn(nc net.Conn) *conn {
	return &conn{id: s.nextID.Add(1), server: s, remote: addrPort(nc.RemoteAddr()), local: addrPort(nc.LocalAddr())}
}

func (c *conn) opened(g gnet.Conn, l *loop) {
	c.socket, c.loop, c.heardAt = g, l, l.now
	l.connsMu.Lock()
	l.conns[c] = struct{}{}
	l.connsMu.Unlock()
}

// ended is the last event of a connection. It may come from inside a write of ours, in the middle of receive: nothing touches
// the socket after it.
func (c *conn) ended(err error) {
	c.mu.Lock()
	c.closed = true
	b := c.takeLocked()
	c.mu.Unlock()
	if b != nil {
		if err == nil && c.server.closing.Load() {
			c.send(b)
		}
		c.release(b)
	}
	c.gone = true
	if !c.handling {
		c.drop(len(c.in)) // else receive does
	}
	if c.paused {
		c.paused = false
		c.loop.pausedCount.Add(-1)
	}
	c.mu.Lock()
	c.server.memory.Add(-c.accounted.Swap(0))
	c.unsent, c.inCap = 0, 0
	c.mu.Unlock()
	c.loop.connsMu.Lock()
	delete(c.loop.conns, c)
	c.loop.connsMu.Unlock()
	c.server.open.Add(-1)
	c.server.opts.Handler.Closed(c)
}

func (c *conn) ID() uint64             { return c.id }
func (c *conn) Remote() netip.AddrPort { return c.remote }
func (c *conn) Local() netip.AddrPort  { return c.local }

func (c *conn) Backlogged() bool {
	return c.waiting.Load() > int64(c.server.opts.OutboundLimit)
}

func (c *conn) Send(cmd *remoting.Command) bool { return c.write(cmd, true) }

func (c *conn) Close() {
	c.closing.Store(true)
	c.mu.Lock()
	mark, post := c.markLocked()
	c.mu.Unlock()
	c.wake(mark, post)
}

// fail ends the connection because of what the peer did.
func (c *conn) fail(reason string, args ...any) {
	if c.closing.Swap(true) {
		return
	}
	c.server.refused.Add(1)
	c.server.noise.warn("server: connection closed: "+reason, append([]any{"remote", c.remote}, args...)...)
}

// settle brings the sums up to date and ends the connection when that is wished or due. Called on the loop.
func (c *conn) settle() {
	c.measure()
	if c.closing.Load() && !c.gone {
		c.loop.close(c)
	}
}

// measure brings the sums up to date with what gnet holds and acts when they are too high.
func (c *conn) measure() {
	if c.gone {
		return
	}
	unsent := c.socket.OutboundBuffered()
	c.mu.Lock()
	c.unsent, c.inCap = unsent, cap(c.in)
	c.accountLocked(0)
	c.mu.Unlock()
	waiting, limit := c.waiting.Load(), int64(c.server.opts.OutboundLimit)
	if waiting <= limit {
		return
	}
	if waiting > hardBacklog*limit {
		c.fail("it does not read", "waiting", waiting, "limit", hardBacklog*limit)
	}
	if !c.paused {
		c.paused = true
		c.loop.paused = append(c.loop.paused, c)
		c.loop.pausedCount.Add(1)
		c.server.lookSoon()
	}
}

// accountLocked tells the server how much more or less the connection holds, when that differs by more than slack.
func (c *conn) accountLocked(slack int64) {
	c.waiting.Store(int64(c.queued + c.unsent))
	held := int64(c.queued + c.unsent + c.inCap)
	if d := held - c.accounted.Load(); d > slack || -d > slack {
		c.accounted.Store(held)
		if c.server.memory.Add(d) > c.server.opts.MemoryLimit {
			c.server.lookSoon()
		}
	}
}
