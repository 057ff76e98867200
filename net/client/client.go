// Package client is one connection to a remoting server: requests by opaque, callbacks, timeouts.
//
// Every request that expects an answer is told its end exactly once: the answer, its context's error, or the loss of the
// connection with the address in the error. Whoever removes a request from the table of pending ones tells it.
package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ringmq/net/remoting"
)

// ErrClosed is the reason when Close was called.
var ErrClosed = errors.New("client: closed")

// silence is how long sent bytes may be unacknowledged.
const silence = 30 * time.Second

// writeLimit is how many bytes of requests may wait for the socket before further ones wait.
const writeLimit = 4 << 20

// Options of a connection.
type Options struct {
	Address string
	// Request is called, one at a time, for requests of the server (notifications); what it returns is sent as the answer, nil
	// sends none. The command and its slices are valid until it returns, and it must not wait for an answer of the same
	// connection. If Request is nil, requests that want an answer get code 3.
	Request func(c *remoting.Command) *remoting.Command
	// MaxFrame is the longest frame that is sent or taken; 0: remoting.MaxFrame.
	MaxFrame int
}

// Client is one connection. All methods may be called from any goroutine.
type Client struct {
	opts Options
	conn net.Conn
	done chan struct{} // closed when the connection has ended and both goroutines know
	wake chan struct{} // one slot: out has bytes

	mu      sync.Mutex
	err     error // why the connection ended; nil: it lives
	opaque  int32
	pending map[int32]*call
	out     []byte        // frames to be written
	room    chan struct{} // closed when out has been taken; nil: nobody waits

	running sync.WaitGroup
}

// call is a request under way. It is told its end by whoever takes it out of Client.pending.
type call struct {
	tell func(*remoting.Command, error)
	stop func() bool // of the context's watch; nil: none; guarded by Client.mu
}

// Dial connects to o.Address; ctx bounds only that.
func Dial(ctx context.Context, o Options) (*Client, error) {
	if o.MaxFrame == 0 {
		o.MaxFrame = remoting.MaxFrame
	}
	d := net.Dialer{Control: limitSilence}
	conn, err := d.DialContext(ctx, "tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("client: connect to %s: %w", o.Address, err)
	}
	return start(conn, o), nil
}

// limitSilence makes the kernel end a connection whose peer has vanished: without it, what we sent is repeated for a quarter of
// an hour before anybody is told.
func limitSilence(_, _ string, raw syscall.RawConn) error {
	var err error
	ctlErr := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds()))
	})
	return errors.Join(ctlErr, err)
}

func start(conn net.Conn, o Options) *Client {
	c := &Client{
		opts:    o,
		conn:    conn,
		done:    make(chan struct{}),
		wake:    make(chan struct{}, 1),
		pending: make(map[int32]*call),
	}
	c.running.Go(c.read)
	c.running.Go(c.write)
	return c
}

// Call sends req and waits for its answer, which the caller owns. ctx bounds it. req's opaque is set; nothing of req is used
// after Call returns.
func (c *Client) Call(ctx context.Context, req *remoting.Command) (*remoting.Command, error) {
	type end struct {
		answer *remoting.Command
		err    error
	}
	ended := make(chan end, 1)
	c.Go(ctx, req, func(answer *remoting.Command, err error) { ended <- end{answer, err} })
	e := <-ended
	return e.answer, e.err
}

// Go sends req; done is called exactly once, with the answer, which it owns, or an error. It is called on one
// of the client's goroutines, or before Go returns, and must not block. Go itself waits while much is waiting to be written.
func (c *Client) Go(ctx context.Context, req *remoting.Command, done func(*remoting.Command, error)) {
	cl := &call{tell: done}
	opaque, err := c.enqueue(ctx, req, cl)
	if err != nil {
		done(nil, err)
		return
	}
	if ctx.Done() == nil {
		return
	}
	stop := context.AfterFunc(ctx, func() {
		if cl := c.take(opaque); cl != nil {
			cl.tell(nil, fmt.Errorf("client: request %d to %s: %w", req.Code, c.opts.Address, ctx.Err()))
		}
	})
	c.mu.Lock()
	waiting := c.pending[opaque] == cl
	cl.stop = stop
	c.mu.Unlock()
	if !waiting {
		stop() // answered meanwhile
	}
}

// Oneway sends req as one-way request; nil means only that the connection had not ended.
func (c *Client) Oneway(req *remoting.Command) error {
	req.Flag |= remoting.FlagOneway
	_, err := c.enqueue(context.Background(), req, nil)
	return err
}

// Close ends the connection; pending requests end with ErrClosed. It returns when the client's goroutines have ended, so it
// must not be called from a callback.
func (c *Client) Close() error {
	c.fail(ErrClosed)
	c.running.Wait()
	return nil
}

// Done is closed when the connection has ended; Err tells why then.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err is the reason why the connection ended, nil while it lives.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// enqueue gives req a free opaque, enters cl under it if not nil, and queues the frame.
func (c *Client) enqueue(ctx context.Context, req *remoting.Command, cl *call) (int32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.awaitRoomLocked(ctx); err != nil {
		return 0, err
	}
	opaque := c.nextOpaqueLocked()
	req.Opaque = opaque
	if err := c.appendLocked(req); err != nil {
		return 0, err
	}
	if cl != nil {
		c.pending[opaque] = cl
	}
	return opaque, nil
}

// nextOpaqueLocked skips those of requests that still wait; there are never 2^31 of them.
func (c *Client) nextOpaqueLocked() int32 {
	for {
		c.opaque = (c.opaque + 1) & (1<<31 - 1)
		if _, used := c.pending[c.opaque]; !used {
			return c.opaque
		}
	}
}

// awaitRoomLocked waits until the writer has caught up; it lets mu go meanwhile.
func (c *Client) awaitRoomLocked(ctx context.Context) error {
	for {
		if c.err != nil {
			return c.err
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("client: request to %s: %w", c.opts.Address, err)
		}
		if len(c.out) < writeLimit {
			return nil
		}
		if c.room == nil {
			c.room = make(chan struct{})
		}
		room := c.room
		c.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
		}
		c.mu.Lock()
	}
}

func (c *Client) appendLocked(cmd *remoting.Command) error {
	before := len(c.out)
	c.out = cmd.AppendFrame(c.out)
	if n := len(c.out) - before - lengthBytes; n > c.opts.MaxFrame {
		c.out = c.out[:before]
		return fmt.Errorf("client: request %d to %s: frame of %d bytes, at most %d is allowed", cmd.Code, c.opts.Address, n, c.opts.MaxFrame)
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return nil
}

// take removes a pending request and with it the duty to tell its end.
func (c *Client) take(opaque int32) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.pending[opaque]
	delete(c.pending, opaque)
	return cl
}

// fail ends the connection for the first reason given and tells all pending requests.
func (c *Client) fail(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	if !errors.Is(err, ErrClosed) {
		err = fmt.Errorf("client: connection to %s lost: %w", c.opts.Address, err)
	}
	c.err = err
	pending := c.pending
	c.pending = nil
	c.out = nil
	c.releaseRoomLocked()
	c.mu.Unlock()

	_ = c.conn.Close() // ends read and write
	close(c.done)
	for _, cl := range pending {
		c.end(cl, nil, err)
	}
}

// end tells a request that has been taken its end.
func (c *Client) end(cl *call, answer *remoting.Command, err error) {
	c.mu.Lock()
	stop := cl.stop // Go may be setting it; then it calls it itself
	c.mu.Unlock()
	if stop != nil {
		stop()
	}
	cl.tell(answer, err)
}

func (c *Client) releaseRoomLocked() {
	if c.room != nil {
		close(c.room)
		c.room = nil
	}
}
