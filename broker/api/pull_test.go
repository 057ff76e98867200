package api

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ringmq/broker/group"
	"ringmq/broker/topic"
	"ringmq/engine"
	"ringmq/engine/message"
	"ringmq/net/remoting"
)

// offsets checks the three positions of a pull's answer.
func checkPull(t *testing.T, what string, a *remoting.Command, code int32, remark string, next, low, high int64) {
	t.Helper()
	expect(t, what, a, code)
	if a.Remark != remark || number(t, a, "nextBeginOffset") != next || number(t, a, "minOffset") != low || number(t, a, "maxOffset") != high ||
		number(t, a, "suggestWhichBrokerId") != 0 {
		t.Errorf("%s: %q %s, want %q %d %d %d", what, a.Remark, a.Fields, remark, next, low, high)
	}
}

func TestPullStatuses(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	checkPull(t, "no queue yet", b.ask(t, 11, nil, pullFields()...), 19, "NO_MATCHED_LOGIC_QUEUE", 0, 0, 0)
	checkPull(t, "no queue, from 5", b.ask(t, 11, nil, pullFields("queueOffset", "5")...), 21, "NO_MATCHED_LOGIC_QUEUE", 0, 0, 0)
	b.sendN(t, 3, "A")
	for _, code := range []int32{11, 361} {
		a := b.ask(t, code, nil, pullFields()...)
		checkPull(t, "found", a, 0, "FOUND", 3, 0, 3)
		got := records(t, a.Body)
		for i, r := range got {
			if string(r.Body) != fmt.Sprint("m", i) || r.QueueOffset != message.QueueOffset(i) {
				t.Errorf("record %d: %q at %d", i, r.Body, r.QueueOffset)
			}
		}
		if len(got) != 3 {
			t.Errorf("%d records", len(got))
		}
	}
	checkPull(t, "two at most", b.ask(t, 11, nil, pullFields("maxMsgNums", "2")...), 0, "FOUND", 2, 0, 3)
	checkPull(t, "one byte at most", b.ask(t, 11, nil, pullFields("maxMsgBytes", "1")...), 0, "FOUND", 1, 0, 3)
	checkPull(t, "from 2", b.ask(t, 11, nil, pullFields("queueOffset", "2", "maxMsgBytes", "2147483647")...), 0, "FOUND", 3, 0, 3)
	checkPull(t, "at the end", b.ask(t, 11, nil, pullFields("queueOffset", "3")...), 19, "OFFSET_OVERFLOW_ONE", 3, 0, 3)
	checkPull(t, "beyond", b.ask(t, 11, nil, pullFields("queueOffset", "99")...), 21, "OFFSET_OVERFLOW_BADLY", 3, 0, 3)
	checkPull(t, "before", b.ask(t, 11, nil, pullFields("queueOffset", "-1")...), 21, "OFFSET_TOO_SMALL", 0, 0, 3)
	checkPull(t, "other tag", b.ask(t, 11, nil, pullFields("subscription", "B || C")...), 20, "NO_MATCHED_MESSAGE", 3, 0, 3)
	checkPull(t, "its tag", b.ask(t, 11, nil, pullFields("subscription", "B || A")...), 0, "FOUND", 3, 0, 3)
}

func TestPullRefused(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	if _, err := b.opts.Topics.Put(topic.Config{Name: "WriteOnly", ReadQueues: 1, WriteQueues: 1, Perm: 2}); err != nil {
		t.Fatal(err)
	}
	off := group.Default("Off")
	off.Consume = false
	if _, err := b.opts.Groups.Put(off); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what   string
		code   int32
		words  []string
		fields []string
	}{
		{"group off", 16, []string{"Off", "consumeEnable"}, []string{"consumerGroup", "Off"}},
		{"group name", 26, []string{"a b"}, []string{"consumerGroup", "a b"}},
		{"no topic", 17, []string{"Nope"}, []string{"topic", "Nope"}},
		{"write only", 16, []string{"WriteOnly", "perm is 2"}, []string{"topic", "WriteOnly"}},
		{"queue too large", 29, []string{"queueId is 4"}, []string{"queueId", "4"}},
		{"queue negative", 29, []string{"queueId is -1"}, []string{"queueId", "-1"}},
		{"no messages", 29, []string{"maxMsgNums is 0"}, []string{"maxMsgNums", "0"}},
		{"missing", 29, []string{"queueOffset"}, []string{"queueOffset", "-"}},
		{"senseless expression", 23, []string{"||"}, []string{"subscription", "||"}},
		{"SQL", 1, []string{"SQL92", "not supported"}, []string{"expressionType", "SQL92", "subscription", "a > 1"}},
		{"nobody connected", 24, []string{"G", "no member"}, []string{"sysFlag", "0"}},
	} {
		expect(t, c.what, b.ask(t, 11, nil, pullFields(c.fields...)...), c.code, c.words...)
	}
	b = newBroker(t, func(o *Options, _ *engine.Options) { o.NoLitePull, o.FastPort = true, 10911 })
	expect(t, "lite pull off", b.ask(t, 361, nil, pullFields()...), 16, "litePullMessageEnable")
	expect(t, "fast port", b.ask(t, 11, nil, pullFields()...), 3, "10911")
}

const heartbeatBody = `{"clientID":"c1","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","consumeType":"CONSUME_PASSIVELY","groupName":"G",` +
	`"messageModel":"CLUSTERING","subscriptionDataSet":[{"classFilterMode":false,"codeSet":[65],"expressionType":"TAG","subString":"A","subVersion":10,"tagsSet":["A"],"topic":"T"}],` +
	`"unitMode":false}],"heartbeatFingerprint":0,"producerDataSet":[{"groupName":"PG"}],"withoutSub":false}`

func TestPullBySubscription(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	expect(t, "heartbeat", b.ask(t, 34, []byte(heartbeatBody)), 0)
	b.sendN(t, 2, "A")
	b.sendN(t, 1, "B")
	a := b.ask(t, 11, nil, pullFields("sysFlag", "0", "subVersion", "10", "subscription", "-")...)
	checkPull(t, "by heartbeat", a, 0, "FOUND", 3, 0, 3)
	if n := len(records(t, a.Body)); n != 2 {
		t.Errorf("%d records of tag A", n)
	}
	a = b.ask(t, 11, nil, pullFields("sysFlag", "0", "subVersion", "11")...)
	checkPull(t, "newer than the heartbeat", a, 0, "FOUND", 3, 0, 3)
	if n := len(records(t, a.Body)); n != 3 {
		t.Errorf("%d records for tags that are not known yet, want all", n)
	}
	expect(t, "newer, with SQL", b.ask(t, 11, nil, pullFields("sysFlag", "0", "subVersion", "11", "expressionType", "SQL92")...), 25, "11")
	expect(t, "not subscribed", b.ask(t, 11, nil, pullFields("sysFlag", "0", "topic", "BenchmarkTest")...), 24, "BenchmarkTest")

	sql := strings.NewReplacer(`"TAG"`, `"SQL92"`, `"subVersion":10`, `"subVersion":12`).Replace(heartbeatBody)
	expect(t, "heartbeat with SQL", b.ask(t, 34, []byte(sql)), 0)
	expect(t, "SQL", b.ask(t, 11, nil, pullFields("sysFlag", "0")...), 1, "SQL92")

	broadcast := strings.Replace(heartbeatBody, "CLUSTERING", "BROADCASTING", 1)
	expect(t, "heartbeat of broadcast", b.ask(t, 34, []byte(broadcast)), 0)
	config := group.Default("G")
	config.ConsumeBroadcast = false
	if _, err := b.opts.Groups.Put(config); err != nil {
		t.Fatal(err)
	}
	expect(t, "broadcast off", b.ask(t, 11, nil, pullFields("sysFlag", "0")...), 16, "consumeBroadcastEnable")
}

func TestPullCommits(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.sendN(t, 3, "A")
	offset := func() message.QueueOffset { return b.opts.Offsets.Query([]byte("T"), []byte("G"), 0) }
	for _, c := range []struct {
		sysFlag, commit string
		want            message.QueueOffset
	}{{"4", "2", -1}, {"5", "-1", -1}, {"5", "2", 2}, {"5", "1099511627776", 3}, {"5", "0", 0}} {
		b.ask(t, 11, nil, pullFields("sysFlag", c.sysFlag, "commitOffset", c.commit)...)
		if got := offset(); got != c.want {
			t.Errorf("%+v: offset %d", c, got)
		}
	}
}

func TestLongPoll(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	r := b.begin(request(11, nil, pullFields("sysFlag", "6")...)) // no queue yet
	r.none(t, "parked")
	b.sendN(t, 1, "A")
	checkPull(t, "first message", r.wait(t), 0, "FOUND", 1, 0, 1)

	r = b.begin(request(11, nil, pullFields("sysFlag", "6", "queueOffset", "1", "subscription", "B")...))
	b.sendN(t, 3, "A")
	r.none(t, "other tag")
	b.sendN(t, 1, "B")
	a := r.wait(t)
	checkPull(t, "its tag", a, 0, "FOUND", 5, 0, 5)
	if n := len(records(t, a.Body)); n != 1 {
		t.Errorf("%d records", n)
	}

	start := time.Now()
	a = b.ask(t, 11, nil, pullFields("sysFlag", "6", "queueOffset", "5", "suspendTimeoutMillis", "120")...)
	checkPull(t, "nothing came", a, 19, "OFFSET_OVERFLOW_ONE", 5, 0, 5)
	if took := time.Since(start); took < 120*time.Millisecond {
		t.Errorf("answered after %v", took)
	}

	r = b.begin(request(11, nil, pullFields("sysFlag", "6", "queueOffset", "5", "subscription", "C", "suspendTimeoutMillis", "4000")...))
	b.sendN(t, 1000, "A")
	checkPull(t, "only others came", r.wait(t), 20, "NO_MATCHED_MESSAGE", 1005, 0, 1005)

	checkPull(t, "beyond the end does not wait", b.ask(t, 11, nil, pullFields("sysFlag", "6", "queueOffset", "2000")...), 21, "OFFSET_OVERFLOW_BADLY", 1005, 0, 1005)
	checkPull(t, "no patience", b.ask(t, 11, nil, pullFields("sysFlag", "6", "queueOffset", "1005", "suspendTimeoutMillis", "0")...), 19, "OFFSET_OVERFLOW_ONE", 1005, 0, 1005)
}

func TestShortPoll(t *testing.T) {
	t.Parallel()
	b := newBroker(t, func(o *Options, _ *engine.Options) { o.NoLongPolling, o.ShortPollingMS = true, 60 })
	start := time.Now()
	checkPull(t, "short", b.ask(t, 11, nil, pullFields("sysFlag", "6")...), 19, "NO_MATCHED_LOGIC_QUEUE", 0, 0, 0)
	if took := time.Since(start); took < 60*time.Millisecond || took > 5*time.Second {
		t.Errorf("answered after %v", took)
	}
}

func TestLongPollEnds(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.sendN(t, 1, "A")
	parked := pullFields("sysFlag", "6", "queueOffset", "1")
	r := b.begin(request(11, nil, parked...))
	b.Closed(b.conn)
	expect(t, "connection gone", r.wait(t), 20)

	b.conn.backlogged.Store(true)
	r = b.begin(request(11, nil, parked...))
	b.sendN(t, 1, "A")
	checkPull(t, "the peer does not read", r.wait(t), 20, "NO_MATCHED_MESSAGE", 1, 0, 1)
	b.conn.backlogged.Store(false)
	checkPull(t, "nothing is lost", b.ask(t, 11, nil, parked...), 0, "FOUND", 2, 0, 2)

	r = b.begin(request(11, nil, pullFields("sysFlag", "6", "queueOffset", "2")...))
	b.Stop()
	b.opts.Parked.Close()
	expect(t, "stopped while parked", r.wait(t), 14, "stopping")
	expect(t, "after the stop", b.ask(t, 11, nil, pullFields()...), 14)
}

// A closed store looks empty: a consumer must not be sent to the start of a queue by it.
func TestPullOfClosedStore(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.sendN(t, 3, "A")
	p := b.pulls.Get().(*pull)
	r := &fakeReply{conn: b.conn, answer: make(chan *remoting.Command, 1)}
	p.reply = r
	if why := p.prepare(request(11, nil, pullFields("queueOffset", "2")...)); why != nil {
		t.Fatal(why)
	}
	b.Stop()
	if err := b.store.Close(); err != nil {
		t.Fatal(err)
	}
	p.run()
	expect(t, "closed", r.wait(t), 14)
}

// Park and send at the same moment: no pull sleeps until its deadline.
func TestLongPollRace(t *testing.T) {
	t.Parallel()
	rounds := 1500
	if testing.Short() {
		rounds = 200
	}
	b := newBroker(t)
	send := make(chan struct{})
	var sender sync.WaitGroup
	sender.Go(func() {
		c := request(310, []byte("x"), sendFields()...)
		for range send {
			r := &fakeReply{conn: b.conn, answer: make(chan *remoting.Command, 1)}
			b.Handle(c, r)
			<-r.answer
		}
	})
	for n := range rounds {
		send <- struct{}{}
		r := b.begin(request(11, nil, pullFields("sysFlag", "6", "queueOffset", itoa(n), "suspendTimeoutMillis", "600000")...))
		if a := r.wait(t); a.Code != 0 || len(records(t, a.Body)) < 1 {
			t.Fatalf("round %d: %d %q", n, a.Code, a.Remark)
		}
	}
	close(send)
	sender.Wait()
}

// Records that are not in memory are brought there by a worker.
func TestColdPull(t *testing.T) {
	t.Parallel()
	cold := &coldStore{}
	b := newBroker(t, func(o *Options, _ *engine.Options) { o.Store = cold })
	cold.Store = b.store
	b.sendN(t, 3, "A")
	a := b.ask(t, 11, nil, pullFields()...)
	checkPull(t, "cold", a, 0, "FOUND", 3, 0, 3)
	if n := len(records(t, a.Body)); n != 3 {
		t.Errorf("%d records", n)
	}
	if cold.gets.Load() != 1 {
		t.Errorf("read %d times by a worker, want once", cold.gets.Load())
	}
}

// coldStore says of everything that it is not in memory.
type coldStore struct {
	*engine.Store
	gets atomic.Int32
}

func (s *coldStore) Get(topic []byte, queueID int32, from message.QueueOffset, max, maxBytes int, f engine.Filter, res *engine.GetResult) {
	s.gets.Add(1)
	s.Store.Get(topic, queueID, from, max, maxBytes, f, res)
}

func (s *coldStore) GetNow([]byte, int32, message.QueueOffset, int, int, engine.Filter, *engine.GetResult) bool {
	return false
}

func BenchmarkPull(b *testing.B) {
	br := newBroker(b)
	r := &counting{conn: br.conn, n: make(chan struct{}, 1)}
	send := request(310, make([]byte, 1024), sendFields()...)
	for range 32 {
		br.Handle(send, r)
		<-r.n
	}
	br.settle(b)
	c := request(11, nil, pullFields("sysFlag", "5")...)
	b.ReportAllocs()
	b.SetBytes(32 * 1024)
	for b.Loop() {
		br.Handle(c, r)
		<-r.n
	}
}
