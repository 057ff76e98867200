//go:build !race

package api

import (
	"testing"

	"ringmq/net/remoting"
)

// The race detector makes sync.Pool forget at random, so these do not run under it.

func TestSendAllocatesNothing(t *testing.T) {
	b := newBroker(t)
	r := &counting{conn: b.conn, n: make(chan struct{}, 1)}
	c := request(310, make([]byte, 1024), sendFields("i", properties("KEYS", "k", "TAGS", "t", "WAIT", "true"))...)
	send := func() {
		b.Handle(c, r)
		<-r.n
	}
	for range 100 {
		send()
	}
	if n := testing.AllocsPerRun(2000, send); n != 0 {
		t.Errorf("%v allocations for a send", n)
	}
}

func TestPullAllocatesNothing(t *testing.T) {
	b := newBroker(t)
	b.sendN(t, 32, "A")
	expect(t, "heartbeat", b.ask(t, 34, []byte(heartbeatBody)), 0)
	r := &counting{conn: b.conn, n: make(chan struct{}, 1)}
	for what, c := range map[string]*remoting.Command{
		"subscription in the request": request(11, nil, pullFields("sysFlag", "5", "subscription", "A || B")...),
		"subscription by heartbeat":   request(11, nil, pullFields("sysFlag", "3", "subVersion", "10")...),
		"nothing found":               request(11, nil, pullFields("queueOffset", "32")...),
	} {
		pull := func() {
			b.Handle(c, r)
			<-r.n
		}
		for range 100 {
			pull()
		}
		if n := testing.AllocsPerRun(1000, pull); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
	if r.held == 0 {
		t.Error("no pull found anything")
	}
}
