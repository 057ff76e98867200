package server

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	"ringmq/net/remoting"
)

func TestAnswersFromOtherGoroutinesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	type job struct {
		r    Reply
		body string
	}
	jobs := make(chan job, 64)
	var s *Server
	var worker sync.WaitGroup
	ready := make(chan struct{})
	worker.Go(func() {
		<-ready
		var answer remoting.Command
		for j := range jobs {
			answer.Reset()
			answer.Body = []byte(j.body)
			switch len(j.body) % 3 {
			case 0:
				j.r.Write(&answer)
			case 1:
				j.r.Defer(&answer)
			case 2:
				j.r.WriteBody(&answer, [][]byte{[]byte(j.body), bytes.Repeat([]byte("."), 10_000)}, nil)
			}
			if len(jobs) == 0 {
				s.Kick()
			}
		}
	})
	s = start(t, Options{Handler: handler{handle: func(c *remoting.Command, r Reply) { jobs <- job{r, string(c.Body)} }}})
	close(ready)
	const conns, count = 4, 500
	var readers sync.WaitGroup
	for range conns {
		p := dial(t, s)
		readers.Go(func() {
			go func() {
				for i := range count {
					if _, err := p.Write(request(int32(i), 10, strings.Repeat("b", i%7))); err != nil {
						return
					}
				}
			}()
			for i := range count {
				a := p.answer()
				body := strings.TrimRight(string(a.Body), ".")
				if a.Opaque != int32(i) || body != strings.Repeat("b", i%7) {
					t.Errorf("answer %d: opaque %d, body %q", i, a.Opaque, body)
					return
				}
			}
		})
	}
	readers.Wait()
	closeServer(t, s)
	close(jobs)
	worker.Wait()
}

func TestDeferWaitsForKick(t *testing.T) {
	t.Parallel()
	replies := make(chan Reply, 8)
	s := start(t, Options{Handler: handler{handle: func(_ *remoting.Command, r Reply) { replies <- r }}})
	p := dial(t, s)
	for i := range int32(3) {
		p.send(request(i, 10, ""))
	}
	var c *conn
	for range 3 {
		r := await(t, replies, "request")
		c = r.Conn().(*conn)
		var answer remoting.Command
		r.Defer(&answer)
	}
	if c.waiting.Load() == 0 || c.loop.posted.Load() {
		t.Errorf("%d bytes wait, posted %v, want some and false", c.waiting.Load(), c.loop.posted.Load())
	}
	s.Kick()
	for i := range int32(3) {
		if a := p.answer(); a.Opaque != i {
			t.Errorf("opaque %d, want %d", a.Opaque, i)
		}
	}
}

func TestSecondAnswerPanics(t *testing.T) {
	t.Parallel()
	s := &Server{}
	s.replies.New = func() any { return new(reply) }
	r := s.newReply(&conn{server: s, closed: true}, &remoting.Command{})
	r.Write(&remoting.Command{})
	defer func() {
		if got, _ := recover().(string); !strings.HasPrefix(got, "BUG:") {
			t.Errorf("panic %q, want BUG:", got)
		}
	}()
	r.Write(&remoting.Command{})
}

func TestOnewayIsNeverAnswered(t *testing.T) {
	t.Parallel()
	held := newHold()
	s := start(t, Options{Handler: handler{handle: func(c *remoting.Command, r Reply) {
		if c.Code == 11 {
			r.WriteBody(&remoting.Command{}, [][]byte{make([]byte, 10_000)}, held)
			return
		}
		echo(c, r)
	}}})
	p := dial(t, s)
	p.send(flagged(1, 10, remoting.FlagOneway, "quiet"))
	p.send(flagged(2, 11, remoting.FlagOneway, ""))
	p.roundTrip(3)
	held.wait(t)
}

func TestWriteBody(t *testing.T) {
	t.Parallel()
	tests := []struct{ pieces, size int }{{0, 0}, {1, 0}, {1, 100}, {3, 5000}, {1023, 10}, {1024, 10}, {3000, 7}, {2500, 1000}, {1, 5 << 20}}
	holds := make([]*hold, len(tests))
	for i := range holds {
		holds[i] = newHold()
	}
	pieces := make([][]byte, 3000) // reused for every reply
	s := start(t, Options{Loops: 1, Handler: handler{handle: func(c *remoting.Command, r Reply) {
		if c.Code == 10 {
			echo(c, r)
			return
		}
		test := tests[c.Opaque]
		for i := range test.pieces {
			pieces[i] = bytes.Repeat([]byte{byte(i)}, test.size)
		}
		r.WriteBody(&remoting.Command{Code: 19}, pieces[:test.pieces], holds[c.Opaque])
	}}})
	p := dial(t, s)
	var all []byte
	for i := range tests {
		all = append(all, request(1000, 10, "before")...)
		all = append(all, request(int32(i), 11, "")...)
	}
	p.send(append(all, request(1001, 10, "last")...))
	for i, test := range tests {
		if a := p.answer(); a.Opaque != 1000 || string(a.Body) != "before" {
			t.Fatalf("before %d: opaque %d, %d bytes", i, a.Opaque, len(a.Body))
		}
		a := p.answer()
		var want []byte
		for n := range test.pieces {
			want = append(want, bytes.Repeat([]byte{byte(n)}, test.size)...)
		}
		if a.Opaque != int32(i) || a.Code != 19 || !bytes.Equal(a.Body, want) {
			t.Fatalf("%d pieces of %d: opaque %d, code %d, %d bytes", test.pieces, test.size, a.Opaque, a.Code, len(a.Body))
		}
		holds[i].wait(t)
	}
	if a := p.answer(); a.Opaque != 1001 || string(a.Body) != "last" {
		t.Errorf("last: opaque %d body %q", a.Opaque, a.Body)
	}
}

// A body is given back once when its peer is gone before the answer, dies in the middle of it, or the server closes.
func TestBodyIsReleasedWhateverHappens(t *testing.T) {
	t.Parallel()
	replies, closed := make(chan Reply, 4), make(chan Conn, 4)
	s := start(t, Options{Handler: handler{
		handle: func(_ *remoting.Command, r Reply) { replies <- r },
		closed: func(c Conn) { closed <- c },
	}})
	large := [][]byte{make([]byte, 8<<20), make([]byte, 8<<20)}
	ask := func() (peer, Reply) {
		p := dial(t, s)
		p.send(request(1, 11, ""))
		return p, await(t, replies, "request")
	}

	before := newHold()
	p, r := ask()
	p.Close()
	await(t, closed, "Closed")
	r.WriteBody(&remoting.Command{}, large, before)
	before.wait(t)

	amid := newHold()
	p, r = ask()
	r.WriteBody(&remoting.Command{}, large, amid)
	if _, err := p.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_ = p.SetLinger(0)
	p.Close()
	await(t, closed, "Closed")
	amid.wait(t)

	atClose := newHold()
	_, r = ask()
	r.(*reply).conn.loop.shut() // the task that would send it never runs
	r.WriteBody(&remoting.Command{}, large, atClose)
	select {
	case <-atClose.done:
		t.Error("released before it was sent")
	default:
	}
	_, late := ask()
	closeServer(t, s)
	atClose.wait(t)

	after := newHold()
	late.WriteBody(&remoting.Command{}, large, after)
	after.wait(t)
	if got := s.Stats(); got.Memory != 0 || got.Connections != 0 {
		t.Errorf("after Close %+v, want nothing", got)
	}
}

func TestCloseSendsWhatIsQueued(t *testing.T) {
	t.Parallel()
	replies := make(chan Reply, 1)
	s := start(t, Options{Handler: handler{handle: func(_ *remoting.Command, r Reply) { replies <- r }}})
	p := dial(t, s)
	p.send(request(5, 10, ""))
	r := await(t, replies, "request")
	r.Defer(&remoting.Command{Code: 3})
	closeServer(t, s)
	if a := p.answer(); a.Opaque != 5 || a.Code != 3 {
		t.Errorf("opaque %d code %d, want 5 and 3", a.Opaque, a.Code)
	}
	p.ended()
	s.Kick() // must not reach the loops any more
}

func TestClosingWhileAnswering(t *testing.T) {
	t.Parallel()
	for range 20 {
		var held sync.WaitGroup
		s := start(t, Options{Handler: handler{handle: func(_ *remoting.Command, r Reply) {
			held.Go(func() {
				h := newHold()
				r.WriteBody(&remoting.Command{}, [][]byte{make([]byte, 20_000)}, h)
				<-h.done
			})
		}}})
		for range 4 {
			p := dial(t, s)
			for i := range int32(50) {
				p.send(request(i, 11, ""))
			}
		}
		closeServer(t, s)
		held.Wait()
	}
}

func TestCloseGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	s := start(t, Options{Handler: handler{handle: func(_ *remoting.Command, r Reply) {
		close(entered)
		<-leave
		r.Write(&remoting.Command{})
	}}})
	dial(t, s).send(request(1, 10, ""))
	await(t, entered, "request")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Close(ctx); err == nil {
		t.Error("Close returned nil with a handler at work")
	}
	close(leave)
}

func TestPeersThatLeaveWithAnswersUnderWay(t *testing.T) {
	t.Parallel()
	const rounds, count = 100, 200
	replies := make(chan Reply, count)
	closed := make(chan Conn, rounds)
	s := start(t, Options{Handler: handler{
		handle: func(_ *remoting.Command, r Reply) { replies <- r },
		closed: func(c Conn) { closed <- c },
	}})
	var all []byte
	for i := range int32(count) {
		all = append(all, request(i, 10, "")...)
	}
	var answer remoting.Command
	for round := range rounds {
		p := dial(t, s)
		p.send(all)
		for i := range count {
			r := await(t, replies, "request")
			if i == round {
				_ = p.SetLinger(0)
				p.Close()
			}
			if i%2 == 0 {
				r.Write(&answer)
			} else {
				r.Defer(&answer)
			}
		}
		s.Kick()
		await(t, closed, "Closed")
	}
	eventually(t, "nothing is held", func() bool { st := s.Stats(); return st.Memory == 0 && st.Connections == 0 })
}

func TestAnswerHasTheFormOfItsRequest(t *testing.T) {
	t.Parallel()
	p := dial(t, start(t, Options{}))
	for i, form := range []remoting.Serialize{remoting.JSON, remoting.RocketMQ, remoting.JSON} {
		req := remoting.Command{Code: 10, Opaque: int32(i), Serialize: form, Body: []byte("x")}
		p.send(req.AppendFrame(nil))
		if a := p.answer(); a.Serialize != form || a.Opaque != int32(i) {
			t.Errorf("form %d opaque %d, want %d and %d", a.Serialize, a.Opaque, form, i)
		}
	}
}
