package remoting

import (
	"strings"
	"testing"
)

const sendV2 = `{"code":310,"extFields":{"a":"PG","b":"Topic","c":"TBW102","d":"4","e":"3","f":"8","g":"1795972537054","h":"-7",` +
	`"i":"KEYS\u0001k\u0002TAGS\u0001t\u0002","j":"2","k":"true","l":"16","m":"true","n":"broker-a"},"flag":0,"language":"JAVA",` +
	`"opaque":12,"serializeTypeCurrentRPC":"JSON","version":513}`

const sendV1 = `{"code":10,"language":"GO","version":317,"opaque":12,"flag":0,"remark":"","extFields":{"producerGroup":"PG","topic":"Topic",` +
	`"defaultTopic":"TBW102","defaultTopicQueueNums":"4","queueId":"3","sysFlag":"8","bornTimestamp":"1795972537054","flag":"-7",` +
	`"properties":"KEYS\u0001k\u0002TAGS\u0001t\u0002","reconsumeTimes":"2","unitMode":"true","maxReconsumeTimes":"16","batch":"true",` +
	`"bname":"broker-a"}}`

func decoded(t testing.TB, header string) *Command {
	t.Helper()
	c := new(Command)
	if err := c.Decode(frameOf(JSON, header, "body")); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSendHeaderBothNames(t *testing.T) {
	for _, header := range []string{sendV1, sendV2} {
		var h SendHeader
		if err := h.From(decoded(t, header)); err != nil {
			t.Fatal(err)
		}
		if string(h.ProducerGroup) != "PG" || string(h.Topic) != "Topic" || string(h.DefaultTopic) != "TBW102" ||
			string(h.Properties) != "KEYS\x01k\x02TAGS\x01t\x02" || h.DefaultTopicQueueNums != 4 || h.QueueID != 3 || h.SysFlag != 8 ||
			h.BornTime != 1795972537054 || h.Flag != -7 || h.ReconsumeTimes != 2 || h.MaxReconsumeTimes != 16 || !h.UnitMode || !h.Batch {
			t.Errorf("%.20s: %+v", header, h)
		}
	}
}

func TestSendHeaderNeedsItsFields(t *testing.T) {
	names := map[string]string{"a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums", "e": "queueId",
		"f": "sysFlag", "g": "bornTimestamp", "h": "flag", "i": "", "j": "", "k": "", "l": "", "m": "", "n": ""}
	for letter, name := range names {
		c := decoded(t, strings.Replace(sendV2, `"`+letter+`":`, `"_":`, 1))
		var h SendHeader
		err := h.From(c)
		if name == "" && err != nil {
			t.Errorf("without %s: %v", letter, err)
		}
		if name != "" && (err == nil || !strings.Contains(err.Error(), name+" ("+letter+")")) {
			t.Errorf("without %s: error %v does not name %s", letter, err, name)
		}
	}
}

func TestSendHeaderRefusesOddNumbers(t *testing.T) {
	for letter, name := range map[string]string{"d": "defaultTopicQueueNums", "e": "queueId", "f": "sysFlag", "g": "bornTimestamp",
		"h": "flag", "j": "reconsumeTimes", "l": "maxReconsumeTimes"} {
		for _, value := range []string{"x", "1.0", "99999999999999999999", "null "} {
			c := decoded(t, sendV2)
			c.SetStr(letter, value)
			var h SendHeader
			if err := h.From(c); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), value) {
				t.Errorf("%s=%q: error %v does not name %s", letter, value, err, name)
			}
		}
	}
	c := decoded(t, sendV2)
	c.SetStr("e", "2147483648")
	var h SendHeader
	if err := h.From(c); err == nil {
		t.Error("queueId beyond 32 bits is taken")
	}
	c.SetStr("e", "0")
	c.SetStr("l", "")
	if err := h.From(c); err != nil || h.MaxReconsumeTimes != 0 {
		t.Errorf("empty optional number: %v", err)
	}
}

func TestPullHeader(t *testing.T) {
	const header = `{"code":11,"extFields":{"bname":"b","commitOffset":"-1","consumerGroup":"CG","expressionType":"TAG","maxMsgBytes":"262144",` +
		`"maxMsgNums":"32","queueId":"2","queueOffset":"9223372036854775807","subVersion":"1795972537054","subscription":"a || b",` +
		`"suspendTimeoutMillis":"15000","sysFlag":"6","topic":"T"},"flag":0,"language":"JAVA","opaque":1,"version":513}`
	var h PullHeader
	if err := h.From(decoded(t, header)); err != nil {
		t.Fatal(err)
	}
	if string(h.Group) != "CG" || string(h.Topic) != "T" || string(h.Subscription) != "a || b" || string(h.ExpressionType) != "TAG" ||
		h.QueueID != 2 || h.MaxMsgNums != 32 || h.SysFlag != 6 || h.MaxMsgBytes != 262144 || h.QueueOffset != 1<<63-1 ||
		h.CommitOffset != -1 || h.SuspendTimeoutMS != 15000 || h.SubVersion != 1795972537054 {
		t.Errorf("%+v", h)
	}
	for name, needed := range map[string]bool{"consumerGroup": true, "topic": true, "queueId": true, "queueOffset": true, "maxMsgNums": true,
		"sysFlag": true, "commitOffset": true, "suspendTimeoutMillis": true, "subVersion": true, "subscription": false,
		"expressionType": false, "maxMsgBytes": false} {
		err := h.From(decoded(t, strings.Replace(header, `"`+name+`":`, `"_":`, 1)))
		if needed != (err != nil) || needed && !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: error %v", name, err)
		}
	}
	for _, name := range []string{"queueId", "queueOffset", "maxMsgNums", "sysFlag", "commitOffset", "suspendTimeoutMillis", "subVersion",
		"maxMsgBytes"} {
		c := decoded(t, header)
		c.SetStr(name, "1e3")
		if err := h.From(c); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "1e3") {
			t.Errorf("odd %s: error %v", name, err)
		}
	}
}
