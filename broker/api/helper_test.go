package api

import (
	"bytes"
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ringmq/broker/client"
	"ringmq/broker/group"
	"ringmq/broker/longpoll"
	"ringmq/broker/offset"
	"ringmq/broker/stats"
	"ringmq/broker/topic"
	"ringmq/engine"
	"ringmq/engine/message"
	"ringmq/net/remoting"
	"ringmq/net/server"
)

// fakeConn is a client connection that keeps what is sent to it.
type fakeConn struct {
	id         uint64
	remote     netip.AddrPort
	local      netip.AddrPort
	backlogged atomic.Bool

	mu      sync.Mutex
	notices []string // groups of NOTIFY_CONSUMER_IDS_CHANGED
}

func (c *fakeConn) ID() uint64             { return c.id }
func (c *fakeConn) Remote() netip.AddrPort { return c.remote }
func (c *fakeConn) Local() netip.AddrPort  { return c.local }
func (c *fakeConn) Backlogged() bool       { return c.backlogged.Load() }
func (c *fakeConn) Close()                 {}
func (c *fakeConn) Send(cmd *remoting.Command) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notices = append(c.notices, cmd.Str("consumerGroup"))
	return true
}

// fakeReply takes the one answer to a request.
type fakeReply struct {
	conn   *fakeConn
	answer chan *remoting.Command
}

func (r *fakeReply) Conn() server.Conn { return r.conn }
func (r *fakeReply) Write(c *remoting.Command) {
	a := clone(c)
	a.Remark = strings.Clone(c.Remark)
	r.answer <- a
}
func (r *fakeReply) Defer(c *remoting.Command) { r.Write(c) }
func (r *fakeReply) WriteBody(c *remoting.Command, pieces [][]byte, held server.Releaser) {
	a := clone(c)
	a.Body = bytes.Join(pieces, nil)
	if held != nil {
		held.Release()
	}
	r.answer <- a
}

// wait returns the answer; it must come.
func (r *fakeReply) wait(t *testing.T) *remoting.Command {
	t.Helper()
	select {
	case c := <-r.answer:
		return c
	case <-time.After(10 * time.Second):
		t.Fatal("no answer")
		return nil
	}
}

// none fails when there is an answer.
func (r *fakeReply) none(t *testing.T, what string) {
	t.Helper()
	select {
	case c := <-r.answer:
		t.Fatalf("%s: answered %d %q", what, c.Code, c.Remark)
	default:
	}
}

// broker is an API over a real store, with one topic T of 4 queues.
type broker struct {
	*API
	store *engine.Store
	conn  *fakeConn
	dir   string

	saving sync.Mutex // held while topics are saved, and by tests that want them not to be yet
}

// saveTopics does what the broker does when topics have changed.
func (b *broker) saveTopics() {
	b.saving.Lock()
	defer b.saving.Unlock()
	b.TopicsSaved(b.opts.Topics.Save())
}

func newBroker(t testing.TB, change ...func(*Options, *engine.Options)) *broker {
	t.Helper()
	dir := t.TempDir()
	parked := longpoll.New(longpoll.Options{})
	e := engine.Options{Dir: dir, SegmentSize: 16 << 20, QueueFileSize: 20_000, PoolSize: 12 << 20, UnlockedPool: true, PutWaitMS: 60_000, Arrivals: parked,
		IndexSlots: 1000, IndexEntries: 10_000}
	o := Options{
		Cluster: "C1", Broker: "broker-a", Address: "127.0.0.1:10911", StoreHost: netip.MustParseAddrPort("127.0.0.1:10911"), Parked: parked,
		Clients: client.New(client.Options{}), Settings: &fakeSettings{},
	}
	var err error
	file := func(name string) string { return filepath.Join(dir, "config", name) }
	changed := make(chan struct{}, 1)
	if o.Topics, err = topic.Open(topic.Options{
		Path: file("topics.json"), ClusterName: "C1", BrokerName: "broker-a", AutoCreate: true, DefaultQueues: 8, DelayLevels: 18,
		Changed: func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		},
	}); err != nil {
		t.Fatal(err)
	}
	if o.Groups, err = group.Open(group.Options{Path: file("groups.json"), AutoCreate: true}); err != nil {
		t.Fatal(err)
	}
	if o.Offsets, err = offset.Open(offset.Options{Path: file("offsets.json")}); err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(&o, &e)
	}
	store, err := engine.Open(e)
	if err != nil {
		t.Fatal(err)
	}
	if o.Store == nil {
		o.Store = store
	}
	o.Runtime = &Runtime{Sampler: stats.New(func() stats.Counts { return stats.Counts{} }, nil), Started: time.Now(), LogDir: dir, Version: "V", Number: 513}
	b := &broker{API: New(o), store: store, dir: dir, conn: newConn(1)}
	var saver sync.WaitGroup
	saver.Go(func() {
		for range changed {
			b.saveTopics()
		}
	})
	if _, err := o.Topics.Put(topic.Config{Name: "T", ReadQueues: 4, WriteQueues: 4, Perm: 6}); err != nil {
		t.Fatal(err)
	}
	b.saveTopics()
	t.Cleanup(func() {
		b.Stop()
		close(changed)
		saver.Wait()
		parked.Close()
		if err := store.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	return b
}

func newConn(id uint64) *fakeConn {
	return &fakeConn{id: id, remote: netip.MustParseAddrPort("127.0.0.1:5000"), local: netip.MustParseAddrPort("127.0.0.1:10911")}
}

// request makes a command of fields name, value, name, value…
func request(code int32, body []byte, fields ...string) *remoting.Command {
	c := new(remoting.Command)
	c.Reset()
	c.Code, c.Body = code, body
	for i := 0; i < len(fields); i += 2 {
		c.SetStr(fields[i], fields[i+1])
	}
	return c
}

// begin hands a request to the handler; its answer may come later.
func (b *broker) begin(c *remoting.Command) *fakeReply {
	r := &fakeReply{conn: b.conn, answer: make(chan *remoting.Command, 2)}
	b.Handle(c, r)
	return r
}

// ask is one request and its answer.
func (b *broker) ask(t *testing.T, code int32, body []byte, fields ...string) *remoting.Command {
	t.Helper()
	return b.begin(request(code, body, fields...)).wait(t)
}

// with returns the fields with some replaced or added; a value of "-" takes the field away.
func with(fields []string, changes ...string) []string {
	out := append([]string(nil), fields...)
	for i := 0; i < len(changes); i += 2 {
		at := -1
		for j := 0; j < len(out); j += 2 {
			if out[j] == changes[i] {
				at = j
			}
		}
		switch {
		case changes[i+1] == "-" && at >= 0:
			out = append(out[:at], out[at+2:]...)
		case changes[i+1] == "-":
		case at >= 0:
			out[at+1] = changes[i+1]
		default:
			out = append(out, changes[i], changes[i+1])
		}
	}
	return out
}

// sendFields are those of a send to queue 0 of T.
func sendFields(changes ...string) []string {
	return with([]string{"a", "PG", "b", "T", "c", "TBW102", "d", "4", "e", "0", "f", "0", "g", "1795972758702", "h", "0", "i", "",
		"j", "0", "k", "false", "m", "false", "n", "broker-a"}, changes...)
}

// pullFields are those of a pull from queue 0 of T that brings its subscription along and does not wait.
func pullFields(changes ...string) []string {
	return with([]string{"consumerGroup", "G", "topic", "T", "queueId", "0", "queueOffset", "0", "maxMsgNums", "32", "sysFlag", "4",
		"commitOffset", "0", "suspendTimeoutMillis", "20000", "subscription", "*", "subVersion", "0", "expressionType", "TAG"}, changes...)
}

// properties joins name, value pairs.
func properties(pairs ...string) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&b, "%s\x01%s\x02", pairs[i], pairs[i+1])
	}
	return b.String()
}

// sendN stores n messages with tags in queue 0 of T and waits until they can be pulled.
func (b *broker) sendN(t *testing.T, n int, tags string) {
	t.Helper()
	for i := range n {
		if a := b.ask(t, 310, fmt.Appendf(nil, "m%d", i), sendFields("i", properties("TAGS", tags))...); a.Code != 0 {
			t.Fatalf("send: %d %s", a.Code, a.Remark)
		}
	}
	b.settle(t)
}

// settle waits until everything that was appended is dispatched.
func (b *broker) settle(t testing.TB) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for p := b.store.Positions(); p.Dispatched < p.End; p = b.store.Positions() {
		if time.Now().After(deadline) {
			t.Fatalf("not dispatched: %+v", p)
		}
		time.Sleep(time.Millisecond)
	}
}

// records decodes the body of a pull's answer.
func records(t *testing.T, body []byte) []message.Record {
	t.Helper()
	var list []message.Record
	for len(body) > 0 {
		var r message.Record
		size := message.Size(body)
		if err := message.Decode(body[:size], &r); err != nil {
			t.Fatalf("record %d: %v", len(list), err)
		}
		list = append(list, r)
		body = body[size:]
	}
	return list
}

// number is a field of an answer as a number.
func number(t *testing.T, c *remoting.Command, name string) int64 {
	t.Helper()
	n, err := c.Int(name)
	if err != nil {
		t.Fatalf("answer %d %q: %v", c.Code, c.Remark, err)
	}
	return n
}

// expect fails when an answer has another code or lacks a word in its remark.
func expect(t *testing.T, what string, a *remoting.Command, code int32, words ...string) {
	t.Helper()
	if a.Code != code {
		t.Errorf("%s: code %d %q, want %d", what, a.Code, a.Remark, code)
		return
	}
	for _, w := range words {
		if !strings.Contains(a.Remark, w) {
			t.Errorf("%s: remark %q does not say %q", what, a.Remark, w)
		}
	}
}

func itoa(n int) string { return strconv.Itoa(n) }
