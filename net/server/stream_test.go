package server

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"testing"

	"ringmq/net/remoting"
)

func TestRequestsInAnySplit(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	p := dial(t, s)
	rng := rand.New(rand.NewPCG(1, 2))
	const count = 300
	var stream []byte
	want := make([]string, count)
	for i := range want {
		want[i] = strings.Repeat(string(rune('a'+i%26)), rng.IntN(2000))
		if i%50 == 49 {
			want[i] = strings.Repeat("L", 300_000) // longer than any read
		}
		stream = append(stream, request(int32(i), 10, want[i])...)
	}
	go func() {
		for len(stream) > 0 {
			n := min(1+rng.IntN(5000), len(stream))
			if _, err := p.Write(stream[:n]); err != nil {
				return
			}
			stream = stream[n:]
		}
	}()
	for i := range want {
		if a := p.answer(); a.Opaque != int32(i) || string(a.Body) != want[i] || !a.IsResponse() {
			t.Fatalf("answer %d: opaque %d, flag %d, %d bytes, want %d", i, a.Opaque, a.Flag, len(a.Body), len(want[i]))
		}
	}
	if got := s.Stats(); got.Connections != 1 || got.Refused != 0 {
		t.Errorf("stats %+v, want 1 connection, nothing refused", got)
	}
}

func TestTwoFramesInOnePacketAndFrameCutAtEveryByte(t *testing.T) {
	t.Parallel()
	p := dial(t, start(t, Options{}))
	p.send(append(request(1, 10, "one"), request(2, 10, "two")...))
	for i, want := range []string{"one", "two"} {
		if a := p.answer(); a.Opaque != int32(i+1) || string(a.Body) != want {
			t.Fatalf("opaque %d body %q, want %d %q", a.Opaque, a.Body, i+1, want)
		}
	}
	frame := request(7, 10, "cut")
	for cut := range len(frame) {
		p.send(frame[:cut])
		p.send(append(frame[cut:len(frame):len(frame)], frame...))
		for range 2 {
			if a := p.answer(); a.Opaque != 7 || string(a.Body) != "cut" {
				t.Fatalf("cut at %d: opaque %d body %q", cut, a.Opaque, a.Body)
			}
		}
	}
}

func TestHalfAFrameThenClose(t *testing.T) {
	t.Parallel()
	closed := make(chan Conn, 1)
	s := start(t, Options{Handler: handler{closed: func(c Conn) { closed <- c }}})
	p := dial(t, s)
	frame := request(1, 10, "never whole")
	p.send(frame[:len(frame)/2])
	p.Close()
	await(t, closed, "Closed")
	eventually(t, "no memory is held", func() bool { return s.Stats().Memory == 0 })
}

func TestHostileBytes(t *testing.T) {
	t.Parallel()
	long := func(n uint32, rest string) string {
		return string(binary.BigEndian.AppendUint32(nil, n)) + rest
	}
	framed := func(mark uint32, header string) string {
		return long(uint32(4+len(header)), string(binary.BigEndian.AppendUint32(nil, mark))+header)
	}
	json := func(header string) string { return framed(uint32(len(header)), header) }
	tests := []struct{ name, bytes, remark string }{ // no remark: the connection ends
		{"length 0", long(0, ""), ""},
		{"length 3", long(3, "abc"), ""},
		{"length -1", long(0xffffffff, ""), ""},
		{"length 0x7fffffff", long(0x7fffffff, ""), ""},
		{"length over the limit", long(remoting.MaxFrame+1, ""), ""},
		{"header longer than anything", framed(0xffffff, "0123456789"), ""},
		{"header one byte too long", framed(11, "0123456789"), ""},
		{"http", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", ""},
		{"tls", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", ""},
		{"serialization 7", framed(7<<24|2, "{}"), ""},
		{"null header", json("null"), ""},
		{"array header", json("[]"), ""},
		{"string header", json(`"x"`), ""},
		{"one key of 1 MiB", json(`{"` + strings.Repeat("k", 1<<20)), ""},
		{"nested brackets", json(`{"extFields":{"a":` + strings.Repeat("[", 100_000)), ""},
		{"opaque of 80 bits", json(`{"code":10,"opaque":1208925819614629174706175}`), ""},
		{"code of 80 bits", json(`{"code":1208925819614629174706175,"opaque":5}`), "code"},
		{"nested ext field", json(`{"code":10,"extFields":{"a":{"b":1}},"flag":0,"opaque": 5}`), `"a"`},
		{"binary, remark of 2 GiB", framed(1<<24|21, "\x00\x0a\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x7f\xff\xff\xff\x00\x00\x00\x00"), "remark"},
		{"binary, ext length -1", framed(1<<24|21, "\x00\x0a\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"), "extFields"},
	}
	s := start(t, Options{})
	honest := dial(t, s)
	for _, test := range tests {
		p := dial(t, s)
		p.send([]byte(test.bytes))
		if test.remark == "" {
			p.ended()
		} else {
			a := p.answer()
			if a.Code != remoting.SystemError || a.Opaque != 5 || !a.IsResponse() || !strings.Contains(a.Remark, test.remark) {
				t.Errorf("%s: code %d opaque %d remark %q, want code 1 opaque 5 with %s", test.name, a.Code, a.Opaque, a.Remark, test.remark)
			}
			p.roundTrip(6) // the stream is still in step
		}
		honest.roundTrip(9)
	}
	if got := s.Stats().Refused; got != uint64(len(tests)) {
		t.Errorf("%d refused, want %d", got, len(tests))
	}
}

func TestLargestFrame(t *testing.T) {
	t.Parallel()
	empty := len(request(1, 10, "")) - lengthBytes
	p := dial(t, start(t, Options{MaxFrame: empty + 1000}))
	p.send(request(1, 10, strings.Repeat("x", 1000)))
	if a := p.answer(); len(a.Body) != 1000 {
		t.Errorf("body of %d bytes, want 1000", len(a.Body))
	}
	p.send(request(1, 10, strings.Repeat("x", 1001)))
	p.ended()
}

func TestResponsesAndNotifications(t *testing.T) {
	t.Parallel()
	conns, answers := make(chan Conn, 1), make(chan string, 1)
	s := start(t, Options{
		Handler:  handler{handle: func(c *remoting.Command, r Reply) { conns <- r.Conn(); echo(c, r) }},
		Response: func(c Conn, a *remoting.Command) { answers <- fmt.Sprint(c.ID(), a.Opaque, string(a.Body)) },
	})
	p := dial(t, s)
	p.roundTrip(1)
	c := await(t, conns, "connection")
	if got, want := c.Remote().String(), p.LocalAddr().String(); got != want {
		t.Errorf("remote %s, want %s", got, want)
	}
	if got, want := c.Local().String(), p.RemoteAddr().String(); got != want {
		t.Errorf("local %s, want %s", got, want)
	}
	var note remoting.Command
	note.Reset()
	note.Code, note.Opaque, note.Body = 40, 77, []byte("changed")
	if !c.Send(&note) {
		t.Fatal("Send says the connection is gone")
	}
	if a := p.answer(); a.Code != 40 || a.Opaque != 77 || a.IsResponse() || string(a.Body) != "changed" {
		t.Errorf("notification code %d opaque %d flag %d body %q", a.Code, a.Opaque, a.Flag, a.Body)
	}
	p.send(flagged(77, 0, remoting.FlagResponse, "seen"))
	if got, want := await(t, answers, "response"), fmt.Sprint(c.ID(), 77, "seen"); got != want {
		t.Errorf("response %q, want %q", got, want)
	}
	c.Close()
	p.ended()
	eventually(t, "Send is refused", func() bool { return !c.Send(&note) })
}

func TestClosedOnceAfterTheLastHandle(t *testing.T) {
	t.Parallel()
	var gone once
	s := start(t, Options{Handler: handler{
		handle: func(c *remoting.Command, r Reply) {
			gone.mu.Lock()
			late := gone.seen[r.Conn().ID()] > 0
			gone.mu.Unlock()
			if late {
				t.Error("Handle after Closed")
			}
			if string(c.Body) == "close" {
				r.Conn().Close()
			}
			echo(c, r)
		},
		closed: gone.add,
	}})
	const count = 50
	for range count {
		p := dial(t, s)
		p.send(append(append(request(1, 10, "a"), request(2, 10, "close")...), request(3, 10, "not handled")...))
		for opaque := range int32(2) { // what was answered before the end still arrives
			if a := p.answer(); a.Opaque != opaque+1 {
				t.Fatalf("opaque %d, want %d", a.Opaque, opaque+1)
			}
		}
		p.ended()
	}
	eventually(t, "all are closed", func() bool { return gone.count() == count })
}

func TestShortConnectionsLeaveNothing(t *testing.T) {
	// Not parallel: it counts the descriptors of the process.
	var gone once
	s := start(t, Options{Handler: handler{closed: gone.add}})
	dial(t, s).roundTrip(1)
	files, goroutines := openFiles(t), runtime.NumGoroutine()
	const count = 1000
	for i := range count {
		c, err := net.Dial("tcp", s.Addrs()[0].String())
		if err != nil {
			t.Fatal(err)
		}
		switch i % 4 {
		case 1:
			_, _ = c.Write([]byte("2026-01-01 00:00:00")) // the end may come before
		case 2:
			_ = c.(*net.TCPConn).SetLinger(0)
		case 3:
			_, _ = c.Write(request(1, 10, "no time for the answer"))
			_ = c.(*net.TCPConn).SetLinger(0)
		}
		c.Close()
	}
	eventually(t, "all are closed", func() bool { return s.Stats().Connections == 1 && gone.count() == count })
	eventually(t, "descriptors are back", func() bool { return openFiles(t) <= files })
	eventually(t, "goroutines are back", func() bool { return runtime.NumGoroutine() <= goroutines })
	if got := s.Stats().Memory; got != 0 {
		t.Errorf("%d bytes held, want 0", got)
	}
}
