// Package server is the front end: it cuts the streams of client connections into frames, calls the handler on an event loop
// and sends the replies of one batch with one write per connection. It alone imports gnet.
//
// gnet's loops are used without gnet's listeners. Its accept loop takes a failing accept (no descriptors left) as the end of
// the whole engine, cannot be stopped alone, and its Stop looks only every half second; so the package accepts with package
// net and enrolls each connection. See accept.go.
//
// Who owns what: a connection's inbound bytes, its gnet.Conn and its place in lists belong to its loop; its outbound batch is
// guarded by conn.mu. Nobody holds two locks of this package at once, and no callback (Handler, Releaser) runs under one.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"

	"ringmq/net/remoting"
)

// Handler is called on an event loop; it must not block. c and all its slices are valid until Handle returns.
type Handler interface {
	Handle(c *remoting.Command, r Reply)
	Closed(c Conn) // exactly once, after the last Handle of that connection
}

// Reply answers one request, exactly once, from any goroutine; a second answer panics. It fills in the request's opaque and
// serialization and the response flag. After the answer the Reply must not be touched. To a one-way request every method
// does nothing but give back held, and so it does when the connection is gone.
type Reply interface {
	Conn() Conn
	// Write answers at once. c may be reused when it returns.
	Write(c *remoting.Command)
	// Defer answers like Write, but the bytes wait for the next Kick: for callers that answer many in a row.
	Defer(c *remoting.Command)
	// WriteBody answers with a body of several pieces that are not copied unless they are few bytes or the socket is full; held
	// (may be nil) is released exactly once when the pieces are no longer needed, also when the connection has died. The
	// slice of pieces itself may be reused when WriteBody returns.
	WriteBody(c *remoting.Command, body [][]byte, held Releaser)
}

// Releaser gives back what a reply's body points to, for example a view of a segment. Release may run on any goroutine.
type Releaser interface{ Release() }

// Conn is one client connection. All methods may be called from any goroutine, also after it has closed.
type Conn interface {
	ID() uint64 // unique in this process
	Remote() netip.AddrPort
	Local() netip.AddrPort
	// Send writes a request of ours (notifications) with the opaque that c has; false when the connection is gone.
	Send(c *remoting.Command) bool
	// Backlogged tells that the peer does not read: more than the outbound limit waits for it.
	Backlogged() bool
	// Close ends the connection soon, after what was written before has been handed to the socket as far as it takes it.
	Close()
}

// Options of a Server; zero values mean the defaults.
type Options struct {
	Addresses []string // host:port, one engine for all (the port and the fast port)
	Loops     int      // event loops; 0: number of CPUs
	Handler   Handler
	// Response gets answers of clients to our own requests, on the event loop like Handle; nil: they are dropped.
	Response func(Conn, *remoting.Command)
	// IdleTimeout closes a connection that sent nothing for so long (120 s), and one whose frame is not complete so long
	// after its first byte. It is also the TCP user timeout: sent bytes that the peer does not take for so long end it.
	IdleTimeout time.Duration
	MaxFrame    int // 16 MiB: the largest frame that is read, without its length bytes
	// OutboundLimit is how many bytes may wait for one connection (16 MiB) before its requests are not handled any more until
	// half of them have been taken. gnet goes on reading; what arrives meanwhile is kept, and a peer that sends more than
	// MaxFrame without reading is closed. So is one for which four times the limit waits.
	OutboundLimit int
	// MemoryLimit bounds the bytes of unfinished frames and waiting replies of all connections (512 MiB). When it is passed, the
	// connections that hold most for the longest time are closed until it fits: not whoever asks for the bytes too many. What
	// gnet holds for a full socket is rounded up to powers of two, so that the process may use up to twice as much.
	MemoryLimit int64
	// MaxConnections refuses further connections by closing them at once; 0: no limit.
	MaxConnections int
	Logger         *slog.Logger // nil: no log
}

// readBuffer is what one read takes from a socket at most, and so the bound of one connection's turn.
const readBuffer = 64 << 10

func (o Options) withDefaults() Options {
	if o.Loops == 0 {
		o.Loops = runtime.NumCPU()
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 120 * time.Second
	}
	if o.MaxFrame == 0 {
		o.MaxFrame = remoting.MaxFrame
	}
	if o.OutboundLimit == 0 {
		o.OutboundLimit = 16 << 20
	}
	if o.MemoryLimit == 0 {
		o.MemoryLimit = 512 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o Options) validate() error {
	switch {
	case o.Handler == nil:
		return errors.New("server: no handler")
	case len(o.Addresses) == 0:
		return errors.New("server: no address to listen on")
	case o.Loops < 0:
		return fmt.Errorf("server: %d event loops: must be at least 1", o.Loops)
	case o.MaxFrame < minFrame:
		return fmt.Errorf("server: MaxFrame %d: must be at least %d", o.MaxFrame, minFrame)
	case o.IdleTimeout < 0 || o.OutboundLimit < 0 || o.MemoryLimit < 0 || o.MaxConnections < 0:
		return errors.New("server: a limit is negative")
	}
	return nil
}

// Server is a set of listeners and event loops.
type Server struct {
	opts      Options
	log       *slog.Logger
	noise     noise                // log lines that peers can provoke
	now       func() time.Duration // since some fixed moment
	engine    *gnet.Client         // gnet's loops without its listeners
	listeners []net.Listener

	accepting sync.WaitGroup // accept goroutines and enrollments under way
	stopOnce  sync.Once
	stop      chan struct{} // closed by StopAccepting

	nudge   chan struct{} // one slot: look at backlogs soon
	watched sync.WaitGroup
	quit    chan struct{} // closed by Close: ends watch

	closeOnce sync.Once
	closing   atomic.Bool   // the engine is being stopped: a connection that ends sends what is left
	closed    chan struct{} // the engine has ended

	nextID  atomic.Uint64
	open    atomic.Int64  // connections accepted and not yet ended
	refused atomic.Uint64 // connections and frames turned away
	memory  atomic.Int64  // bytes accounted by all connections

	loops atomic.Pointer[[]*loop] // replaced, never changed; guarded by mu when replaced
	mu    sync.Mutex

	replies sync.Pool // *reply
	batches sync.Pool // *batch
}

// Stats is a snapshot for metrics.
type Stats struct {
	Connections int64  // open now
	Memory      int64  // bytes of unfinished frames and waiting replies
	Backlogged  int64  // connections that are not handled because they do not read
	Refused     uint64 // connections and frames turned away since the start
}

// Listen binds all addresses and accepts when it returns. An address that cannot be bound is named in the error, and none
// stays bound.
func Listen(o Options) (*Server, error) {
	start := time.Now()
	return listen(o, func() time.Duration { return time.Since(start) })
}

func listen(o Options, now func() time.Duration) (*Server, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Server{
		opts:   o,
		log:    o.Logger,
		now:    now,
		stop:   make(chan struct{}),
		nudge:  make(chan struct{}, 1),
		quit:   make(chan struct{}),
		closed: make(chan struct{}),
	}
	s.noise.log = o.Logger
	s.loops.Store(new([]*loop))
	s.replies.New = func() any { return new(reply) }
	s.batches.New = func() any { return new(batch) }
	if err := s.bind(); err != nil {
		return nil, err
	}
	if err := s.startEngine(); err != nil {
		s.closeListeners()
		return nil, err
	}
	s.watched.Go(s.watch)
	for _, l := range s.listeners {
		s.accepting.Go(func() { s.accept(l) })
	}
	return s, nil
}

func (s *Server) startEngine() error {
	engine, err := gnet.NewClient(&events{server: s},
		gnet.WithNumEventLoop(s.opts.Loops),
		gnet.WithReadBufferCap(readBuffer),
		gnet.WithTCPNoDelay(gnet.TCPDelay), // package net has set TCP_NODELAY already; this only spares the system call
		gnet.WithLogger(gnetLog{s.log}))
	if err != nil {
		return fmt.Errorf("server: event loops: %w", err)
	}
	if err := engine.Start(); err != nil {
		return fmt.Errorf("server: start %d event loops: %w", s.opts.Loops, err)
	}
	s.engine = engine
	return nil
}

// Kick sends what Defer left, one task per event loop that has something.
func (s *Server) Kick() {
	for _, l := range *s.loops.Load() {
		if l.hasDirty() {
			l.post()
		}
	}
}

// Addrs are the bound addresses in the order of Options.Addresses, with the port that port 0 became.
func (s *Server) Addrs() []netip.AddrPort {
	addrs := make([]netip.AddrPort, len(s.listeners))
	for i, l := range s.listeners {
		addrs[i] = addrPort(l.Addr())
	}
	return addrs
}

// Stats returns the present counters.
func (s *Server) Stats() Stats {
	st := Stats{Connections: s.open.Load(), Memory: s.memory.Load(), Refused: s.refused.Load()}
	for _, l := range *s.loops.Load() {
		st.Backlogged += l.pausedCount.Load()
	}
	return st
}

// StopAccepting closes the listeners; connections go on. It returns when no further connection can appear.
func (s *Server) StopAccepting() {
	s.stopOnce.Do(func() {
		close(s.stop)
		s.closeListeners()
	})
	s.accepting.Wait()
}

// Close ends all connections and loops. Replies written before are handed to the sockets as far as these take them; every held
// body is released, and later answers do nothing. It returns ctx's error when that ends first; the closing then goes on.
func (s *Server) Close(ctx context.Context) error {
	s.closeOnce.Do(func() {
		go func() {
			defer close(s.closed)
			// No enrollment may be under way when the loops end: gnet would never answer it.
			s.StopAccepting()
			close(s.quit)
			s.watched.Wait()
			s.closing.Store(true)
			for _, l := range *s.loops.Load() {
				l.shut()
			}
			if err := s.engine.Stop(); err != nil {
				s.log.Warn("server: event loops ended with an error", "error", err)
			}
		}()
	})
	select {
	case <-s.closed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("server: close: %w", ctx.Err())
	}
}

func addrPort(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		panic(fmt.Sprintf("BUG: %T is no TCP address", a))
	}
	ap := t.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
