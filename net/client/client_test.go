package client

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ringmq/net/remoting"
)

// patience bounds every wait of these tests; none of them takes that long.
const patience = 20 * time.Second

// fakeServer accepts and serves each connection with a function.
type fakeServer struct {
	t    *testing.T
	l    net.Listener
	open atomic.Int32
	wg   sync.WaitGroup
}

func serve(t *testing.T, f func(*serverSide)) *fakeServer {
	t.Helper()
	return serveAt(t, "127.0.0.1:0", f)
}

func serveAt(t *testing.T, address string, f func(*serverSide)) *fakeServer {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := &fakeServer{t: t, l: l}
	s.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.open.Add(1)
			s.wg.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(patience))
				f(&serverSide{c, bufio.NewReader(c)})
			})
		}
	})
	t.Cleanup(s.stop)
	return s
}

func (s *fakeServer) stop() {
	s.l.Close()
	s.wg.Wait()
}

func (s *fakeServer) addr() string { return s.l.Addr().String() }

type serverSide struct {
	net.Conn
	in *bufio.Reader
}

// next reads a request; nil at the end of the connection.
func (s *serverSide) next() *remoting.Command {
	var length [4]byte
	if _, err := io.ReadFull(s.in, length[:]); err != nil {
		return nil
	}
	frame := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err := io.ReadFull(s.in, frame); err != nil {
		return nil
	}
	c := new(remoting.Command)
	if err := c.Decode(frame); err != nil {
		return nil
	}
	return c
}

func (s *serverSide) answer(req *remoting.Command, body string) {
	var a remoting.Command
	a.Answer(req, 0)
	a.Body = []byte(body)
	_, _ = s.Write(a.AppendFrame(nil))
}

func (s *serverSide) echoAll() {
	for req := s.next(); req != nil; req = s.next() {
		s.answer(req, string(req.Body))
	}
}

func dial(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := Dial(soon(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func request(body string) *remoting.Command {
	var c remoting.Command
	c.Reset()
	c.Code, c.Body = 10, []byte(body)
	return &c
}

func TestCallsFromManyGoroutines(t *testing.T) {
	t.Parallel()
	c := dial(t, Options{Address: serve(t, (*serverSide).echoAll).addr()})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				body := fmt.Sprint(g, " ", i)
				a, err := c.Call(soon(t), request(body))
				if err != nil || string(a.Body) != body {
					t.Errorf("Call(%q): %v", body, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestAnswersInAnyOrder(t *testing.T) {
	t.Parallel()
	const count = 50
	s := serve(t, func(s *serverSide) {
		var reqs []*remoting.Command
		for range count {
			reqs = append(reqs, s.next())
		}
		for i := range reqs {
			req := reqs[len(reqs)-1-i]
			s.answer(req, string(req.Body))
			s.answer(req, "a second answer, dropped")
		}
		s.echoAll()
	})
	c := dial(t, Options{Address: s.addr()})
	got := make(chan string, count)
	for i := range count {
		want := fmt.Sprint(i)
		c.Go(soon(t), request(want), func(a *remoting.Command, err error) {
			if err != nil || string(a.Body) != want {
				got <- fmt.Sprintf("answer to %s: %v", want, err)
				return
			}
			got <- ""
		})
	}
	for range count {
		if fault := <-got; fault != "" {
			t.Error(fault)
		}
	}
	if a, err := c.Call(soon(t), request("last")); err != nil || string(a.Body) != "last" {
		t.Errorf("last: %v", err)
	}
}

func TestContextEndsACall(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	s := serve(t, func(s *serverSide) {
		first := s.next()
		close(asked)
		second := s.next()
		s.answer(first, "too late")
		s.answer(second, "in time")
		s.echoAll()
	})
	c := dial(t, Options{Address: s.addr()})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-asked
		cancel()
	}()
	if _, err := c.Call(ctx, request("")); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), s.addr()) {
		t.Errorf("error %v, want Canceled with the address", err)
	}
	if _, err := c.Call(ctx, request("")); !errors.Is(err, context.Canceled) {
		t.Errorf("call with an ended context: %v", err)
	}
	if a, err := c.Call(soon(t), request("")); err != nil || string(a.Body) != "in time" {
		t.Errorf("next call: %v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.pending); n != 0 {
		t.Errorf("%d requests pending, want 0", n)
	}
}

func TestLossTellsEveryRequestOnce(t *testing.T) {
	t.Parallel()
	const count = 100
	s := serve(t, func(s *serverSide) {
		for range count / 2 {
			s.next()
		}
	})
	c := dial(t, Options{Address: s.addr()})
	var told [count]atomic.Int32
	var wg sync.WaitGroup
	wg.Add(count)
	for i := range count {
		c.Go(soon(t), request("x"), func(a *remoting.Command, err error) {
			if told[i].Add(1) > 1 {
				panic("told twice")
			}
			if a != nil || err == nil || !strings.Contains(err.Error(), s.addr()) {
				t.Errorf("end %v, want an error with the address", err)
			}
			wg.Done()
		})
	}
	wg.Wait()
	<-c.Done()
	if c.Err() == nil || c.Oneway(request("")) == nil {
		t.Error("no error after the loss")
	}
}

func TestCloseTellsEveryRequest(t *testing.T) {
	t.Parallel()
	s := serve(t, func(s *serverSide) {
		for s.next() != nil {
		}
	})
	c := dial(t, Options{Address: s.addr()})
	ended := make(chan error, 10)
	for range cap(ended) {
		c.Go(context.Background(), request(""), func(_ *remoting.Command, err error) { ended <- err })
	}
	c.Close()
	c.Close()
	for range cap(ended) {
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Errorf("error %v, want ErrClosed", err)
		}
	}
}

func TestRequestsOfTheServer(t *testing.T) {
	t.Parallel()
	answers := make(chan *remoting.Command, 3)
	s := serve(t, func(s *serverSide) {
		for _, code := range []int32{40, 307, 99} {
			req := request("who?")
			req.Code, req.Opaque = code, 1000+code
			if code == 40 {
				req.Flag = remoting.FlagOneway
			}
			_, _ = s.Write(req.AppendFrame(nil))
		}
		for range 2 {
			answers <- s.next()
		}
	})
	var codes []int32
	dial(t, Options{Address: s.addr(), Request: func(req *remoting.Command) *remoting.Command {
		codes = append(codes, req.Code)
		return &remoting.Command{Code: req.Code, Body: []byte("me")}
	}})
	for _, code := range []int32{307, 99} { // the one-way request is not answered
		if a := <-answers; a.Opaque != 1000+code || !a.IsResponse() || a.Code != code || string(a.Body) != "me" {
			t.Errorf("answer to %d: opaque %d, code %d", code, a.Opaque, a.Code)
		}
	}
	if len(codes) != 3 {
		t.Errorf("requests %v, want 3", codes)
	}
}

func TestRequestOfTheServerWithoutHandler(t *testing.T) {
	t.Parallel()
	answer := make(chan *remoting.Command)
	s := serve(t, func(s *serverSide) {
		req := request("")
		req.Code, req.Opaque = 307, 5
		_, _ = s.Write(req.AppendFrame(nil))
		answer <- s.next()
	})
	dial(t, Options{Address: s.addr()})
	if a := <-answer; a.Code != remoting.RequestCodeNotSupported || a.Opaque != 5 || !strings.Contains(a.Remark, "307") {
		t.Errorf("code %d, opaque %d, remark %q", a.Code, a.Opaque, a.Remark)
	}
}

func TestFramesOverTheLimit(t *testing.T) {
	t.Parallel()
	c := dial(t, Options{Address: serve(t, (*serverSide).echoAll).addr(), MaxFrame: 1000})
	if _, err := c.Call(soon(t), request(strings.Repeat("x", 1000))); err == nil || !strings.Contains(err.Error(), "1000") {
		t.Errorf("oversize request: %v, want an error naming the limit", err)
	}
	if _, err := c.Call(soon(t), request("small")); err != nil {
		t.Errorf("after it: %v", err)
	}
	for _, hostile := range []string{"\x00\x00\x00\x00", "\xff\xff\xff\xff", "\x00\x00\x03\xe9", "HTTP", "\x00\x00\x00\x08\x00\x00\x00\x09{}{}"} {
		s := serve(t, func(s *serverSide) {
			_, _ = s.Write([]byte(hostile))
			s.next()
		})
		c := dial(t, Options{Address: s.addr(), MaxFrame: 1000})
		<-c.Done()
		if err := c.Err(); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%q: %v, want an error of the frame", hostile, err)
		}
	}
}

func TestWhoSendsMuchWaitsForTheSocket(t *testing.T) {
	t.Parallel()
	reading := make(chan struct{})
	s := serve(t, func(s *serverSide) {
		<-reading
		s.echoAll()
	})
	c := dial(t, Options{Address: s.addr()})
	ctx, cancel := context.WithCancel(context.Background())
	var sent, failed atomic.Int32
	var ended sync.WaitGroup
	waits := make(chan struct{})
	go func() {
		defer close(waits)
		for ctx.Err() == nil {
			ended.Add(1)
			sent.Add(1)
			c.Go(ctx, request(strings.Repeat("x", 1<<20)), func(_ *remoting.Command, err error) {
				if err != nil {
					failed.Add(1)
				}
				ended.Done()
			})
		}
	}()
	full := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.room != nil
	}
	for !full() {
		runtime.Gosched() // until the kernel's buffers are full
	}
	cancel()
	<-waits
	ended.Wait()
	if sent.Load() != failed.Load() || sent.Load() > 32 {
		t.Errorf("%d sent, %d failed, want all of a few", sent.Load(), failed.Load())
	}
	close(reading)
	if a, err := c.Call(soon(t), request("after")); err != nil || string(a.Body) != "after" {
		t.Errorf("after it: %v", err)
	}
}

func TestDialNamesTheAddress(t *testing.T) {
	t.Parallel()
	s := serve(t, (*serverSide).echoAll)
	s.stop()
	if _, err := Dial(soon(t), Options{Address: s.addr()}); err == nil || !strings.Contains(err.Error(), s.addr()) {
		t.Errorf("error %v, want one with the address", err)
	}
}

func BenchmarkGo(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		s := &serverSide{c, bufio.NewReader(c)}
		var out []byte
		for req := s.next(); req != nil; req = s.next() {
			var a remoting.Command
			a.Answer(req, 0)
			out = a.AppendFrame(out)
			if s.in.Buffered() == 0 {
				_, _ = c.Write(out)
				out = out[:0]
			}
		}
	}()
	c, err := Dial(context.Background(), Options{Address: l.Addr().String()})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	window := make(chan struct{}, 64)
	req := request(strings.Repeat("x", 1024))
	done := func(_ *remoting.Command, err error) {
		if err != nil {
			b.Error(err)
		}
		<-window
	}
	b.ReportAllocs()
	for b.Loop() {
		window <- struct{}{}
		c.Go(context.Background(), req, done)
	}
	for range cap(window) {
		window <- struct{}{}
	}
}
