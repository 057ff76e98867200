package api

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"ringmq/broker/topic"
	"ringmq/internal/config"
	"ringmq/net/remoting"
)

// fakeSettings answers as it is told.
type fakeSettings struct {
	mu    sync.Mutex
	asked []string // text and who asked
	err   error
}

func (f *fakeSettings) Text() string            { return "brokerName=broker-a\n" }
func (f *fakeSettings) Version() (int64, int64) { return 7, 1_700_000_000_000 }
func (f *fakeSettings) Update(text []byte, from string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, string(text)+"|"+from)
	return "in effect now: a=1", f.err
}

func TestBrokerConfig(t *testing.T) {
	t.Parallel()
	f := &fakeSettings{}
	b := newBroker(t)
	b.opts.Settings = f
	a := b.ask(t, remoting.GetBrokerConfig, nil)
	if a.Code != 0 || string(a.Body) != "brokerName=broker-a\n" || a.Str("version") != `{"counter":7,"stateVersion":0,"timestamp":1700000000000}` {
		t.Errorf("%d %q %q", a.Code, a.Body, a.Fields)
	}
	expect(t, "taken", b.ask(t, remoting.UpdateBrokerConfig, []byte("a=1\n")), 0, "in effect now: a=1")
	f.err = fmt.Errorf("config: b=2%%d: allowed is 1: %w", config.ErrBad)
	expect(t, "bad", b.ask(t, remoting.UpdateBrokerConfig, []byte("b=2")), 29, "b=2%d: allowed is 1")
	f.err = fmt.Errorf("config: listenPort: %w", config.ErrFixed)
	expect(t, "fixed", b.ask(t, remoting.UpdateBrokerConfig, nil), 16, "listenPort")
	f.err = errors.New("durable: no space left on device")
	expect(t, "not kept", b.ask(t, remoting.UpdateBrokerConfig, nil), 1, "no space left")
	if got := strings.Join(f.asked, " "); got != "a=1\n|127.0.0.1:5000 b=2|127.0.0.1:5000 |127.0.0.1:5000 |127.0.0.1:5000" {
		t.Errorf("asked %q", got)
	}
	b.opts.Settings = nil
	expect(t, "nothing to show", b.ask(t, remoting.GetBrokerConfig, nil), 1, "no configuration")
	expect(t, "nothing to change", b.ask(t, remoting.UpdateBrokerConfig, nil), 1, "no configuration")
}

// A policy that is changed holds for the next request.
func TestChangePolicy(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	send := func(size int) *remoting.Command { return b.ask(t, 310, make([]byte, size), sendFields()...) }
	expect(t, "before", send(2000), 0)
	b.settle(t)

	b.Change(Policy{MaxMessageSize: 1000})
	expect(t, "too large", send(1001), 13, "maxMessageSize allows 1000")
	expect(t, "as large as may be", send(1000), 0)
	b.Change(Policy{Withheld: topic.PermWrite})
	expect(t, "no sends", send(1), 16, "brokerPermission is 4")
	b.Change(Policy{Withheld: topic.PermRead | topic.PermWrite})
	expect(t, "no sends", send(1), 16, "brokerPermission is 0")
	expect(t, "no pulls", b.ask(t, 11, nil, pullFields()...), 16, "brokerPermission is 0")
	b.Change(Policy{NoLitePull: true, NoTrace: true, MaxTransferCount: 2})
	expect(t, "no lite pulls", b.ask(t, 361, nil, pullFields()...), 16, "litePullMessageEnable")
	if a := send(1); a.Code != 0 || a.Str("TRACE_ON") != "false" {
		t.Errorf("%d %s, TRACE_ON %s", a.Code, a.Remark, a.Str("TRACE_ON"))
	}
	b.settle(t)
	a := b.ask(t, 11, nil, pullFields()...)
	if n := len(records(t, a.Body)); n != 2 {
		t.Errorf("%d messages, maxTransferCountOnMessageInMemory is 2", n)
	}
	b.Change(Policy{})
	a = b.ask(t, 11, nil, pullFields("queueOffset", "2")...)
	if list := records(t, a.Body); len(list) != 1 || !strings.Contains(string(list[0].Properties), "TRACE_ON\x01false\x02") {
		t.Errorf("%d %s: %d messages, %v", a.Code, a.Remark, len(list), list)
	}
}
