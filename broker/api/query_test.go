package api

import (
	"fmt"
	"testing"

	"ringmq/engine"
)

func queryFields(changes ...string) []string {
	return with([]string{"topic", "T", "key", "k1", "maxNum", "32", "beginTimestamp", "0", "endTimestamp", "9223372036854775807",
		"_UNIQUE_KEY_QUERY", "false"}, changes...)
}

func TestQueryMessage(t *testing.T) {
	t.Parallel()
	b := newBroker(t, func(_ *Options, e *engine.Options) { e.IndexSlots, e.IndexEntries = 100, 10_000 })
	for i := range 80 {
		props := properties("KEYS", fmt.Sprintf("k%d all", i), "TAGS", "a", "UNIQ_KEY", fmt.Sprintf("U%d", i))
		if a := b.ask(t, 310, fmt.Appendf(nil, "m%d", i), sendFields("i", props)...); a.Code != 0 {
			t.Fatalf("send: %d %s", a.Code, a.Remark)
		}
	}
	b.settle(t)
	for _, c := range []struct {
		what   string
		fields []string
		bodies []string // first and last
		count  int
	}{
		{"a key", queryFields(), []string{"m1", "m1"}, 1},
		{"of 5.x", queryFields("indexType", "K"), []string{"m1", "m1"}, 1},
		{"a unique key", queryFields("key", "U5", "_UNIQUE_KEY_QUERY", "true"), []string{"m5", "m5"}, 1},
		{"a unique key of 5.x", queryFields("key", "U5", "indexType", "U"), []string{"m5", "m5"}, 1},
		{"tags", queryFields("key", "a", "indexType", "T"), []string{"m48", "m79"}, 32},
		{"many", queryFields("key", "all", "maxNum", "1000"), []string{"m16", "m79"}, 64},
		{"few", queryFields("key", "all", "maxNum", "3"), []string{"m77", "m79"}, 3},
	} {
		a := b.ask(t, 12, nil, c.fields...)
		expect(t, c.what, a, 0)
		list := records(t, a.Body)
		if len(list) != c.count {
			t.Errorf("%s: %d messages, want %d", c.what, len(list), c.count)
			continue
		}
		if first, last := string(list[0].Body), string(list[c.count-1].Body); first != c.bodies[0] || last != c.bodies[1] {
			t.Errorf("%s: messages %s to %s, want %s to %s", c.what, first, last, c.bodies[0], c.bodies[1])
		}
		if number(t, a, "indexLastUpdateTimestamp") == 0 || number(t, a, "indexLastUpdatePhyoffset") == 0 {
			t.Errorf("%s: answer %v", c.what, a.Fields)
		}
	}
	for what, fields := range map[string][]string{
		"no such key": queryFields("key", "nothing"), "other topic": queryFields("topic", "U"), "past": queryFields("endTimestamp", "1000"),
		"no room": queryFields("maxNum", "0"), "negative": queryFields("maxNum", "-5"), "key is no unique key": queryFields("indexType", "U"),
	} {
		expect(t, what, b.ask(t, 12, nil, fields...), 22, "can not find message")
	}
	for what, fields := range map[string][]string{
		"key": queryFields("key", "-"), "topic": queryFields("topic", "-"), "maxNum": queryFields("maxNum", "x"),
		"beginTimestamp": queryFields("beginTimestamp", "-"), "endTimestamp": queryFields("endTimestamp", "y"), "indexType": queryFields("indexType", "X"),
	} {
		if a := b.ask(t, 12, nil, fields...); a.Code == 0 || a.Code == 22 {
			t.Errorf("bad %s: code %d %q", what, a.Code, a.Remark)
		}
	}
}

func TestQueryWithoutAnIndex(t *testing.T) {
	t.Parallel()
	b := newBroker(t, func(_ *Options, e *engine.Options) { e.NoIndex = true })
	b.sendN(t, 1, "a")
	expect(t, "query", b.ask(t, 12, nil, queryFields()...), 22, "messageIndexEnable")
}
