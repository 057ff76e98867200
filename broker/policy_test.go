package broker

import (
	"context"
	"strings"
	"testing"

	"ringmq/broker/topic"
	"ringmq/engine"
)

// What is changed holds for the next request, and what name servers are told of it they are told at once.
func TestChange(t *testing.T) {
	t.Parallel()
	ns := listenNames(t, "127.0.0.1:0")
	defer ns.Close(context.Background())
	o := options(t.TempDir(), ns.Addr().String())
	o.NoAutoCreateTopic = true
	b := start(t, o)
	defer stop(t, b)
	p, names := dial(t, b.Addrs()[0]), dial(t, ns.Addr())
	limits := engine.Limits{MaxMessageSize: 4 << 20, DiskWarningRatio: 1, PutWaitMS: 60_000}
	b.Change(Policy{NoAutoCreateTopic: true}, limits)

	if a := p.send(t, "New", "x"); a.Code != 17 {
		t.Errorf("autoCreateTopicEnable=false: %d %s", a.Code, a.Remark)
	}
	b.Change(Policy{}, limits)
	if a := p.send(t, "New", "x"); a.Code != 0 {
		t.Errorf("switched on, which makes the template: %d %s", a.Code, a.Remark)
	}
	eventually(t, "the template's registration", func() bool { return names.ask(t, 105, nil, "topic", topic.Template).Code == 0 })
	b.Change(Policy{NoAutoCreateTopic: true, NoAutoCreateGroup: true}, limits)
	if a := p.send(t, "Newer", "x"); a.Code != 17 || !strings.Contains(a.Remark, "autoCreateTopicEnable=false") {
		t.Errorf("switched off: %d %s", a.Code, a.Remark)
	}
	if a := p.pull(t, "New", 0, "0"); a.Code != 26 {
		t.Errorf("autoCreateSubscriptionGroup=false: %d %s", a.Code, a.Remark)
	}

	route := func(perm string) func() bool {
		return func() bool {
			return strings.Contains(string(names.ask(t, 105, nil, "topic", "New").Body), `"perm":`+perm)
		}
	}
	eventually(t, "the registration", route("6"))
	withheld := Policy{}
	withheld.Withheld = topic.PermWrite
	b.Change(withheld, limits)
	if a := p.send(t, "New", "x"); a.Code != 16 {
		t.Errorf("brokerPermission=4: %d %s", a.Code, a.Remark)
	}
	eventually(t, "the registration with brokerPermission=4", route("4"))
	b.Change(Policy{}, limits)
	eventually(t, "the registration with brokerPermission=6", route("6"))

	limits.MaxMessageSize = 10
	b.Change(Policy{}, limits)
	if a := p.send(t, "New", "12345678901"); a.Code != 13 {
		t.Errorf("maxMessageSize=10: %d %s", a.Code, a.Remark)
	}
	if !b.wantsNotices("G") {
		t.Error("no notices")
	}
	b.Change(Policy{NoNotify: true}, limits)
	if b.wantsNotices("G") {
		t.Error("notifyConsumerIdsChangedEnable=false, but notices are wanted")
	}
}
