package broker

import (
	"sync/atomic"
	"testing"
	"time"

	"ringmq/net/remoting"
)

// The deadlines of parked pulls and the lives of clients are no times of day. This one is an hour forward or back at every look: no pull may
// wait for longer, and no client be forgotten.
func TestClockThatJumps(t *testing.T) {
	t.Parallel()
	const patience = 200 * time.Millisecond
	var looks atomic.Int64
	o := options(t.TempDir())
	o.Now = func() int64 { return time.Now().UnixMilli() + 3_600_000*(looks.Add(1)%2) }
	o.NoLongPolling, o.ShortPollingMS = true, patience.Milliseconds()
	b := start(t, o)
	defer stop(t, b)
	p := dial(t, b.Addrs()[0])
	p.send(t, "T", "m")
	heartbeat := `{"clientID":"c1","consumerDataSet":[{"groupName":"G","subscriptionDataSet":[{"topic":"T","subString":"*"}]}]}`
	if a := p.ask(t, remoting.HeartBeat, []byte(heartbeat)); a.Code != 0 {
		t.Fatalf("heartbeat: %d %q", a.Code, a.Remark)
	}
	for range 4 {
		began := time.Now()
		if a := p.pull(t, "T", 1, "2"); a.Code != remoting.PullNotFound {
			t.Errorf("pull: %d %q", a.Code, a.Remark)
		}
		if took := time.Since(began); took < patience {
			t.Errorf("answered after %v", took)
		}
		b.api.Expire()
		if got := len(b.clients.Members("G")); got != 1 {
			t.Fatalf("%d members", got)
		}
	}
}
