package server

import (
	"context"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"ringmq/net/remoting"
)

// fakeSocket stands for gnet's connection and loop, so that what the package itself costs and does can be seen alone.
type fakeSocket struct {
	gnet.Conn
	written  int
	buffered int
}

func (f *fakeSocket) Write(b []byte) (int, error) { f.written += len(b); return len(b), nil }
func (f *fakeSocket) OutboundBuffered() int       { return f.buffered }
func (f *fakeSocket) Writev(bs [][]byte) (int, error) {
	n := 0
	for _, b := range bs {
		n += len(b)
	}
	f.written += n
	return n, nil
}

// fakeLoop runs a posted task when told to.
type fakeLoop struct {
	gnet.EventLoop
	posted gnet.Runnable
}

func (f *fakeLoop) Execute(_ context.Context, r gnet.Runnable) error { f.posted = r; return nil }
func (f *fakeLoop) Close(g gnet.Conn) error                          { return nil }

func fakeConn(h Handler) (*conn, *fakeSocket, *fakeLoop) {
	s := &Server{opts: Options{Handler: h}.withDefaults(), nudge: make(chan struct{}, 1), now: func() time.Duration { return 0 }}
	s.noise.log = s.opts.Logger
	s.replies.New = func() any { return new(reply) }
	s.batches.New = func() any { return new(batch) }
	el := new(fakeLoop)
	l := &loop{server: s, el: el, conns: make(map[*conn]struct{})}
	s.loops.Store(&[]*loop{l})
	socket, c := new(fakeSocket), &conn{server: s}
	c.opened(socket, l)
	return c, socket, el
}

// sendAnswer answers as the send of a message is answered.
func sendAnswer(answer *remoting.Command) *remoting.Command {
	answer.Reset()
	answer.SetStr("msgId", "0A0000010000000000000000000000AB")
	answer.SetInt("queueId", 3)
	answer.SetInt("queueOffset", 1<<40)
	return answer
}

// sends are n requests like those of a producer with bodies of a KiB, and the half of one more that the next read completes.
func sends(n int) (whole, begin, rest []byte) {
	var req remoting.Command
	for i := range n {
		req.Reset()
		req.Code, req.Opaque = remoting.SendMessage, int32(i+1)
		for _, name := range []string{"producerGroup", "topic", "defaultTopic", "properties"} {
			req.SetStr(name, "PleaseRenameUniqueGroup")
		}
		req.SetInt("queueId", 3)
		req.Body = make([]byte, 1024)
		whole = req.AppendFrame(whole)
	}
	last := req.AppendFrame(nil)
	return whole, last[:500], last[500:]
}

func TestNoAllocationPerRequest(t *testing.T) {
	var answer remoting.Command
	var waiting []Reply
	tests := []struct {
		name   string
		handle func(*remoting.Command, Reply)
	}{
		{"answered on the loop", func(_ *remoting.Command, r Reply) { r.Write(sendAnswer(&answer)) }},
		{"answered by Defer and Kick", func(_ *remoting.Command, r Reply) { waiting = append(waiting, r) }},
	}
	for _, test := range tests {
		c, socket, el := fakeConn(handler{handle: test.handle})
		whole, begin, rest := sends(40)
		turn := func() {
			c.receive(whole)
			c.receive(begin)
			c.receive(rest)
			for _, r := range waiting {
				r.Defer(sendAnswer(&answer))
			}
			waiting = waiting[:0]
			c.server.Kick()
			if el.posted != nil {
				_ = el.posted.Run(context.Background())
				el.posted = nil
			}
		}
		turn()
		perTurn := socket.written
		if n := testing.AllocsPerRun(100, turn); n != 0 && !raceEnabled {
			t.Errorf("%s: %v allocations for 41 requests, want 0", test.name, n)
		}
		if perTurn == 0 || socket.written != 102*perTurn {
			t.Errorf("%s: %d bytes written in 102 turns, want as many in each (%d)", test.name, socket.written, perTurn)
		}
	}
}

// FuzzStream feeds bytes in random reads: no panic, no more memory than a small multiple of what came, and the same requests
// as in one read.
func FuzzStream(f *testing.F) {
	whole, begin, _ := sends(3)
	f.Add(append(whole, begin...), uint64(1))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), uint64(2))
	f.Add(append(request(1, 10, "a"), 0, 0, 0, 9, 0, 0, 0, 5, '{'), uint64(3))
	f.Add(append(request(1, 10, "a"), 0, 0xff, 0xff, 0xff, 0, 0, 0, 5, '{'), uint64(4))
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		var bodies [2][]byte
		for i := range bodies {
			c, _, _ := fakeConn(handler{handle: func(cmd *remoting.Command, r Reply) {
				bodies[i] = append(append(bodies[i], byte(cmd.Opaque)), cmd.Body...)
				r.Write(&remoting.Command{})
			}})
			rng := rand.New(rand.NewPCG(seed, 0))
			for rest := stream; len(rest) > 0; {
				n := len(rest)
				if i == 1 {
					n = 1 + rng.IntN(n)
				}
				c.receive(rest[:n])
				rest = rest[n:]
			}
			if limit := 8*len(stream) + 2048; cap(c.in) > limit {
				t.Errorf("%d bytes held for %d that came", cap(c.in), len(stream))
			}
		}
		if string(bodies[0]) != string(bodies[1]) {
			t.Errorf("requests %q in one read, %q in several", bodies[0], bodies[1])
		}
	})
}

// A backlog kept by gnet must not be a list of thousands of small pieces.
func TestSmallPiecesAreJoinedForABackloggedSocket(t *testing.T) {
	c, socket, _ := fakeConn(handler{})
	socket.buffered = 1
	var pieces [][]byte
	for range 2000 {
		pieces = append(pieces, make([]byte, 100))
	}
	h := newHold()
	c.writeBody(&remoting.Command{}, pieces, h)
	c.flushListed()
	h.wait(t)
	if socket.written < 200_000 || len(c.loop.iov) != 2001 {
		t.Errorf("%d bytes written of %d pieces", socket.written, len(c.loop.iov))
	}
	for _, p := range c.loop.iov {
		if p != nil {
			t.Fatal("the loop keeps a piece alive")
		}
	}
}

func TestBuffersKeepOnlyALittle(t *testing.T) {
	var p buffers
	for _, n := range []int{1, 1023, 1024, 1025, 70_000, 1 << 20, 1<<20 + 1, 16<<20 + 4} {
		b := p.get(n)
		if len(b) != 0 || cap(b) < n || cap(b) > max(2*n, 1024) {
			t.Errorf("get(%d): length %d capacity %d", n, len(b), cap(b))
		}
		p.put(b)
	}
	for range 100 {
		p.put(make([]byte, 0, 1<<20))
	}
	if p.size > pooledBytes {
		t.Errorf("%d bytes kept, want at most %d", p.size, pooledBytes)
	}
	p.put(nil)
	if len(p.mapped) != 0 {
		t.Errorf("%d buffers are still mapped", len(p.mapped))
	}
}

// TestLargeFramesLeaveNothing: frames of the greatest size, whole or broken off, make no garbage, and nothing of them stays mapped.
func TestLargeFramesLeaveNothing(t *testing.T) {
	s := start(t, Options{Loops: 1, Handler: handler{handle: func(c *remoting.Command, r Reply) {
		var answer remoting.Command
		r.Write(&answer)
	}}})
	frame := request(1, 10, strings.Repeat("x", 16<<20-1000))
	var before, after runtime.MemStats
	const rounds = 5
	for n := range rounds + 1 {
		if n == 1 {
			runtime.ReadMemStats(&before)
		}
		p := dial(t, s)
		p.send(frame)
		p.answer()
		p.send(frame[:5<<20])
		p.Close()
		eventually(t, "connection ended", func() bool { return s.Stats().Connections == 0 })
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > uint64(len(frame)) {
		t.Errorf("%d bytes allocated for %d frames of %d", n, rounds, len(frame))
	}
	for _, l := range *s.loops.Load() {
		if n := len(l.buffers.mapped); n != 0 {
			t.Errorf("%d buffers are still mapped", n)
		}
	}
}

// benchmarkSocket runs conns connections with window requests of a KiB each under way.
func benchmarkSocket(b *testing.B, conns, window int, h Handler, after func(*Server)) {
	s := start(b, Options{Handler: h})
	if after != nil {
		after(s)
	}
	whole, _, _ := sends(window)
	peers := make([]net.Conn, conns)
	answers := 0 // bytes of the answers to one window
	for i := range peers {
		p := dial(b, s)
		peers[i] = p
		p.send(whole)
		answers = 0
		for range window {
			answers += len(p.answer().AppendFrame(nil))
		}
		_ = p.SetDeadline(time.Time{})
	}
	b.SetBytes(int64(len(whole) / window))
	b.ReportAllocs()
	perPeer := make(chan struct{}, conns)
	b.ResetTimer()
	turns := max(1, b.N/(window*conns))
	for _, p := range peers {
		go func() {
			defer func() { perPeer <- struct{}{} }()
			buf := make([]byte, answers)
			for range turns {
				if _, err := p.Write(whole); err != nil {
					b.Error(err)
					return
				}
				for got := 0; got < len(buf); {
					n, err := p.Read(buf[got:])
					if err != nil {
						b.Error(err)
						return
					}
					got += n
				}
			}
		}()
	}
	for range peers {
		<-perPeer
	}
	b.StopTimer()
	b.ReportMetric(float64(turns*window*conns)/b.Elapsed().Seconds(), "req/s")
}

func BenchmarkOnLoop(b *testing.B) {
	answers := make(chan *remoting.Command, 2) // one per loop
	for range cap(answers) {
		answers <- new(remoting.Command)
	}
	benchmarkSocket(b, 16, 64, handler{handle: func(_ *remoting.Command, r Reply) {
		a := <-answers
		r.Write(sendAnswer(a))
		answers <- a
	}}, nil)
}

// BenchmarkDeferred answers from one other goroutine, as the flusher does.
func BenchmarkDeferred(b *testing.B) {
	requests := make(chan Reply, 16*64)
	benchmarkSocket(b, 16, 64, handler{handle: func(_ *remoting.Command, r Reply) { requests <- r }}, func(s *Server) {
		done := make(chan struct{})
		b.Cleanup(func() { close(done) })
		go func() {
			var answer remoting.Command
			for {
				select {
				case r := <-requests:
					r.Defer(sendAnswer(&answer))
				case <-done:
					return
				}
				for n := len(requests); n > 0; n-- {
					(<-requests).Defer(sendAnswer(&answer))
				}
				s.Kick()
			}
		}()
	})
}

func BenchmarkEcho1KiB(b *testing.B) {
	benchmarkSocket(b, 16, 64, handler{}, nil)
}
