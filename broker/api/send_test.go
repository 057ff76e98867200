package api

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"ringmq/broker/topic"
	"ringmq/engine"
	"ringmq/engine/message"
	"ringmq/net/remoting"
	"ringmq/net/server"
)

func TestSendStores(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	a := b.ask(t, 310, []byte("body"), sendFields("e", "2", "h", "77", "i", properties("KEYS", "k", "UNIQ_KEY", "U1", "TAGS", "t"))...)
	expect(t, "send", a, 0)
	if number(t, a, "queueId") != 2 || number(t, a, "queueOffset") != 0 || a.Str("transactionId") != "U1" ||
		a.Str("msgId") != "7F00000100002A9F0000000000000000" || a.Str("MSG_REGION") != "DefaultRegion" || a.Str("TRACE_ON") != "true" {
		t.Errorf("answer %s", a.Fields)
	}
	_, at, err := message.ParseOffsetID(a.Str("msgId"))
	if err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	view, ok := b.store.Record(at)
	if !ok {
		t.Fatal("no record")
	}
	defer view.Release()
	var r message.Record
	if err := message.Decode(view.Bytes, &r); err != nil {
		t.Fatal(err)
	}
	if string(r.Topic) != "T" || r.QueueID != 2 || r.Flag != 77 || r.BornTime != 1795972758702 || string(r.Body) != "body" ||
		r.BornHost != b.conn.remote || r.StoreHost.String() != "127.0.0.1:10911" || r.BodyCRC != crc32.ChecksumIEEE([]byte("body"))&0x7fffffff {
		t.Errorf("record %+v", r)
	}
	want := properties("KEYS", "k", "UNIQ_KEY", "U1", "TAGS", "t", "MSG_REGION", "DefaultRegion", "TRACE_ON", "true", "CLUSTER", "C1")
	if string(r.Properties) != want {
		t.Errorf("properties %q, want %q", r.Properties, want)
	}
}

// The broker's own properties replace a client's, a missing unique key is made, an open last item is ended.
func TestSendProperties(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	for in, want := range map[string]string{
		"": "", "a\x01b": "a\x01b\x02", "a\x01b\x02": "a\x01b\x02",
		properties("CLUSTER", "fake", "x", "y", "TRACE_ON", "no", "MSG_REGION", "r"): "x\x01y\x02",
	} {
		a := b.ask(t, 10, []byte("x"), sendFields("i", in)...)
		expect(t, in, a, 0)
		id := a.Str("transactionId")
		if len(id) != 32 || strings.ToUpper(id) != id {
			t.Errorf("%q: made the id %q", in, id)
		}
		_, at, _ := message.ParseOffsetID(a.Str("msgId"))
		b.settle(t)
		view, _ := b.store.Record(at)
		var r message.Record
		if err := message.Decode(view.Bytes, &r); err != nil {
			t.Fatal(err)
		}
		want += properties("UNIQ_KEY", id, "MSG_REGION", "DefaultRegion", "TRACE_ON", "true", "CLUSTER", "C1")
		if string(r.Properties) != want {
			t.Errorf("%q: stored %q, want %q", in, r.Properties, want)
		}
		view.Release()
	}
}

func TestSendRefused(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	put := func(c topic.Config) {
		if _, err := b.opts.Topics.Put(c); err != nil {
			t.Fatal(err)
		}
	}
	put(topic.Config{Name: "ReadOnly", ReadQueues: 4, WriteQueues: 4, Perm: 4})
	put(topic.Config{Name: "Fewer", ReadQueues: 6, WriteQueues: 0, Perm: 6})
	long := strings.Repeat("t", 256)
	end := b.store.Positions().End
	for _, c := range []struct {
		what   string
		code   int32
		words  []string
		fields []string
	}{
		{"queue too large", 29, []string{"queueId is 4", "T", "4"}, []string{"e", "4"}},
		{"queue huge", 29, []string{"2147483647"}, []string{"e", "2147483647"}},
		{"no queue to write", 29, []string{"Fewer", "no queue"}, []string{"b", "Fewer", "e", "-1"}},
		{"read only", 16, []string{"ReadOnly", "perm is 4"}, []string{"b", "ReadOnly"}},
		{"schedule topic", 16, []string{"SCHEDULE_TOPIC_XXXX"}, []string{"b", "SCHEDULE_TOPIC_XXXX"}},
		{"half topic", 16, []string{"RMQ_SYS_TRANS_HALF_TOPIC"}, []string{"b", "RMQ_SYS_TRANS_HALF_TOPIC"}},
		{"half topic by 10", 16, []string{"forbidden"}, []string{"b", "OFFSET_MOVED_EVENT"}},
		{"system topic that is absent", 16, []string{"forbidden"}, []string{"b", "TRANS_CHECK_MAX_TIME_TOPIC"}},
		{"template absent", 17, []string{"Nope", "does not exist"}, []string{"b", "Nope", "c", "Nothing"}},
		{"template no template", 17, []string{"BenchmarkTest"}, []string{"b", "Nope", "c", "BenchmarkTest"}},
		{"topic 128", 29, []string{"128 bytes", "127"}, []string{"b", long[:128]}},
		{"topic 255", 29, []string{"255 bytes"}, []string{"b", long[:255]}},
		{"topic 256", 29, []string{"256 bytes"}, []string{"b", long}},
		{"retry topic 256", 29, []string{"256 bytes", "255"}, []string{"b", "%RETRY%" + long[:249]}},
		{"letters of two bytes", 29, []string{"not allowed"}, []string{"b", "ä"}},
		{"64 letters of two bytes are 128", 29, []string{"128 bytes"}, []string{"b", strings.Repeat("ä", 64)}},
		{"topic empty", 29, []string{"empty"}, []string{"b", ""}},
		{"topic missing", 29, []string{"topic (b)"}, []string{"b", "-"}},
		{"queueId missing", 29, []string{"queueId (e)"}, []string{"e", "-"}},
		{"queueId no number", 29, []string{"queueId (e)", "x"}, []string{"e", "x"}},
		{"delay", 1, []string{"DELAY", "3", "not supported"}, []string{"i", properties("DELAY", "3")}},
		{"delay above the highest", 1, []string{"DELAY", "99"}, []string{"i", properties("DELAY", "99")}},
		{"delay no number", 1, []string{"DELAY"}, []string{"i", properties("DELAY", "soon")}},
		{"delay, last of two", 1, []string{"DELAY"}, []string{"i", properties("DELAY", "0", "DELAY", "1")}},
		{"timer seconds", 1, []string{"TIMER_DELAY_SEC"}, []string{"i", properties("TIMER_DELAY_SEC", "3")}},
		{"timer ms", 1, []string{"TIMER_DELAY_MS"}, []string{"i", properties("TIMER_DELAY_MS", "3")}},
		{"timer moment", 1, []string{"TIMER_DELIVER_MS"}, []string{"i", properties("TIMER_DELIVER_MS", "3")}},
		{"prepared", 16, []string{"TRAN_MSG"}, []string{"i", properties("TRAN_MSG", "True")}},
		{"prepared by flag", 16, []string{"sysFlag", "transaction"}, []string{"f", "4"}},
		{"committed by flag", 16, []string{"sysFlag"}, []string{"f", "8"}},
		{"rollback by flag", 16, []string{"sysFlag"}, []string{"f", "12"}},
		{"inner batch", 1, []string{"inner batch"}, []string{"f", "128"}},
		{"properties too long", 13, []string{"32767"}, []string{"i", properties("p", strings.Repeat("x", 32767))}},
	} {
		for _, code := range []int32{10, 310} {
			expect(t, c.what, b.ask(t, code, []byte("x"), sendFields(c.fields...)...), c.code, c.words...)
		}
	}
	if now := b.store.Positions().End; now != end {
		t.Errorf("refused sends were stored: the log ends at %d, before at %d", now, end)
	}
	expect(t, "good one", b.ask(t, 310, []byte("x"), sendFields("i", properties("DELAY", "0", "TRAN_MSG", "false"))...), 0)
}

func TestBrokerPermission(t *testing.T) {
	t.Parallel()
	b := newBroker(t, func(o *Options, _ *engine.Options) { o.Withheld = topic.PermWrite })
	expect(t, "send", b.ask(t, 310, []byte("x"), sendFields()...), 16, "brokerPermission is 4")
	b = newBroker(t, func(o *Options, _ *engine.Options) { o.Withheld = topic.PermRead })
	expect(t, "pull", b.ask(t, 11, nil, pullFields()...), 16, "brokerPermission is 2")
}

// Sizes around the limit: refused or stored, and the queue numbers have no hole.
func TestSendSizes(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	b := newBroker(t, func(o *Options, e *engine.Options) { o.MaxMessageSize, e.MaxMessageSize = limit, limit })
	next := int64(0)
	good := func(what string, body int, props string) {
		t.Helper()
		a := b.ask(t, 310, make([]byte, body), sendFields("i", props)...)
		expect(t, what, a, 0)
		if at := number(t, a, "queueOffset"); at != next {
			t.Errorf("%s: queue offset %d, want %d", what, at, next)
		}
		next++
	}
	bad := func(what string, body int, props string, words ...string) {
		t.Helper()
		expect(t, what, b.ask(t, 310, make([]byte, body), sendFields("i", props)...), 13, words...)
	}
	own := len(properties("UNIQ_KEY", strings.Repeat("u", 32), "MSG_REGION", "DefaultRegion", "TRACE_ON", "true", "CLUSTER", "C1"))
	room := func(n int) string { return properties("p", strings.Repeat("x", n-3)) } // n bytes of properties
	good("empty body", 0, "")
	good("body limit-1", limit-1, "")
	good("body limit", limit, room(1000))
	bad("body limit+1", limit+1, "", itoa(limit+1), "maxMessageSize", itoa(limit))
	good("after it", 1, "")
	good("properties as long as fits", 1, room(32767-own))
	bad("properties one more", 1, room(32768-own), "32768", "32767")
	for _, n := range []int{32766, 32767, 32768, 65536} {
		bad("properties "+itoa(n), 1, room(n), "properties", "32767")
	}
	good("after them", 1, "")
}

func TestSendTopics(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	long := strings.Repeat("t", 256)
	for _, name := range []string{"n", long[:127], "%RETRY%" + long[:200], "%RETRY%" + long[:248], "a|b%c-d_e"} {
		a := b.ask(t, 310, []byte("x"), sendFields("b", name, "e", "0")...)
		expect(t, name, a, 0)
		if b.opts.Topics.Get(name) == nil {
			t.Errorf("%s: not made", name)
		}
		if _, at, _ := message.ParseOffsetID(a.Str("msgId")); at >= 0 {
			b.settle(t)
			view, ok := b.store.Record(at)
			if !ok {
				t.Errorf("%s: no whole record", name)
			}
			view.Release()
		}
	}
	if c := b.opts.Topics.Get("n"); c.WriteQueues != 4 || c.Perm != 6 {
		t.Errorf("made %+v", c)
	}
}

// Least fields, unknown fields, long and short names: the same stored bytes.
func TestSendForms(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	least := []string{"producerGroup", "PG", "topic", "T", "defaultTopic", "TBW102", "defaultTopicQueueNums", "4", "queueId", "0",
		"sysFlag", "0", "bornTimestamp", "5", "flag", "0"}
	short := []string{"a", "PG", "b", "T", "c", "TBW102", "d", "4", "e", "0", "f", "0", "g", "5", "h", "0"}
	unique := properties("UNIQ_KEY", "U")
	var stored [][]byte
	for code, fields := range map[int32][]string{
		10:  with(least, "properties", unique),
		310: with(short, "i", unique, "zz", "unknown"),
		320: with(short, "i", unique, "m", "false"),
	} {
		a := b.ask(t, code, []byte("body"), fields...)
		expect(t, fmt.Sprint(code), a, 0)
		b.settle(t)
		_, at, _ := message.ParseOffsetID(a.Str("msgId"))
		view, ok := b.store.Record(at)
		if !ok {
			t.Fatal("no record")
		}
		rec := bytes.Clone(view.Bytes)
		view.Release()
		for _, stamped := range [][2]int{{20, 36}, {56, 64}} { // queue offset, own offset, store time
			clear(rec[stamped[0]:stamped[1]])
		}
		stored = append(stored, rec)
	}
	if !bytes.Equal(stored[0], stored[1]) || !bytes.Equal(stored[1], stored[2]) {
		t.Errorf("stored\n%x\n%x\n%x", stored[0], stored[1], stored[2])
	}
	expect(t, "least", b.ask(t, 10, []byte("x"), least...), 0)
}

func TestSendNegativeQueue(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	seen := make(map[int64]bool)
	for range 200 {
		a := b.ask(t, 310, []byte("x"), sendFields("e", "-1")...)
		expect(t, "send", a, 0)
		seen[number(t, a, "queueId")] = true
	}
	if len(seen) != 4 {
		t.Errorf("queues %v, want all of 0 to 3", seen)
	}
}

// batchItem is one message of a batch body.
func batchItem(flag int, body, props string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+4+4+4+4+len(body)+2+len(props)))
	b = append(b, make([]byte, 8)...)
	b = binary.BigEndian.AppendUint32(b, uint32(flag))
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
	b = append(b, body...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(props)))
	return append(b, props...)
}

func TestBatch(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	fields := sendFields("m", "true", "e", "1", "i", properties("UNIQ_KEY", "UB", "WAIT", "true"))
	next := int64(0)
	for _, n := range []int{1, 3, 1000} {
		var body []byte
		for i := range n {
			body = append(body, batchItem(i, fmt.Sprint("b", i), properties("TAGS", "t", "UNIQ_KEY", fmt.Sprint("U", i)))...)
		}
		a := b.ask(t, 320, body, fields...)
		expect(t, "batch", a, 0)
		ids := strings.Split(a.Str("msgId"), ",")
		if len(ids) != n || number(t, a, "queueOffset") != next || number(t, a, "queueId") != 1 || a.Str("transactionId") != "UB" {
			t.Fatalf("%d messages: %d ids, %s", n, len(ids), a.Fields)
		}
		next += int64(n)
		b.settle(t)
		for _, i := range []int{0, n - 1} {
			_, at, _ := message.ParseOffsetID(ids[i])
			view, ok := b.store.Record(at)
			if !ok {
				t.Fatalf("message %d has no record", i)
			}
			var r message.Record
			if err := message.Decode(view.Bytes, &r); err != nil || string(r.Body) != fmt.Sprint("b", i) || r.Flag != int32(i) ||
				string(r.Properties) != properties("TAGS", "t", "UNIQ_KEY", fmt.Sprint("U", i)) {
				t.Errorf("message %d: %+v, %v", i, r, err)
			}
			view.Release()
		}
	}
	if a := b.ask(t, 320, batchItem(0, "x", ""), sendFields("m", "true", "i", "")...); a.Str("transactionId") != "" {
		t.Errorf("a batch without key has the id %q", a.Str("transactionId"))
	}
}

// All or nothing.
func TestBatchRefused(t *testing.T) {
	t.Parallel()
	b := newBroker(t, func(o *Options, e *engine.Options) { o.MaxMessageSize, e.MaxMessageSize = 200_000, 200_000 })
	good := batchItem(0, "good", "")
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	change := func(at int, value uint32) []byte {
		item := batchItem(0, "body", "a\x01b")
		binary.BigEndian.PutUint32(item[at:], value)
		return item
	}
	end := b.store.Positions().End
	for what, c := range map[string]struct {
		body  []byte
		code  int32
		words []string
	}{
		"empty":                  {nil, 13, []string{"empty"}},
		"rest of 5 bytes":        {join(good, []byte("12345")), 13, []string{"message 1", "5 bytes"}},
		"size too small":         {join(good, change(0, 21)), 13, []string{"message 1", "size is 21"}},
		"size too large":         {change(0, 1<<31), 13, []string{"size is 2147483648"}},
		"body length too large":  {change(16, 100), 13, []string{"body length is 100"}},
		"body length negative":   {change(16, 0xffffffff), 13, []string{"body length"}},
		"body length too small":  {change(16, 3), 13, []string{"properties length"}},
		"properties of 32768":    {join(good, batchItem(0, "x", strings.Repeat("p", 32768))), 13, []string{"message 1", "32767"}},
		"delayed item":           {join(good, batchItem(0, "x", properties("DELAY", "1")), good), 1, []string{"message 1", "DELAY"}},
		"prepared item":          {join(good, batchItem(0, "x", properties("TRAN_MSG", "true"))), 16, []string{"message 1", "TRAN_MSG"}},
		"whole body too large":   {make([]byte, 200_001), 13, []string{"maxMessageSize"}},
		"oversize one inside":    {join(good, batchItem(0, strings.Repeat("x", 199_999), "")), 13, nil},
		"records above the pool": {bytes.Repeat(good, 200_000/len(good)+1), 13, []string{"maxMessageSize"}},
	} {
		expect(t, what, b.ask(t, 320, c.body, sendFields("m", "true")...), c.code, c.words...)
	}
	expect(t, "retry topic", b.ask(t, 320, good, sendFields("m", "true", "b", "%RETRY%G")...), 13, "retry")
	if now := b.store.Positions().End; now != end {
		t.Errorf("refused batches were stored: the log ends at %d, before at %d", now, end)
	}
	a := b.ask(t, 320, good, sendFields("m", "true")...)
	expect(t, "good one", a, 0)
	if number(t, a, "queueOffset") != 0 {
		t.Errorf("the queue has a hole: %s", a.Fields)
	}
}

func FuzzBatch(f *testing.F) {
	f.Add(batchItem(1, "body", "a\x01b\x02"))
	f.Add(bytes.Repeat(batchItem(0, "", ""), 3))
	f.Add([]byte{0, 0, 0, 22})
	f.Fuzz(func(t *testing.T, body []byte) {
		var again []byte
		for rest := body; len(rest) > 0; {
			var m message.Message
			var err error
			if rest, err = takeItem(rest, &m); err != nil {
				return
			}
			again = append(again, batchItem(int(m.Flag), string(m.Body), string(m.Properties))...)
		}
		for i := range again { // magic and CRC of an item are not looked at
			if again[i] != body[i] && again[i] != 0 {
				t.Fatalf("%x reads as %x", body, again)
			}
		}
		if len(again) != len(body) {
			t.Fatalf("%d bytes read as %d", len(body), len(again))
		}
	})
}

// answering is a store that answers every put as it is told.
type answering struct {
	*engine.Store
	result engine.PutResult
}

func (s *answering) Put(p *engine.PutRequest) { p.Done.PutDone(p, &s.result) }

func TestPutCodes(t *testing.T) {
	t.Parallel()
	store := &answering{}
	b := newBroker(t, func(o *Options, _ *engine.Options) { o.Store = store })
	store.Store = b.store
	for status, c := range map[engine.PutStatus]struct {
		code   int32
		stored bool
	}{
		engine.PutOK: {0, true}, engine.FlushTimeout: {10, true}, engine.ReplicaUnavailable: {11, true}, engine.ReplicaTimeout: {12, true},
		engine.Illegal: {13, false}, engine.Unavailable: {14, false}, engine.Busy: {2, false},
	} {
		store.result = engine.PutResult{Status: status, Offset: 77, QueueOffset: 5}
		if status != engine.PutOK {
			store.result.Err = errors.New("the reason")
		}
		a := b.ask(t, 310, []byte("x"), sendFields()...)
		expect(t, fmt.Sprint(status), a, c.code)
		remark := map[engine.PutStatus]string{engine.PutOK: "", engine.Busy: "[REJECTREQUEST]system busy, start flow control for a while: the reason"}
		want, special := remark[status]
		if !special {
			want = "the reason"
		}
		if _, ok := a.Field("msgId"); ok != c.stored || a.Remark != want {
			t.Errorf("status %d: %q, %s", status, a.Remark, a.Fields)
		}
	}
	store.result = engine.PutResult{Status: engine.Busy, Offset: -1, QueueOffset: -1, Err: fmt.Errorf("%w: 1003 ms", engine.ErrOverdue)}
	a := b.ask(t, 310, []byte("x"), sendFields()...)
	expect(t, "overdue", a, 2)
	if want := "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, engine: the message has waited too long for room in the commit log: 1003 ms"; a.Remark != want {
		t.Errorf("overdue: %q, want %q", a.Remark, want)
	}
}

// deferring tells how an answer was given.
type deferring struct {
	fakeReply
	deferred bool
}

func (r *deferring) Defer(c *remoting.Command) { r.deferred = true; r.fakeReply.Write(c) }

// Answers that no kick follows must not wait for one.
func TestDeferredAnswers(t *testing.T) {
	t.Parallel()
	store := &answering{}
	b := newBroker(t, func(o *Options, _ *engine.Options) { o.Store, o.Batched = store, true })
	store.Store = b.store
	for _, c := range []struct {
		what   string
		status engine.PutStatus
		props  string
		want   bool
	}{
		{"good", engine.PutOK, "", true}, {"WAIT=false", engine.PutOK, properties("WAIT", "false"), false},
		{"flush timeout", engine.FlushTimeout, "", false}, {"busy", engine.Busy, "", false},
	} {
		store.result = engine.PutResult{Status: c.status}
		r := &deferring{fakeReply: fakeReply{conn: b.conn, answer: make(chan *remoting.Command, 1)}}
		b.Handle(request(310, []byte("x"), sendFields("i", c.props)...), r)
		r.wait(t)
		if r.deferred != c.want {
			t.Errorf("%s: deferred %v", c.what, r.deferred)
		}
	}
}

// counting answers without keeping anything.
type counting struct {
	conn server.Conn
	n    chan struct{}
	held int
}

func (r *counting) Conn() server.Conn       { return r.conn }
func (r *counting) Write(*remoting.Command) { r.n <- struct{}{} }
func (r *counting) Defer(*remoting.Command) { r.n <- struct{}{} }
func (r *counting) WriteBody(_ *remoting.Command, pieces [][]byte, held server.Releaser) {
	r.held += len(pieces)
	held.Release()
	r.n <- struct{}{}
}

func BenchmarkSend(b *testing.B) {
	br := newBroker(b, func(_ *Options, e *engine.Options) { e.SegmentSize = 1 << 30 })
	r := &counting{conn: br.conn, n: make(chan struct{}, 1)}
	c := request(310, make([]byte, 1024), sendFields("i", properties("KEYS", "k", "TAGS", "t", "WAIT", "false"))...)
	b.ReportAllocs()
	b.SetBytes(1024)
	for b.Loop() {
		br.Handle(c, r)
		<-r.n
	}
}
