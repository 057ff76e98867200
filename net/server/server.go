// Package server is the front end on gnet: it cuts the stream into frames, calls the handler on the event loop and writes the
// replies of one batch with one write per connection. It alone imports gnet.
package server

import (
	"context"
	"net/netip"
	"time"

	"ringmq/net/remoting"
)

// Handler is called on an event loop; it must not block. c and all its slices are valid until Handle returns.
type Handler interface {
	Handle(c *remoting.Command, r Reply)
	Closed(c Conn) // after the last Handle of that connection
}

// Reply answers one request, exactly once, from any goroutine. To a one-way request every method does nothing but give back held.
type Reply interface {
	Conn() Conn
	// Write answers at once. c may be reused when it returns.
	Write(c *remoting.Command)
	// Defer answers like Write, but the bytes wait for the next Kick: for callers that answer many in a row.
	Defer(c *remoting.Command)
	// WriteBody answers with a body of several pieces that are not copied unless the socket is full; held is released exactly once when the
	// pieces are no longer needed, also when the connection has died.
	WriteBody(c *remoting.Command, body [][]byte, held Releaser)
}

type Releaser interface{ Release() }

// Conn is one client connection.
type Conn interface {
	ID() uint64
	Remote() netip.AddrPort
	Local() netip.AddrPort
	// Send writes a request of ours (notifications); false when the connection is gone.
	Send(c *remoting.Command) bool
	// Backlogged tells that the peer does not read: more than the outbound limit waits for it.
	Backlogged() bool
	Close()
}

type Options struct {
	Addresses     []string // host:port, one engine for all (the port and the fast port)
	Loops         int      // event loops; 0: number of CPUs
	Handler       Handler
	IdleTimeout   time.Duration // 120 s
	MaxFrame      int           // 16 MiB
	OutboundLimit int           // bytes waiting per connection before it is not read from
	MemoryLimit   int64         // bytes of unfinished frames and waiting replies of all connections
}

type Server struct{}

func Listen(o Options) (*Server, error)           { panic("unbuilt") } // accepting when it returns; a taken port names the address
func (s *Server) Kick()                           { panic("unbuilt") } // sends what Defer left, one Execute per event loop
func (s *Server) Addrs() []netip.AddrPort         { panic("unbuilt") }
func (s *Server) StopAccepting()                  { panic("unbuilt") }
func (s *Server) Close(ctx context.Context) error { panic("unbuilt") } // releases every reply under way
