package server

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ringmq/net/remoting"
)

// patience bounds every wait of these tests; none of them takes that long.
const patience = 20 * time.Second

// handler is a Handler of two functions, either may be nil: no handle echoes.
type handler struct {
	handle func(*remoting.Command, Reply)
	closed func(Conn)
}

func (h handler) Handle(c *remoting.Command, r Reply) {
	if h.handle == nil {
		echo(c, r)
		return
	}
	h.handle(c, r)
}

func (h handler) Closed(c Conn) {
	if h.closed != nil {
		h.closed(c)
	}
}

// echo answers with the request's code and body.
func echo(c *remoting.Command, r Reply) {
	var answer remoting.Command
	answer.Code, answer.Body = c.Code, c.Body
	r.Write(&answer)
}

func start(t testing.TB, o Options) *Server {
	t.Helper()
	began := time.Now()
	return startAt(t, o, func() time.Duration { return time.Since(began) })
}

func startAt(t testing.TB, o Options, now func() time.Duration) *Server {
	t.Helper()
	if o.Addresses == nil {
		o.Addresses = []string{"127.0.0.1:0"}
	}
	if o.Handler == nil {
		o.Handler = handler{}
	}
	if o.Loops == 0 {
		o.Loops = 2
	}
	s, err := listen(o, now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeServer(t, s) })
	return s
}

func closeServer(t testing.TB, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
}

// peer is a client of a test on a plain socket.
type peer struct {
	*net.TCPConn
	t testing.TB
}

func dial(t testing.TB, s *Server) peer {
	t.Helper()
	c, err := net.Dial("tcp", s.Addrs()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return peer{c.(*net.TCPConn), t}
}

func (p peer) send(b []byte) {
	p.t.Helper()
	if _, err := p.Write(b); err != nil {
		p.t.Fatalf("write of %d bytes: %v", len(b), err)
	}
}

// answer reads one frame.
func (p peer) answer() *remoting.Command {
	p.t.Helper()
	var length [4]byte
	if _, err := io.ReadFull(p, length[:]); err != nil {
		p.t.Fatalf("read of a frame length: %v", err)
	}
	frame := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err := io.ReadFull(p, frame); err != nil {
		p.t.Fatalf("read of a frame of %d bytes: %v", len(frame), err)
	}
	c := new(remoting.Command)
	if err := c.Decode(frame); err != nil {
		p.t.Fatal(err)
	}
	return c
}

// ended reads until the server closes the connection.
func (p peer) ended() {
	p.t.Helper()
	if n, err := io.Copy(io.Discard, p); err != nil && os.IsTimeout(err) {
		p.t.Fatalf("connection still open after %d more bytes", n)
	}
}

func (p peer) roundTrip(opaque int32) {
	p.t.Helper()
	p.send(request(opaque, 10, "ping"))
	if a := p.answer(); a.Opaque != opaque || string(a.Body) != "ping" {
		p.t.Fatalf("answer to %d: opaque %d, body %q", opaque, a.Opaque, a.Body)
	}
}

func request(opaque, code int32, body string) []byte {
	return flagged(opaque, code, 0, body)
}

func flagged(opaque, code, flag int32, body string) []byte {
	var c remoting.Command
	c.Reset()
	c.Opaque, c.Code, c.Flag, c.Body = opaque, code, flag, []byte(body)
	return c.AppendFrame(nil)
}

// hold counts releases.
type hold struct {
	released atomic.Int32
	done     chan struct{}
}

func newHold() *hold { return &hold{done: make(chan struct{})} }

func (h *hold) Release() {
	if h.released.Add(1) == 1 {
		close(h.done)
	}
}

func (h *hold) wait(t testing.TB) {
	t.Helper()
	await(t, h.done, "release of a body")
	if n := h.released.Load(); n != 1 {
		t.Fatalf("released %d times, want once", n)
	}
}

func await[T any](t testing.TB, ch <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(patience):
		t.Fatalf("no %s", what)
	}
	return v
}

// eventually is for what only the system can tell, such as its count of open files.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("never true: %s", what)
		}
	}
}

func openFiles(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// once collects what Closed was called with.
type once struct {
	mu   sync.Mutex
	seen map[uint64]int
}

func (o *once) add(c Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen == nil {
		o.seen = make(map[uint64]int)
	}
	o.seen[c.ID()]++
}

// count is the number of different connections; it panics when one was seen twice.
func (o *once) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, n := range o.seen {
		if n != 1 {
			panic(id)
		}
	}
	return len(o.seen)
}
