package client

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ringmq/net/remoting"
)

// fakeConn counts the notices sent to it.
type fakeConn struct {
	id uint64
	mu sync.Mutex
	to []string // groups notified
}

func (c *fakeConn) ID() uint64             { return c.id }
func (c *fakeConn) Remote() netip.AddrPort { return netip.MustParseAddrPort("127.0.0.1:1000") }
func (c *fakeConn) Send(cmd *remoting.Command) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cmd.Code != 40 || !cmd.IsOneway() || cmd.Opaque == 0 {
		panic("not a notice")
	}
	c.to = append(c.to, cmd.Str("consumerGroup"))
	return true
}

func (c *fakeConn) notices() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.to)
	c.to = nil
	return n
}

// As the Java 5.5 and the Go client write it, and the first again as fastjson might.
const (
	javaBody = `{"clientID":"127.0.0.1@c1","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","consumeType":"CONSUME_PASSIVELY","groupName":"CG_push","messageModel":"CLUSTERING","subscriptionDataSet":[{"classFilterMode":false,"codeSet":[2598919,2598920],"expressionType":"TAG","subString":"TagA || TagB","subVersion":1795972761028,"tagsSet":["TagB","TagA"],"topic":"ConvTopic"},{"classFilterMode":false,"codeSet":[],"expressionType":"TAG","subString":"*","subVersion":1795972761073,"tagsSet":[],"topic":"%RETRY%CG_push"}],"unitMode":false}],"heartbeatFingerprint":0,"producerDataSet":[{"groupName":"CLIENT_INNER_PRODUCER"}],"withoutSub":false}`
	goBody   = `{"clientID":"@g1","producerDataSet":[],"consumerDataSet":[{"groupName":"CG_go","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","subscriptionDataSet":[{"classFilterMode":false,"topic":"GoConv","subString":"TagA","tagsSet":["TagA"],"codeSet":["2598919"],"subVersion":1795972674958300254,"expressionType":"TAG"}],"unitMode":false}]}`
)

func parse(t *testing.T, body string) *Heartbeat {
	t.Helper()
	h, err := ParseHeartbeat([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestParseHeartbeat(t *testing.T) {
	t.Parallel()
	h := parse(t, javaBody)
	c := h.Consumers[0]
	if h.ClientID != "127.0.0.1@c1" || !slices.Equal(h.Producers, []string{"CLIENT_INNER_PRODUCER"}) || c.Group != "CG_push" ||
		c.Type != "CONSUME_PASSIVELY" || c.Model != "CLUSTERING" || c.From != "CONSUME_FROM_FIRST_OFFSET" || len(c.Subscriptions) != 2 {
		t.Fatalf("got %+v", h)
	}
	tags := c.Subscriptions[0]
	if !tags.Tags.Match(2598920) || tags.Tags.Match(1) || tags.Version != 1795972761028 || !c.Subscriptions[1].Tags.All() {
		t.Fatalf("got %+v", tags)
	}
	if h := parse(t, goBody); !h.Consumers[0].Subscriptions[0].Tags.Match(2598919) {
		t.Fatalf("got %+v", h)
	}
	for _, bad := range []string{
		"", "null", "[]", "{}", `{"clientID":""}`, `{"clientID":5}`, javaBody[:200], `{"clientID":"a","producerDataSet":[{}]}`,
		`{"clientID":"a","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"subString":"*"}]}]}`,
		`{"clientID":"a","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"topic":"T","subString":"||"}]}]}`,
		`{"clientID":"a","consumerDataSet":[{}]}`,
	} {
		if h, err := ParseHeartbeat([]byte(bad)); err == nil {
			t.Errorf("%.40s: read as %+v", bad, h)
		}
	}
}

func TestSubscriptionJSON(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(parse(t, javaBody).Consumers[0].Subscriptions[0])
	want := `{"classFilterMode":false,"expressionType":"TAG","subString":"TagA || TagB","subVersion":1795972761028,"topic":"ConvTopic","codeSet":[2598919,2598920],"tagsSet":["TagA","TagB"]}`
	if err != nil || string(text) != want {
		t.Fatalf("got %s, %v", text, err)
	}
}

func TestNotices(t *testing.T) {
	t.Parallel()
	r := New(Options{})
	a, b := &fakeConn{id: 1}, &fakeConn{id: 2}
	check := func(what string, wantA, wantB int) {
		t.Helper()
		if gotA, gotB := a.notices(), b.notices(); gotA != wantA || gotB != wantB {
			t.Errorf("%s: %d and %d notices, want %d and %d", what, gotA, gotB, wantA, wantB)
		}
	}
	h := parse(t, javaBody)
	if !r.Heartbeat(a, h, 0, 513) {
		t.Error("the first heartbeat is no change")
	}
	check("first member", 1, 0)
	if r.Heartbeat(a, h, 0, 513) {
		t.Error("the same heartbeat is a change")
	}
	check("again", 0, 0)
	h2 := parse(t, strings.Replace(javaBody, "c1", "c2", 1))
	r.Heartbeat(b, h2, 9, 513)
	check("second member", 1, 1)
	if got := r.Members("CG_push"); len(got) != 2 || got[0].ClientID != "127.0.0.1@c1" || got[1].Language != 9 {
		t.Errorf("members %+v", got)
	}
	newer := parse(t, strings.Replace(javaBody, "1795972761028", "1795972761029", 1))
	newer.Consumers[0].Subscriptions[0].Expression = "other"
	r.Heartbeat(a, newer, 0, 513)
	check("newer version of a subscription", 0, 0)
	r.Heartbeat(b, h2, 0, 513) // the older version does not come back
	if got := r.Consumers([]byte("CG_push")).Subscription([]byte("ConvTopic")); got.Expression != "other" {
		t.Errorf("subscription %+v", got)
	}
	fewer := parse(t, javaBody)
	fewer.Consumers[0].Subscriptions = fewer.Consumers[0].Subscriptions[:1]
	r.Heartbeat(a, fewer, 0, 513)
	check("topic gone", 1, 1)
	r.Unregister(b, "", "CG_push")
	check("unregistered", 1, 0)
	r.Closed(a)
	check("closed", 0, 0)
	if p, c := r.Count(); p != 1 || c != 0 || len(r.joined) != 1 {
		t.Errorf("%d producer groups, %d consumer groups, %d connections left", p, c, len(r.joined))
	}
	r.Closed(b)
	if p, c := r.Count(); p != 0 || c != 0 || len(r.joined) != 0 {
		t.Errorf("%d producer groups, %d consumer groups, %d connections left", p, c, len(r.joined))
	}
}

func TestNotifySwitchedOff(t *testing.T) {
	t.Parallel()
	r := New(Options{Notify: func(group string) bool { return group != "CG_push" }})
	a := &fakeConn{id: 1}
	if !r.Heartbeat(a, parse(t, javaBody), 0, 0) || a.notices() != 0 {
		t.Error("told though the group does not want it")
	}
}

func TestHeartbeatWithoutSubscriptions(t *testing.T) {
	t.Parallel()
	r := New(Options{})
	a := &fakeConn{id: 1}
	light := parse(t, strings.NewReplacer(`"heartbeatFingerprint":0`, `"heartbeatFingerprint":77`, `"withoutSub":false`, `"withoutSub":true`).Replace(javaBody))
	light.Consumers[0].Subscriptions = nil
	if light.Fingerprint != 77 || !light.WithoutSubs {
		t.Fatalf("got %+v", light)
	}
	if !r.Heartbeat(a, light, 0, 0) {
		t.Error("a new member is no change: the client would never send its subscriptions")
	}
	r.Heartbeat(a, parse(t, javaBody), 0, 0)
	if r.Heartbeat(a, light, 0, 0) {
		t.Error("a known member is a change")
	}
	if s := r.Consumers([]byte("CG_push")).Subscription([]byte("ConvTopic")); s == nil {
		t.Error("the subscriptions are gone")
	}
}

func TestExpire(t *testing.T) {
	t.Parallel()
	now := int64(1000)
	const expiry = 7 * time.Second
	r := New(Options{Now: func() int64 { return now }, Expiry: expiry})
	a, b := &fakeConn{id: 1}, &fakeConn{id: 2}
	h := parse(t, javaBody)
	r.Heartbeat(a, h, 0, 0)
	now += expiry.Milliseconds()
	r.Heartbeat(b, h, 0, 0)
	r.Expire()
	if got := len(r.Members("CG_push")); got != 2 {
		t.Fatalf("%d members, none is over its time", got)
	}
	now++
	a.notices()
	b.notices()
	r.Expire()
	if got := r.Members("CG_push"); len(got) != 1 || got[0].Conn.ID() != 2 || b.notices() != 1 || a.notices() != 0 {
		t.Fatalf("members %+v", got)
	}
	if got := r.Producers("CLIENT_INNER_PRODUCER"); len(got) != 1 {
		t.Fatalf("producers %+v", got)
	}
	now += expiry.Milliseconds() + 1
	r.Expire()
	if p, c := r.Count(); p+c+len(r.joined) != 0 {
		t.Errorf("%d %d %d left", p, c, len(r.joined))
	}
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	r := New(Options{})
	h := parse(t, javaBody)
	var wg sync.WaitGroup
	for id := range uint64(8) {
		wg.Go(func() {
			c := &fakeConn{id: id}
			for range 50 {
				r.Heartbeat(c, h, 0, 0)
				if g := r.Consumers([]byte("CG_push")); g != nil {
					g.Subscription([]byte("ConvTopic"))
					g.Info()
				}
				r.Expire()
				r.Closed(c)
			}
		})
	}
	wg.Wait()
	if p, c := r.Count(); p+c+len(r.joined) != 0 {
		t.Errorf("%d %d %d left", p, c, len(r.joined))
	}
}

func TestLookupAllocatesNothing(t *testing.T) {
	r := New(Options{})
	r.Heartbeat(&fakeConn{id: 1}, parse(t, javaBody), 0, 0)
	group, topic := []byte("CG_push"), []byte("ConvTopic")
	if n := testing.AllocsPerRun(100, func() {
		if r.Consumers(group).Subscription(topic) == nil {
			t.Fatal("not found")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzHeartbeat(f *testing.F) {
	f.Add([]byte(javaBody))
	f.Add([]byte(goBody))
	f.Fuzz(func(t *testing.T, in []byte) {
		h, err := ParseHeartbeat(in)
		if err != nil {
			return
		}
		r := New(Options{})
		r.Heartbeat(&fakeConn{id: 1}, h, 0, 0)
		r.Closed(&fakeConn{id: 1})
		if p, c := r.Count(); p+c != 0 {
			t.Fatalf("%d and %d groups left", p, c)
		}
	})
}
