package namesrv

import (
	"encoding/json"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"ringmq/internal/fastjson"
	"ringmq/net/remoting"
	"ringmq/net/server"
)

// fakeConn is a connection that goes nowhere.
type fakeConn struct {
	id     uint64
	closed atomic.Bool
}

func (c *fakeConn) ID() uint64                  { return c.id }
func (c *fakeConn) Remote() netip.AddrPort      { return netip.AddrPort{} }
func (c *fakeConn) Local() netip.AddrPort       { return netip.AddrPort{} }
func (c *fakeConn) Send(*remoting.Command) bool { return true }
func (c *fakeConn) Backlogged() bool            { return false }
func (c *fakeConn) Close()                      { c.closed.Store(true) }

// fakeReply gives the answer, encoded and read again, to whoever waits for it.
type fakeReply struct {
	conn *fakeConn
	got  chan *remoting.Command
}

func (r *fakeReply) Conn() server.Conn { return r.conn }
func (r *fakeReply) Write(c *remoting.Command) {
	answer := new(remoting.Command)
	if err := answer.Decode(c.AppendFrame(nil)[4:]); err != nil {
		panic(err)
	}
	r.got <- answer
}
func (r *fakeReply) Defer(*remoting.Command) { panic("not used") }
func (r *fakeReply) WriteBody(*remoting.Command, [][]byte, server.Releaser) {
	panic("not used")
}

func ask(s *Server, conn *fakeConn, request *remoting.Command) *remoting.Command {
	r := &fakeReply{conn, make(chan *remoting.Command, 1)}
	s.Handle(request, r)
	return <-r.got
}

// request builds one of ours from pairs of key and value.
func request(code int32, pairs ...string) *remoting.Command {
	c := new(remoting.Command)
	c.Reset()
	c.Code, c.Opaque = code, 5
	for i := 0; i < len(pairs); i += 2 {
		c.SetStr(pairs[i], pairs[i+1])
	}
	return c
}

type manualClock struct{ ms atomic.Int64 }

func (c *manualClock) now() int64 { return c.ms.Load() }

func newServer(t testing.TB, o Options) (*Server, *manualClock) {
	t.Helper()
	c := new(manualClock)
	o.Now = c.now
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

// broker is one that registers in tests.
type broker struct {
	name, addr, id string
	conn           *fakeConn
	version        dataVersion
	topics         []string
	more           []string // ext fields
}

func (b *broker) request() *remoting.Command {
	table := map[string]any{}
	for _, topic := range b.topics {
		table[topic] = map[string]any{"topicName": topic, "readQueueNums": 4, "writeQueueNums": 8, "perm": 6, "topicSysFlag": 0,
			"order": false, "attributes": map[string]string{}}
	}
	body, err := json.Marshal(map[string]any{"filterServerList": []string{}, "topicConfigSerializeWrapper": map[string]any{
		"dataVersion": b.version, "topicConfigTable": table}})
	if err != nil {
		panic(err)
	}
	c := request(remoting.RegisterBroker, append([]string{"clusterName", "C1", "brokerName", b.name, "brokerAddr", b.addr, "brokerId", b.id,
		"haServerAddr", b.addr + "2"}, b.more...)...)
	c.Body = body
	return c
}

func (b *broker) register(t testing.TB, s *Server) *remoting.Command {
	t.Helper()
	answer := ask(s, b.conn, b.request())
	if answer.Code != remoting.Success {
		t.Fatalf("registration of %s: %d %s", b.name, answer.Code, answer.Remark)
	}
	return answer
}

type route struct {
	BrokerDatas []struct {
		BrokerAddrs        map[string]string
		BrokerName         string
		Cluster            string
		EnableActingMaster bool
	}
	QueueDatas []struct {
		BrokerName                                        string
		Perm, ReadQueueNums, WriteQueueNums, TopicSysFlag int
	}
	FilterServerTable map[string][]string
	OrderTopicConf    string
}

// routeOf returns nil when there is none.
func routeOf(t testing.TB, s *Server, topic string) *route {
	t.Helper()
	answer := ask(s, new(fakeConn), request(remoting.GetRouteInfoByTopic, "topic", topic))
	if answer.Code == remoting.TopicNotExist {
		return nil
	}
	if answer.Code != remoting.Success {
		t.Fatalf("route of %s: %d %s", topic, answer.Code, answer.Remark)
	}
	r := new(route)
	if err := json.Unmarshal(answer.Body, r); err != nil {
		t.Fatalf("route of %s: %s: %v", topic, answer.Body, err)
	}
	return r
}

func master() *broker {
	return &broker{name: "broker-a", addr: "127.0.0.1:10911", id: "0", conn: &fakeConn{id: 1}, version: dataVersion{Counter: 1, Timestamp: 7},
		topics: []string{"T1", "T2"}, more: []string{"enableActingMaster", "false"}}
}

func slave() *broker {
	return &broker{name: "broker-a", addr: "127.0.0.1:11911", id: "1", conn: &fakeConn{id: 2}, version: dataVersion{Counter: 1, Timestamp: 7},
		topics: []string{"T1", "T2"}, more: []string{"enableActingMaster", "false"}}
}

func TestRouteOfMasterAndSlave(t *testing.T) {
	s, _ := newServer(t, Options{})
	if answer := master().register(t, s); len(answer.Fields) != 0 {
		t.Errorf("a master is answered with %q", answer.Fields)
	}
	answer := slave().register(t, s)
	if answer.Str("masterAddr") != "127.0.0.1:10911" || answer.Str("haServerAddr") != "127.0.0.1:109112" {
		t.Errorf("slave is answered with %q", answer.Fields)
	}
	const want = `{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:10911","1":"127.0.0.1:11911"},"brokerName":"broker-a","cluster":"C1",` +
		`"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,` +
		`"topicSysFlag":0,"writeQueueNums":8}]}`
	c := request(remoting.GetRouteInfoByTopic, "topic", "T1")
	for _, test := range []struct {
		version int32
		accept  string
		want    string
	}{
		{remoting.Version, "", want}, {versionStandardJSON, "", want}, {317, "true", want},
		{versionStandardJSON - 1, "", strings.NewReplacer(`"0":`, `0:`, `"1":`, `1:`).Replace(want)},
		{317, "false", strings.NewReplacer(`"0":`, `0:`, `"1":`, `1:`).Replace(want)},
	} {
		c.Version = test.version
		c.SetStr("acceptStandardJsonOnly", test.accept)
		if got := string(ask(s, new(fakeConn), c).Body); got != test.want {
			t.Errorf("version %d, accept %q:\ngot  %s\nwant %s", test.version, test.accept, got, test.want)
		}
	}
}

func TestNoRoute(t *testing.T) {
	s, _ := newServer(t, Options{})
	master().register(t, s)
	for _, test := range []struct {
		topic string
		code  int32
		want  string
	}{
		{"none", remoting.TopicNotExist, "topic none"},
		{"%RETRY%group", remoting.TopicNotExist, "%RETRY%group"},
		{"a*b", remoting.TopicNotExist, `'*' at byte 1`},
		{strings.Repeat("x", 256), remoting.TopicNotExist, "256 bytes"},
		{"", remoting.SystemError, "field topic"},
	} {
		answer := ask(s, new(fakeConn), request(remoting.GetRouteInfoByTopic, "topic", test.topic))
		if answer.Code != test.code || !strings.Contains(answer.Remark, test.want) || len(answer.Body) > 0 || answer.Opaque != 5 {
			t.Errorf("topic %.20q: %d %s", test.topic, answer.Code, answer.Remark)
		}
	}
	answer := ask(s, new(fakeConn), request(4711))
	if answer.Code != remoting.RequestCodeNotSupported || !strings.Contains(answer.Remark, "4711") {
		t.Errorf("unknown code: %d %s", answer.Code, answer.Remark)
	}
}

func TestRegistrationIsRefused(t *testing.T) {
	s, _ := newServer(t, Options{})
	for name, test := range map[string]struct {
		change func(c *remoting.Command)
		want   string
	}{
		"no cluster":     {func(c *remoting.Command) { c.SetStr("clusterName", "") }, "clusterName"},
		"no name":        {func(c *remoting.Command) { c.SetStr("brokerName", "") }, "brokerName"},
		"long address":   {func(c *remoting.Command) { c.SetStr("brokerAddr", strings.Repeat("1", 256)) }, "brokerAddr of 256 bytes"},
		"no id":          {func(c *remoting.Command) { c.SetStr("brokerId", "x") }, "brokerId"},
		"negative id":    {func(c *remoting.Command) { c.SetInt("brokerId", -1) }, "brokerId is -1"},
		"wrong CRC":      {func(c *remoting.Command) { c.SetInt("bodyCrc32", 1) }, "bodyCrc32 says 1"},
		"odd CRC":        {func(c *remoting.Command) { c.SetStr("bodyCrc32", "x") }, "bodyCrc32"},
		"no JSON":        {func(c *remoting.Command) { c.Body = []byte("{") }, "body of registration"},
		"not compressed": {func(c *remoting.Command) { c.SetBool("compressed", true) }, "compressed registration"},
		"one topic":      {func(c *remoting.Command) { b := master(); b.topics = b.topics[:1]; c.Body = b.request().Body }, "not registered whole"},
	} {
		c := master().request()
		test.change(c)
		answer := ask(s, new(fakeConn), c)
		if answer.Code != remoting.SystemError || !strings.Contains(answer.Remark, test.want) {
			t.Errorf("%s: %d %s", name, answer.Code, answer.Remark)
		}
	}
	if got := string(ask(s, new(fakeConn), request(remoting.GetBrokerClusterInfo)).Body); got != `{"brokerAddrTable":{},"clusterAddrTable":{}}` {
		t.Errorf("after refusals: %s", got)
	}
}

func TestTopicsAreMerged(t *testing.T) {
	s, _ := newServer(t, Options{})
	b := master()
	b.register(t, s)
	b.topics, b.version.Counter = []string{"T3"}, 2 // a broker of 5.x sends what changed
	b.register(t, s)
	for _, topic := range []string{"T1", "T2", "T3"} {
		if routeOf(t, s, topic) == nil {
			t.Errorf("%s is gone", topic)
		}
	}
	c := request(remoting.UpdateNamesrvConfig)
	c.Body = []byte("deleteTopicWithBrokerRegistration=true\n")
	if answer := ask(s, b.conn, c); answer.Code != remoting.Success {
		t.Fatal(answer.Remark)
	}
	b.version.Counter = 3
	b.register(t, s)
	if routeOf(t, s, "T1") != nil || routeOf(t, s, "T3") == nil {
		t.Error("deleteTopicWithBrokerRegistration has no effect")
	}
}

func TestPermissionOfOperatorStaysUntilTopicsChange(t *testing.T) {
	s, _ := newServer(t, Options{})
	b := master()
	b.register(t, s)
	answer := ask(s, b.conn, request(remoting.WipeWritePermOfBroker, "brokerName", "broker-a"))
	if answer.Str("wipeTopicCount") != "2" {
		t.Errorf("wiped %q", answer.Fields)
	}
	b.register(t, s)
	if got := routeOf(t, s, "T1").QueueDatas[0].Perm; got != 4 {
		t.Errorf("permission %d after the same registration again", got)
	}
	if answer = ask(s, b.conn, request(remoting.AddWritePermOfBroker, "brokerName", "broker-a")); answer.Str("addTopicCount") != "2" {
		t.Errorf("added %q", answer.Fields)
	}
	ask(s, b.conn, request(remoting.WipeWritePermOfBroker, "brokerName", "broker-a"))
	b.version.Counter++
	b.register(t, s)
	if got := routeOf(t, s, "T1").QueueDatas[0].Perm; got != 6 {
		t.Errorf("permission %d after a changed registration", got)
	}
}

func TestBrokersLeave(t *testing.T) {
	s, clock := newServer(t, Options{})
	m, sl := master(), slave()
	other := &broker{name: "broker-b", addr: "127.0.0.1:20911", id: "0", conn: &fakeConn{id: 3}, topics: []string{"T2", "T9"}}
	for _, b := range []*broker{m, sl, other} {
		b.register(t, s)
	}
	if answer := ask(s, other.conn, request(remoting.UnregisterBroker, "clusterName", "C1", "brokerName", "broker-b", "brokerAddr",
		"127.0.0.1:20911", "brokerId", "0")); answer.Code != remoting.Success {
		t.Fatal(answer.Remark)
	}
	if routeOf(t, s, "T9") != nil || len(routeOf(t, s, "T2").BrokerDatas) != 1 {
		t.Error("broker-b is still there")
	}
	// The master comes back over a new connection before the end of the old one is seen.
	m.conn = &fakeConn{id: 4}
	m.register(t, s)
	s.Closed(&fakeConn{id: 1})
	if got := len(routeOf(t, s, "T1").BrokerDatas[0].BrokerAddrs); got != 2 {
		t.Errorf("%d addresses after the old connection ended", got)
	}
	clock.ms.Add(DefaultExpiryMS)
	sl.register(t, s)
	s.Expire()
	if m.conn.closed.Load() {
		t.Error("expired at the limit")
	}
	clock.ms.Add(1)
	s.Expire()
	if !m.conn.closed.Load() || sl.conn.closed.Load() {
		t.Error("the silent master is not closed, or the slave is")
	}
	if addrs := routeOf(t, s, "T1").BrokerDatas[0].BrokerAddrs; len(addrs) != 1 || addrs["1"] != sl.addr {
		t.Errorf("addresses %v", addrs)
	}
	s.Closed(sl.conn)
	if routeOf(t, s, "T1") != nil {
		t.Error("the topic outlives its brokers")
	}
	if got := string(ask(s, m.conn, request(remoting.GetBrokerClusterInfo)).Body); got != `{"brokerAddrTable":{},"clusterAddrTable":{}}` {
		t.Errorf("left: %s", got)
	}
}

func TestHeartbeatsAndQueriesKeepAlive(t *testing.T) {
	s, clock := newServer(t, Options{})
	b := master()
	b.more = append(b.more, "heartbeatTimeoutMillis", "1000")
	b.register(t, s)
	clock.ms.Add(900)
	ask(s, b.conn, request(remoting.BrokerHeartbeat, "clusterName", "C1", "brokerAddr", b.addr))
	clock.ms.Add(900)
	s.Expire()
	query := request(remoting.QueryDataVersion, "clusterName", "C1", "brokerAddr", b.addr, "brokerName", b.name, "brokerId", "0")
	query.Body = []byte(`{"counter":1,"stateVersion":0,"timestamp":7}`)
	answer := ask(s, b.conn, query)
	if answer.Str("changed") != "false" || string(answer.Body) != `{"counter":1,"stateVersion":0,"timestamp":7}` {
		t.Errorf("same version: %q %s", answer.Fields, answer.Body)
	}
	query.Body = []byte(`{"counter":2,"timestamp":7}`)
	if answer = ask(s, b.conn, query); answer.Str("changed") != "true" {
		t.Errorf("other version: %q", answer.Fields)
	}
	clock.ms.Add(900)
	s.Expire()
	if routeOf(t, s, "T1") == nil {
		t.Error("expired though it asked")
	}
	clock.ms.Add(101)
	s.Expire()
	answer = ask(s, b.conn, query)
	if routeOf(t, s, "T1") != nil || answer.Str("changed") != "true" || len(answer.Body) != 0 {
		t.Errorf("a broker that is gone: %q %s", answer.Fields, answer.Body)
	}
}

func TestSlaveBecomesMaster(t *testing.T) {
	s, _ := newServer(t, Options{})
	m, sl := master(), slave()
	m.version.StateVersion = 3
	m.register(t, s)
	sl.register(t, s)
	sl.id = "0" // older state: the master stays
	sl.register(t, s)
	if addrs := routeOf(t, s, "T1").BrokerDatas[0].BrokerAddrs; addrs["0"] != m.addr {
		t.Errorf("addresses %v", addrs)
	}
	sl.version.StateVersion = 3
	sl.register(t, s)
	if addrs := routeOf(t, s, "T1").BrokerDatas[0].BrokerAddrs; len(addrs) != 1 || addrs["0"] != sl.addr {
		t.Errorf("addresses %v", addrs)
	}
}

func TestActingMasterTakesNoMessages(t *testing.T) {
	s, _ := newServer(t, Options{})
	m, sl := master(), slave()
	m.more[1], sl.more[1] = "true", "true"
	m.register(t, s)
	sl.register(t, s)
	s.Closed(m.conn)
	if got := routeOf(t, s, "T1").QueueDatas[0].Perm; got != 4 {
		t.Errorf("permission %d without a master", got)
	}
	sl.version.Counter++
	sl.register(t, s)
	if got := routeOf(t, s, "T1").QueueDatas[0].Perm; got != 4 {
		t.Errorf("permission %d after the slave registered", got)
	}
	m.register(t, s)
	if got := routeOf(t, s, "T1").QueueDatas[0].Perm; got != 6 {
		t.Errorf("permission %d with the master back", got)
	}
}

func TestListsAndDeletedTopics(t *testing.T) {
	s, _ := newServer(t, Options{})
	b := master()
	b.register(t, s)
	for _, test := range []struct {
		request *remoting.Command
		want    string
	}{
		{request(remoting.GetAllTopicListFromNameServer), `{"topicList":["T1","T2"]}`},
		{request(remoting.GetTopicsByCluster, "cluster", "C1"), `{"topicList":["T1","T2"]}`},
		{request(remoting.GetTopicsByCluster, "cluster", "C2"), `{"topicList":[]}`},
		{request(remoting.GetSystemTopicListFromNS), `{"brokerAddr":"127.0.0.1:10911","topicList":["C1","broker-a"]}`},
		{request(remoting.GetBrokerMemberGroup, "clusterName", "C1", "brokerName", "broker-a"),
			`{"brokerMemberGroup":{"brokerAddrs":{0:"127.0.0.1:10911"},"brokerName":"broker-a","cluster":"C1"}}`},
		{request(remoting.GetBrokerClusterInfo, "acceptStandardJsonOnly", "true"),
			`{"brokerAddrTable":{"broker-a":{"brokerAddrs":{"0":"127.0.0.1:10911"},"brokerName":"broker-a","cluster":"C1",` +
				`"enableActingMaster":false}},"clusterAddrTable":{"C1":["broker-a"]}}`},
		{request(remoting.DeleteTopicInNamesrv, "topic", "T1", "clusterName", "C2"), ``},
		{request(remoting.GetAllTopicListFromNameServer), `{"topicList":["T1","T2"]}`},
		{request(remoting.DeleteTopicInNamesrv, "topic", "T1", "clusterName", "C1"), ``},
		{request(remoting.DeleteTopicInNamesrv, "topic", "T2"), ``},
		{request(remoting.GetAllTopicListFromNameServer), `{"topicList":[]}`},
	} {
		answer := ask(s, b.conn, test.request)
		if answer.Code != remoting.Success || string(answer.Body) != test.want {
			t.Errorf("code %d: %d %s\ngot  %s\nwant %s", test.request.Code, answer.Code, answer.Remark, answer.Body, test.want)
		}
	}
}

func TestStaticTopicsAreHandedOn(t *testing.T) {
	s, _ := newServer(t, Options{})
	c := master().request()
	c.Body = []byte(strings.Replace(string(c.Body), `"topicConfigTable"`,
		`"topicQueueMappingInfoMap":{"T1":{"bname":"broker-a","currIdMap":{0:0,1:1},"topic":"T1"}},"topicConfigTable"`, 1))
	if answer := ask(s, new(fakeConn), c); answer.Code != remoting.Success {
		t.Fatal(answer.Remark)
	}
	answer := ask(s, new(fakeConn), request(remoting.GetRouteInfoByTopic, "topic", "T1"))
	if !strings.Contains(string(answer.Body), `,"topicQueueMappingByBroker":{"broker-a":{"bname":"broker-a","currIdMap":{"0":0,"1":1},"topic":"T1"}}}`) {
		t.Errorf("%s", answer.Body)
	}
	var any map[string]any
	if err := fastjson.Unmarshal(answer.Body, &any); err != nil {
		t.Error(err)
	}
}
