package api

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"ringmq/broker/topic"
	"ringmq/engine"
	"ringmq/internal/fastjson"
	"ringmq/net/remoting"
)

func TestUnknownRequests(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	end := b.store.Positions().End
	for code, words := range map[int32][]string{
		-1: {"-1", "not known"}, 99999: {"99999"}, 200050: {"POP_MESSAGE"}, 36: {"36", "CONSUMER_SEND_MSG_BACK"},
		325: {"SEND_REPLY_MESSAGE_V2"}, 215: {"DELETE_TOPIC_IN_BROKER"},
	} {
		expect(t, fmt.Sprint(code), b.ask(t, code, []byte("x"), sendFields()...), 3, words...)
	}
	expect(t, "END_TRANSACTION", b.ask(t, 37, nil, "producerGroup", "G", "commitLogOffset", "0"), 16, "transactional")
	if now := b.store.Positions().End; now != end {
		t.Errorf("something was stored")
	}
}

func TestOffsets(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	at := []string{"topic", "T", "queueId", "0", "consumerGroup", "G"}
	a := b.ask(t, 14, nil, at...)
	expect(t, "group of nobody, empty queue", a, 0)
	if number(t, a, "offset") != 0 {
		t.Errorf("offset %s", a.Fields)
	}
	expect(t, "not zero", b.ask(t, 14, nil, with(at, "setZeroIfNotFound", "false")...), 22, "setZeroIfNotFound")
	b.sendN(t, 3, "A")
	expect(t, "young queue", b.ask(t, 14, nil, at...), 0)
	for commit, c := range map[string]struct {
		code int32
		want int64
	}{"-1": {29, 0}, "2": {0, 2}, "3": {0, 3}, "99": {0, 3}, "9223372036854775807": {0, 3}, "x": {29, 3}, "99999999999999999999": {29, 3}} {
		expect(t, commit, b.ask(t, 15, nil, with(at, "commitOffset", commit)...), c.code)
		if c.code == 0 {
			if got := number(t, b.ask(t, 14, nil, at...), "offset"); got != c.want {
				t.Errorf("committed %s: %d", commit, got)
			}
		}
	}
	for what, c := range map[string]struct {
		code   int32
		fields []string
	}{
		"topic":   {17, with(at, "topic", "Nope", "commitOffset", "1")},
		"queue":   {29, with(at, "queueId", "4", "commitOffset", "1")},
		"queue-":  {29, with(at, "queueId", "-1", "commitOffset", "1")},
		"group":   {26, with(at, "consumerGroup", "a b", "commitOffset", "1")},
		"nothing": {29, nil},
		"no":      {29, with(at, "consumerGroup", "-", "commitOffset", "1")},
		"missing": {29, at},
	} {
		expect(t, what, b.ask(t, 15, nil, c.fields...), c.code)
	}
	expect(t, "query nothing", b.ask(t, 14, nil), 29, "topic")
	expect(t, "query without group", b.ask(t, 14, nil, "topic", "T", "queueId", "0"), 29, "consumerGroup")
	expect(t, "wrong number", b.ask(t, 30, nil, "topic", "T", "queueId", "4294967296"), 29, "queueId")
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	clock.Store(1_700_000_000_000)
	b := newBroker(t, func(_ *Options, e *engine.Options) { e.Now = clock.Load })
	for range 3 { // stored at +1000, +2000, +3000
		clock.Add(1000)
		b.sendN(t, 1, "A")
	}
	now := clock.Load()
	q, empty := []string{"topic", "T", "queueId", "0"}, []string{"topic", "T", "queueId", "3"}
	first := now - 2000
	for what, c := range map[string]struct {
		code   int32
		fields []string
		name   string
		want   int64
	}{
		"max":            {30, q, "offset", 3},
		"min":            {31, q, "offset", 0},
		"earliest":       {32, q, "timestamp", first},
		"max of empty":   {30, empty, "offset", 0},
		"min of empty":   {31, empty, "offset", 0},
		"none earliest":  {32, empty, "timestamp", -1},
		"before all":     {29, with(q, "timestamp", "5"), "offset", 0},
		"at the second":  {29, with(q, "timestamp", fmt.Sprint(first+1000)), "offset", 1},
		"between":        {29, with(q, "timestamp", fmt.Sprint(first+1)), "offset", 1},
		"between, upper": {29, with(q, "timestamp", fmt.Sprint(first+1001), "boundaryType", "UPPER"), "offset", 1},
		"after all":      {29, with(q, "timestamp", fmt.Sprint(now+1), "boundaryType", "LOWER"), "offset", 3},
		"after, upper":   {29, with(q, "timestamp", fmt.Sprint(now+1), "boundaryType", "UPPER"), "offset", 2},
		"time of empty":  {29, with(empty, "timestamp", "5"), "offset", 0},
	} {
		a := b.ask(t, c.code, nil, c.fields...)
		expect(t, what, a, 0)
		if got := number(t, a, c.name); got != c.want {
			t.Errorf("%s: %d, want %d", what, got, c.want)
		}
	}
	expect(t, "boundary", b.ask(t, 29, nil, with(q, "timestamp", "5", "boundaryType", "MIDDLE")...), 29, "MIDDLE")
	expect(t, "no time", b.ask(t, 29, nil, q...), 29, "timestamp")
	for _, code := range []int32{30, 31, 32} {
		expect(t, "no topic", b.ask(t, code, nil), 29, "topic")
	}
}

func TestHeartbeatAndLists(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	expect(t, "list of nobody", b.ask(t, 38, nil, "consumerGroup", "G"), 1, "G")
	expect(t, "connections of nobody", b.ask(t, 203, nil, "consumerGroup", "G"), 206, "G")
	expect(t, "producers of nobody", b.ask(t, 204, nil, "producerGroup", "PG"), 1, "PG")
	a := b.ask(t, 34, []byte(heartbeatBody))
	expect(t, "heartbeat", a, 0)
	if a.Str("IS_SUPPORT_HEART_BEAT_V2") != "true" || a.Str("IS_SUB_CHANGE") != "true" {
		t.Errorf("answer %s", a.Fields)
	}
	if c := b.opts.Topics.Get("%RETRY%G"); c == nil || c.ReadQueues != 1 || c.Perm != 6 || b.opts.Groups.Get("G") == nil {
		t.Errorf("retry topic %+v", c)
	}
	if len(b.conn.notices) != 1 || b.conn.notices[0] != "G" {
		t.Errorf("notices %q", b.conn.notices)
	}
	if a := b.ask(t, 38, nil, "consumerGroup", "G"); string(a.Body) != `{"consumerIdList":["c1"]}` {
		t.Errorf("list %d %s", a.Code, a.Body)
	}
	var connections struct {
		ConnectionSet []struct {
			ClientID, ClientAddr, Language string
			Version                        int32
		}
		SubscriptionTable map[string]struct {
			SubString string
			TagsSet   []string
			CodeSet   []int32
		}
		ConsumeType, MessageModel, ConsumeFromWhere string
	}
	a = b.ask(t, 203, nil, "consumerGroup", "G")
	if err := json.Unmarshal(a.Body, &connections); err != nil || len(connections.ConnectionSet) != 1 || connections.ConnectionSet[0].ClientAddr != "127.0.0.1:5000" ||
		connections.SubscriptionTable["T"].SubString != "A" || connections.SubscriptionTable["T"].CodeSet[0] != 65 || connections.MessageModel != "CLUSTERING" {
		t.Errorf("connections %s, %v", a.Body, err)
	}
	if a := b.ask(t, 204, nil, "producerGroup", "PG"); a.Code != 0 || !strings.Contains(string(a.Body), `"clientId":"c1"`) {
		t.Errorf("producers %d %s", a.Code, a.Body)
	}
	light := strings.NewReplacer(`"heartbeatFingerprint":0`, `"heartbeatFingerprint":5`, `"withoutSub":false`, `"withoutSub":true`).Replace(heartbeatBody)
	if a := b.ask(t, 34, []byte(light)); a.Str("IS_SUB_CHANGE") != "false" {
		t.Errorf("light heartbeat: %s", a.Fields)
	}
	expect(t, "unregister", b.ask(t, 35, nil, "clientID", "c1", "consumerGroup", "G", "producerGroup", "PG"), 0)
	expect(t, "list after it", b.ask(t, 38, nil, "consumerGroup", "G"), 1)
	expect(t, "no group", b.ask(t, 38, nil), 29, "consumerGroup")
	expect(t, "bad heartbeat", b.ask(t, 34, []byte("nonsense")), 1, "heartbeat")

	b.ask(t, 34, []byte(heartbeatBody))
	b.Closed(b.conn)
	expect(t, "list after the connection has closed", b.ask(t, 38, nil, "consumerGroup", "G"), 1)
}

func TestCheckClient(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	body := func(kind, expression string) []byte {
		return fmt.Appendf(nil, `{"clientId":"c","group":"G","subscriptionData":{"expressionType":%q,"subString":%q,"topic":"T","subVersion":1}}`, kind, expression)
	}
	expect(t, "tags", b.ask(t, 46, body("TAG", "A || B")), 0)
	expect(t, "no subscription", b.ask(t, 46, []byte(`{"clientId":"c"}`)), 0)
	expect(t, "SQL", b.ask(t, 46, body("SQL92", "a > 1")), 1, "SQL92", "not supported")
	expect(t, "senseless", b.ask(t, 46, body("TAG", "||")), 23)
	expect(t, "nothing", b.ask(t, 46, nil), 23)
}

func TestTopics(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	fields := []string{"topic", "New", "defaultTopic", "TBW102", "readQueueNums", "8", "writeQueueNums", "6", "perm", "6",
		"topicFilterType", "SINGLE_TAG", "topicSysFlag", "0", "order", "true", "attributes", "+message.type=FIFO"}
	expect(t, "create", b.ask(t, 17, nil, fields...), 0)
	text, err := os.ReadFile(filepath.Join(b.dir, "config", "topics.json"))
	if err != nil || !strings.Contains(string(text), `"New"`) {
		t.Errorf("the topic is not in the file: %v", err)
	}
	var c topic.Config
	a := b.ask(t, 351, nil, "topic", "New", "lo", "false")
	if err := json.Unmarshal(a.Body, &c); err != nil || c.ReadQueues != 8 || c.WriteQueues != 6 || !c.Order || c.Attributes["message.type"] != "FIFO" {
		t.Errorf("got %s, %v", a.Body, err)
	}
	expect(t, "take an attribute away", b.ask(t, 17, nil, with(fields, "attributes", "-message.type")...), 0)
	if c := b.opts.Topics.Get("New"); len(c.Attributes) != 0 {
		t.Errorf("attributes %v", c.Attributes)
	}
	for what, changes := range map[string][]string{
		"illegal characters": {"topic", "a*b"}, "command": {"topic", "$(id)"}, "path": {"topic", "../../x"}, "line": {"topic", "a\nb"},
		"missing": {"topic", "-"}, "perm": {"perm", "9"}, "queues": {"readQueueNums", "-3"}, "too many": {"writeQueueNums", "999999999"},
		"no number": {"perm", "x"}, "system": {"topic", "TBW102"}, "cluster": {"topic", "C1"}, "rmq_sys": {"topic", "rmq_sys_x"},
		"filter": {"topicFilterType", "SQL"}, "attribute": {"attributes", "+foo=bar"}, "attribute value": {"attributes", "+queue.type=BatchCQ"},
		"attribute form": {"attributes", "foo=bar"}, "system flag": {"topicSysFlag", "x"}, "large system flag": {"topicSysFlag", "4294967296"},
	} {
		expect(t, what, b.ask(t, 17, nil, with(fields, changes...)...), 29)
	}
	expect(t, "no such topic", b.ask(t, 351, nil, "topic", "Nope"), 17, "Nope")
	expect(t, "no such topic", b.ask(t, 202, nil, "topic", "Nope"), 17, "Nope")

	b.sendN(t, 3, "A")
	a = b.ask(t, 202, nil, "topic", "T")
	var stats struct {
		OffsetTable map[string]struct{ MinOffset, MaxOffset, LastUpdateTimestamp int64 }
	}
	if err := fastjson.Unmarshal(a.Body, &stats); err != nil {
		t.Fatalf("%s: %v", a.Body, err)
	}
	if q := stats.OffsetTable[`{"brokerName":"broker-a","queueId":0,"topic":"T"}`]; len(stats.OffsetTable) != 4 || q.MaxOffset != 3 || q.LastUpdateTimestamp == 0 {
		t.Errorf("stats %s", a.Body)
	}
	if !strings.HasPrefix(string(a.Body), `{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:{"lastUpdateTimestamp":`) {
		t.Errorf("stats %s", a.Body)
	}
	if a := b.ask(t, 305, nil); !strings.Contains(string(a.Body), `"TBW102"`) || strings.Contains(string(a.Body), `"T"`) {
		t.Errorf("system topics %s", a.Body)
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	type table struct {
		Topics map[string]topic.Config `json:"topicConfigTable"`
		Groups map[string]any          `json:"subscriptionGroupTable"`
	}
	for _, c := range []struct {
		code                 int32
		first, number, total string
		size                 func(*table) int
	}{
		{21, "topicSeq", "maxTopicNum", "totalTopicNum", func(t *table) int { return len(t.Topics) }},
		{201, "groupSeq", "maxGroupNum", "totalGroupNum", func(t *table) int { return len(t.Groups) }},
	} {
		ask := func(fields ...string) (int, int64) {
			a := b.ask(t, c.code, nil, fields...)
			expect(t, c.first, a, 0)
			var got table
			if err := fastjson.Unmarshal(a.Body, &got); err != nil {
				t.Fatal(err)
			}
			return c.size(&got), number(t, a, c.total)
		}
		all, total := ask()
		if int64(all) != total || all < 8 {
			t.Fatalf("%d: %d of %d", c.code, all, total)
		}
		sum := 0
		for from := 0; from < all; from += 3 {
			n, total := ask(c.first, itoa(from), c.number, "3", "dataVersion", `{"counter":1}`)
			if total != int64(all) || n > 3 {
				t.Errorf("page at %d: %d of %d", from, n, total)
			}
			sum += n
		}
		if sum != all {
			t.Errorf("%d: the pages have %d, all are %d", c.code, sum, all)
		}
		if n, _ := ask(c.first, "1000", c.number, "3"); n != 0 {
			t.Errorf("page behind the end: %d", n)
		}
		for _, bad := range [][]string{{c.first, "-1"}, {c.number, "-1"}, {c.number, "x"}, {c.first, "x"}} {
			expect(t, "bad page", b.ask(t, c.code, nil, bad...), 29)
		}
	}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	expect(t, "create", b.ask(t, 200, []byte(`{"groupName":"G2","retryMaxTimes":3}`)), 0)
	a := b.ask(t, 352, nil, "group", "G2")
	if !strings.Contains(string(a.Body), `"retryMaxTimes":3`) || !strings.Contains(string(a.Body), `"consumeEnable":true`) {
		t.Errorf("got %s", a.Body)
	}
	text, _ := os.ReadFile(filepath.Join(b.dir, "config", "groups.json"))
	if !strings.Contains(string(text), `"G2"`) {
		t.Error("the group is not in the file")
	}
	expect(t, "no name", b.ask(t, 200, []byte(`{}`)), 29, "name")
	expect(t, "bad name", b.ask(t, 200, []byte(`{"groupName":"a b"}`)), 29, "a b")
	expect(t, "no JSON", b.ask(t, 200, []byte(`nonsense`)), 29)
	expect(t, "bad group", b.ask(t, 352, nil, "group", "a b"), 26)
	expect(t, "missing", b.ask(t, 352, nil), 29, "group")
}

func TestConsumeStats(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.sendN(t, 3, "A")
	expect(t, "commit", b.ask(t, 15, nil, "topic", "T", "queueId", "0", "consumerGroup", "G", "commitOffset", "2"), 0)
	for _, fields := range [][]string{{"consumerGroup", "G"}, {"consumerGroup", "G", "topic", "T"}} {
		var stats struct {
			OffsetTable map[string]struct{ BrokerOffset, ConsumerOffset, LastTimestamp int64 }
		}
		a := b.ask(t, 208, nil, fields...)
		if err := fastjson.Unmarshal(a.Body, &stats); err != nil {
			t.Fatalf("%s: %v", a.Body, err)
		}
		if q := stats.OffsetTable[`{"brokerName":"broker-a","queueId":0,"topic":"T"}`]; len(stats.OffsetTable) != 4 || q.BrokerOffset != 3 || q.ConsumerOffset != 2 || q.LastTimestamp == 0 {
			t.Errorf("%s", a.Body)
		}
	}
	for _, fields := range [][]string{{"consumerGroup", "Nobody"}, {"consumerGroup", "G", "topic", "Nope"}} {
		if a := b.ask(t, 208, nil, fields...); string(a.Body) != `{"consumeTps":0.0,"offsetTable":{}}` {
			t.Errorf("%q: %d %s", fields, a.Code, a.Body)
		}
	}
	other := strings.Replace(heartbeatBody, `"topic":"T"`, `"topic":"Other"`, 1)
	b.ask(t, 34, []byte(other))
	if a := b.ask(t, 208, nil, "consumerGroup", "G"); string(a.Body) != `{"consumeTps":0.0,"offsetTable":{}}` {
		t.Errorf("a topic that nobody subscribes to any more: %s", a.Body)
	}
	expect(t, "missing", b.ask(t, 208, nil), 29, "consumerGroup")
}

func TestAdmin(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.sendN(t, 1, "A")
	a := b.ask(t, 26, nil)
	var version struct{ Counter int64 }
	if err := json.Unmarshal([]byte(a.Str("version")), &version); err != nil || version.Counter == 0 || string(a.Body) != "brokerName=broker-a\n" {
		t.Errorf("config %s, version %s, %v", a.Body, a.Str("version"), err)
	}
	a = b.ask(t, 28, nil)
	var info struct{ Table map[string]string }
	if err := json.Unmarshal(a.Body, &info); err != nil {
		t.Fatal(err)
	}
	// What clusterList and brokerStatus of 5.5.0 take apart without looking.
	for _, key := range strings.Fields(`brokerActive putTps getTransferredTps getTransferedTps sendThreadPoolQueueSize pullThreadPoolQueueSize
		ackThreadPoolQueueSize sendThreadPoolQueueHeadWaitTimeMills pullThreadPoolQueueHeadWaitTimeMills ackThreadPoolQueueHeadWaitTimeMills
		pageCacheLockTimeMills earliestMessageTimeStamp commitLogDiskRatio timerReadBehind timerOffsetBehind timerCongestNum timerEnqueueTps
		timerDequeueTps brokerVersionDesc msgPutTotalYesterdayMorning msgPutTotalTodayMorning msgPutTotalTodayNow msgGetTotalYesterdayMorning
		msgGetTotalTodayMorning msgGetTotalTodayNow`) {
		if info.Table[key] == "" {
			t.Errorf("runtime info has no %s", key)
		}
	}
	if info.Table["earliestMessageTimeStamp"] == "-1" || info.Table["dispatchBehindBytes"] != "0" {
		t.Errorf("info %v", info.Table)
	}

	a = b.ask(t, 33, nil, "offset", "0", "topic", "T")
	if got := records(t, a.Body); len(got) != 1 || string(got[0].Body) != "m0" {
		t.Errorf("message %d %q", a.Code, a.Remark)
	}
	expect(t, "between records", b.ask(t, 33, nil, "offset", "5"), 1, "5")
	expect(t, "behind the end", b.ask(t, 33, nil, "offset", "1000000"), 1)
	expect(t, "negative", b.ask(t, 33, nil, "offset", "-1"), 1)
	expect(t, "no number", b.ask(t, 33, nil, "offset", "x"), 29)
}

func TestLocks(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	body := func(client string) []byte {
		return fmt.Appendf(nil, `{"clientId":%q,"consumerGroup":"G","mqSet":[{"brokerName":"broker-a","queueId":1,"topic":"T"}],"onlyThisBroker":false}`, client)
	}
	if a := b.ask(t, 41, body("c1")); string(a.Body) != `{"lockOKMQSet":[{"brokerName":"broker-a","queueId":1,"topic":"T"}]}` {
		t.Errorf("lock: %d %s", a.Code, a.Body)
	}
	if a := b.ask(t, 41, body("c2")); string(a.Body) != `{"lockOKMQSet":[]}` {
		t.Errorf("lock of another: %d %s", a.Code, a.Body)
	}
	expect(t, "unlock", b.ask(t, 42, body("c1")), 0)
	if a := b.ask(t, 41, body("c2")); !strings.Contains(string(a.Body), `"queueId":1`) {
		t.Errorf("lock after unlock: %s", a.Body)
	}
	b.Expire()
	for _, code := range []int32{41, 42} {
		expect(t, "nonsense", b.ask(t, code, []byte("x")), 29)
		expect(t, "empty", b.ask(t, code, []byte("{}")), 29, "clientId")
	}
}

// Whatever the fields of a request are, it is answered once, and the broker lives.
func TestHostileFields(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	names := []string{"topic", "queueId", "consumerGroup", "a", "b", "e", "offset", "group", "timestamp", "commitOffset", "b", "maxMsgNums"}
	values := []string{"", "-1", "2147483647", "9223372036854775807", "x", "\x00\x01\x02", "é", strings.Repeat("y", 70_000), "$(id)", "*"}
	for code := range b.routes {
		for _, value := range values {
			var fields []string
			for _, name := range names {
				fields = append(fields, name, value)
			}
			for _, body := range [][]byte{nil, []byte("{"), []byte(strings.Repeat("[", 100_000))} {
				if a := b.ask(t, code, body, fields...); a.Code == 0 && (code == remoting.SendMessage || code == remoting.SendMessageV2) {
					t.Errorf("%d with %q was stored", code, value)
				}
			}
		}
	}
}
