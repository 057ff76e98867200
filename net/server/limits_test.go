package server

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ringmq/net/remoting"
)

// slowPeer asks for answers of a MiB each and reads none.
func slowPeer(t *testing.T, s *Server, requests int) peer {
	t.Helper()
	p := dial(t, s)
	for i := range requests {
		p.send(request(int32(i), 11, ""))
	}
	return p
}

// mebibytes answers code 11 with a body of a MiB, others with an echo.
func mebibytes(handled *atomic.Int32) func(*remoting.Command, Reply) {
	body := [][]byte{make([]byte, 1<<20)}
	return func(c *remoting.Command, r Reply) {
		if c.Code != 11 {
			echo(c, r)
			return
		}
		handled.Add(1)
		r.WriteBody(&remoting.Command{}, body, nil)
	}
}

func TestWhoDoesNotReadIsNotHandledUntilItDoes(t *testing.T) {
	t.Parallel()
	const count = 64
	var handled atomic.Int32
	s := start(t, Options{OutboundLimit: 4 << 20, Handler: handler{handle: mebibytes(&handled)}})
	p := slowPeer(t, s, count)
	eventually(t, "the connection is backlogged", func() bool { return s.Stats().Backlogged == 1 })
	other := dial(t, s)
	for i := range int32(100) {
		other.roundTrip(i)
	}
	if n := handled.Load(); n >= count {
		t.Errorf("all %d requests handled for a peer that does not read", n)
	}
	if held := s.Stats().Memory; held > 8<<20 {
		t.Errorf("%d bytes held, want at most twice the limit", held)
	}
	for i := range count {
		if a := p.answer(); a.Opaque != int32(i) || len(a.Body) != 1<<20 {
			t.Fatalf("answer %d: opaque %d, %d bytes", i, a.Opaque, len(a.Body))
		}
	}
	eventually(t, "nothing is held", func() bool { st := s.Stats(); return st.Backlogged == 0 && st.Memory == 0 })
	p.roundTrip(1)
}

func TestWhoSendsWithoutReadingIsClosed(t *testing.T) {
	t.Parallel()
	var handled atomic.Int32
	s := start(t, Options{OutboundLimit: 1 << 20, MaxFrame: 1 << 20, Handler: handler{handle: mebibytes(&handled)}})
	p := slowPeer(t, s, 20)
	eventually(t, "the connection is backlogged", func() bool { return s.Stats().Backlogged == 1 })
	frame := request(1, 10, strings.Repeat("x", 100_000))
	for {
		if _, err := p.Write(frame); err != nil {
			break // reset by the server
		}
	}
	eventually(t, "it is closed", func() bool { st := s.Stats(); return st.Connections == 0 && st.Memory == 0 })
}

func TestHandlerThatIgnoresTheBacklog(t *testing.T) {
	t.Parallel()
	conns := make(chan Conn, 1)
	s := start(t, Options{OutboundLimit: 1 << 20, Handler: handler{handle: func(c *remoting.Command, r Reply) {
		conns <- r.Conn()
		echo(c, r)
	}}})
	p := dial(t, s)
	p.roundTrip(1)
	c := await(t, conns, "connection")
	note := remoting.Command{Body: make([]byte, 1<<20)}
	backlogged := false
	for c.Send(&note) {
		backlogged = backlogged || c.Backlogged()
	}
	if !backlogged {
		t.Error("never Backlogged")
	}
	eventually(t, "nothing is held", func() bool { return s.Stats().Memory == 0 })
}

func TestMemoryLimitForUnfinishedFrames(t *testing.T) {
	t.Parallel()
	s := start(t, Options{MemoryLimit: 8 << 20})
	honest := dial(t, s)
	frame := request(1, 10, strings.Repeat("x", 4<<20))
	var peers []peer
	for range 8 {
		p := dial(t, s)
		peers = append(peers, p)
		_, _ = p.Write(frame[:len(frame)-1]) // fails when it is the one too many
	}
	eventually(t, "some are closed", func() bool { return s.Stats().Refused > 0 })
	honest.roundTrip(1)
	eventually(t, "the limit is kept", func() bool { return s.Stats().Memory <= 8<<20 })
	for _, p := range peers {
		p.Close()
	}
	eventually(t, "nothing is held", func() bool { return s.Stats().Memory == 0 })
}

// TestMemoryLimitEndsThoseToBlame: frames that never become whole fill the memory to the brim; a large one on its way gets its room.
func TestMemoryLimitEndsThoseToBlame(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	s := startAt(t, Options{MemoryLimit: 4 << 20, IdleTimeout: time.Hour}, func() time.Duration { return time.Duration(now.Load()) })
	honest := dial(t, s)
	honest.roundTrip(1)
	for range 4 { // of 960 KiB: the room left is too small for the honest one, which is larger than each of them
		stuck := dial(t, s)
		stuck.send(request(1, 10, strings.Repeat("x", 960<<10))[:900<<10])
	}
	eventually(t, "the memory is nearly full", func() bool { return s.Stats().Memory > 3<<20 })
	now.Store(int64(time.Second))
	frame := request(7, 10, strings.Repeat("y", 2<<20))
	honest.send(frame[:1<<20])
	eventually(t, "some are closed", func() bool { return s.Stats().Refused > 0 })
	honest.send(frame[1<<20:])
	if a := honest.answer(); a.Opaque != 7 || len(a.Body) != 2<<20 {
		t.Errorf("opaque %d, %d bytes", a.Opaque, len(a.Body))
	}
	eventually(t, "the limit is kept", func() bool { return s.Stats().Memory <= 4<<20 })
	if n := s.Stats().Connections; n < 2 || n > 4 {
		t.Errorf("%d connections are left, want the honest one and some of the others", n)
	}
}

func TestMemoryLimitForRepliesClosesTheLargest(t *testing.T) {
	t.Parallel()
	var handled atomic.Int32
	s := start(t, Options{OutboundLimit: 16 << 20, MemoryLimit: 16 << 20, Handler: handler{handle: mebibytes(&handled)}})
	honest := dial(t, s)
	slowPeer(t, s, 14)
	eventually(t, "its requests are handled", func() bool { return handled.Load() == 14 })
	slowPeer(t, s, 12)
	eventually(t, "the largest is closed", func() bool { st := s.Stats(); return st.Connections == 2 && st.Memory <= 16<<20 })
	honest.roundTrip(1)
}

func TestIdleAndTricklingConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	s := startAt(t, Options{Loops: 1, IdleTimeout: 120 * time.Second}, func() time.Duration { return time.Duration(now.Load()) })
	idle, trickle, busy := dial(t, s), dial(t, s), dial(t, s)
	idle.roundTrip(1)
	frame := request(1, 10, "slowly")
	for i := range 9 {
		now.Store(int64(i) * int64(20*time.Second))
		s.look(dueScan)
		busy.roundTrip(int32(i)) // behind the scan, for the loop is one
		_, _ = trickle.Write(frame[i : i+1])
	}
	idle.ended()
	trickle.ended()
	busy.roundTrip(99)
	if got := s.Stats().Connections; got != 1 {
		t.Errorf("%d connections, want 1", got)
	}
}

func TestListenNamesTheTakenAddress(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	first := free.Addr().String()
	free.Close()
	_, err = Listen(Options{Addresses: []string{first, taken.Addr().String()}, Handler: handler{}})
	if err == nil || !strings.Contains(err.Error(), taken.Addr().String()) {
		t.Fatalf("error %v, want one that names %s", err, taken.Addr())
	}
	again, err := net.Listen("tcp", first)
	if err != nil {
		t.Fatalf("the first address stays bound: %v", err)
	}
	again.Close()
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	addr := []string{"127.0.0.1:0"}
	for _, o := range []Options{
		{Addresses: addr},
		{Handler: handler{}},
		{Handler: handler{}, Addresses: addr, Loops: -1},
		{Handler: handler{}, Addresses: addr, MaxFrame: 3},
		{Handler: handler{}, Addresses: addr, IdleTimeout: -1},
	} {
		if s, err := Listen(o); err == nil {
			closeServer(t, s)
			t.Errorf("Listen(%+v) succeeds", o)
		}
	}
}

func TestSeveralAddressesAndStopAccepting(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Addresses: []string{"127.0.0.1:0", "127.0.0.1:0"}})
	addrs := s.Addrs()
	if len(addrs) != 2 || addrs[0].Port() == 0 || addrs[0] == addrs[1] {
		t.Fatalf("addresses %v, want two with ports", addrs)
	}
	p := dial(t, s)
	p.roundTrip(1)
	second, err := net.Dial("tcp", addrs[1].String())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	peer{second.(*net.TCPConn), t}.roundTrip(2)
	s.StopAccepting()
	for _, a := range addrs {
		if c, err := net.Dial("tcp", a.String()); err == nil {
			c.Close()
			t.Errorf("%s still accepts", a)
		}
	}
	p.roundTrip(3)
}

func TestMaxConnections(t *testing.T) {
	t.Parallel()
	s := start(t, Options{MaxConnections: 2})
	a, b := dial(t, s), dial(t, s)
	a.roundTrip(1)
	b.roundTrip(1)
	dial(t, s).ended()
	a.Close()
	eventually(t, "one is gone", func() bool { return s.Stats().Connections == 1 })
	dial(t, s).roundTrip(1)
}

// Running out of descriptors stops new connections, not the server.
func TestOutOfDescriptors(t *testing.T) {
	// Not parallel: it lowers a limit of the process.
	s := start(t, Options{})
	p := dial(t, s)
	p.roundTrip(1)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	restore := func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old) }
	defer restore()
	low := old
	low.Cur = uint64(openFiles(t) + 3)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	var crowd []net.Conn
	for range 10 {
		c, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", s.Addrs()[0].String())
		if err != nil {
			break
		}
		crowd = append(crowd, c)
	}
	p.roundTrip(2)
	restore()
	for _, c := range crowd {
		c.Close()
	}
	dial(t, s).roundTrip(3)
	p.roundTrip(4)
}

func TestZonesOfPackageNetAreNotGivenToGnet(t *testing.T) {
	t.Parallel()
	a := &net.TCPAddr{IP: net.ParseIP("fe80::1"), Port: 1, Zone: "eth0"}
	if got := addrPort(a).String(); got != "[fe80::1%eth0]:1" {
		t.Errorf("address %s", got)
	}
	if forgetZone(a); a.Zone != "" {
		t.Errorf("zone %q is left", a.Zone)
	}
}
