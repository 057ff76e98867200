package namesrv

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"ringmq/net/remoting"
)

// call sends one request over a connection and reads its answer.
func call(t *testing.T, conn net.Conn, c *remoting.Command) *remoting.Command {
	t.Helper()
	if _, err := conn.Write(c.AppendFrame(nil)); err != nil {
		t.Fatal(err)
	}
	var length [4]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		t.Fatal(err)
	}
	frame := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err := io.ReadFull(conn, frame); err != nil {
		t.Fatal(err)
	}
	answer := new(remoting.Command)
	if err := answer.Decode(frame); err != nil {
		t.Fatal(err)
	}
	return answer
}

// Over real sockets: a broker registers, a client finds it; the broker's connection ends, and the client does not find it.
func TestListen(t *testing.T) {
	n, err := Listen(Options{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	defer n.Close(ctx)
	if _, err := Listen(Options{Address: n.Addr().String()}); err == nil {
		t.Error("a taken port is taken again")
	}
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", n.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	broker, client := dial(), dial()
	defer client.Close()
	if answer := call(t, broker, master().request()); answer.Code != remoting.Success {
		t.Fatal(answer.Remark)
	}
	ask := request(remoting.GetRouteInfoByTopic, "topic", "T1")
	for _, ask.Serialize = range []remoting.Serialize{remoting.JSON, remoting.RocketMQ} {
		if answer := call(t, client, ask); answer.Code != remoting.Success || answer.Serialize != ask.Serialize || len(answer.Body) == 0 {
			t.Fatalf("%d %s", answer.Code, answer.Remark)
		}
	}
	if answer := call(t, client, request(remoting.PutKVConfig, "namespace", "n", "key", "k", "value", "v")); answer.Code != remoting.Success {
		t.Fatal(answer.Remark)
	}
	settings := string(call(t, client, request(remoting.GetNamesrvConfig)).Body)
	if want := fmt.Sprintf("listenPort=%d\n", n.Addr().Port()); !strings.Contains(settings, want) {
		t.Errorf("%s is not in %s", want, settings)
	}
	broker.Close()
	for call(t, client, ask).Code != remoting.TopicNotExist { // soon; the test's own limit of time ends it otherwise
		if ctx.Err() != nil {
			t.Fatal("the broker is still known")
		}
	}
	if err := n.Close(ctx); err != nil {
		t.Error(err)
	}
}

// All that can happen at once, for the race detector; at the end all brokers are gone, and with them everything.
func TestManyAtOnce(t *testing.T) {
	s, _ := newServer(t, Options{})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			b := master()
			b.name, b.addr, b.conn = fmt.Sprint("broker-", i), fmt.Sprint("127.0.0.1:", i), &fakeConn{id: uint64(i)}
			for n := range 50 {
				b.version.Counter = int64(n / 2)
				b.register(t, s)
				routeOf(t, s, "T1")
				ask(s, b.conn, request(remoting.GetBrokerClusterInfo))
				ask(s, b.conn, request(remoting.GetAllTopicListFromNameServer))
				ask(s, b.conn, request(remoting.WipeWritePermOfBroker, "brokerName", b.name))
				ask(s, b.conn, request(remoting.PutKVConfig, "namespace", "n", "key", b.name, "value", "v"))
				s.Expire()
				s.Closed(b.conn)
			}
		})
	}
	all.Wait()
	s.saving.Wait()
	r := s.routes
	if len(r.topics)+len(r.groups)+len(r.clusters)+len(r.live)+len(r.mappings)+len(r.filters) != 0 {
		t.Errorf("left: %+v", r)
	}
}

// discard takes answers as the front end does, without a socket.
type discard struct {
	fakeReply
	buf []byte
}

func (r *discard) Write(c *remoting.Command) { r.buf = c.AppendFrame(r.buf[:0]) }

func BenchmarkRoute(b *testing.B) {
	s, _ := newServer(b, Options{})
	master().register(b, s)
	slave().register(b, s)
	c := request(remoting.GetRouteInfoByTopic, "topic", "T1")
	r := &discard{}
	b.ReportAllocs()
	for b.Loop() {
		s.Handle(c, r)
	}
}
