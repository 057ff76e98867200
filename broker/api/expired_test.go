package api

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"ringmq/engine"
	"ringmq/net/remoting"
)

// Request 329 removes what is expired; pulls of what has gone are sent on to the first message there is, also one that was parked when
// its place was the end of the queue.
func TestDeleteExpired(t *testing.T) {
	t.Parallel()
	const segment = 64 << 10
	b := newBroker(t, func(_ *Options, e *engine.Options) {
		e.SegmentSize, e.MaxMessageSize = segment, 30<<10
		e.DiskWarningRatio = 1
		e.DiskUsage = func(string) (float64, error) { return 0, nil }
		e.Retention = func() engine.RetentionSettings {
			hour := strconv.Itoa((time.Now().Hour() + 12) % 24) // not now
			return engine.RetentionSettings{DeleteWhen: hour, IntervalMS: 10, BatchMax: 100, MaxUsed: 1, CleanForcibly: 1}
		}
	})
	body := []byte(strings.Repeat("x", 10_000))
	send := func(queue, tag string, n int) {
		for range n {
			expect(t, "send", b.ask(t, 310, body, sendFields("e", queue, "i", properties("TAGS", tag))...), 0)
		}
		b.settle(t)
	}
	send("1", "A", 1)
	send("0", "A", 1)
	parked := b.begin(request(11, nil, pullFields("sysFlag", "6", "queueOffset", "1", "subscription", "B", "suspendTimeoutMillis", "3000")...))
	send("0", "A", 20)
	expect(t, "order", b.ask(t, remoting.DeleteExpiredCommitLog, nil), 0)
	q := b.store.Queue([]byte("T"), 0)
	for end := time.Now().Add(10 * time.Second); b.store.Positions().Min < b.store.Positions().End-segment; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the log is %+v", b.store.Positions())
		}
	}
	low := int64(q.Min())
	if low < 10 || low > 20 {
		t.Fatalf("min is %d", low)
	}
	checkPull(t, "removed", b.ask(t, 11, nil, pullFields()...), 21, "OFFSET_TOO_SMALL", low, low, 21)
	checkPull(t, "removed, waiting", b.ask(t, 11, nil, pullFields("sysFlag", "6", "queueOffset", strconv.FormatInt(low-1, 10))...), 21, "OFFSET_TOO_SMALL", low, low, 21)
	checkPull(t, "queue without a message", b.ask(t, 11, nil, pullFields("queueId", "1")...), 21, "OFFSET_TOO_SMALL", 1, 1, 1)
	checkPull(t, "its end", b.ask(t, 11, nil, pullFields("queueId", "1", "queueOffset", "1")...), 19, "OFFSET_OVERFLOW_ONE", 1, 1, 1)
	checkPull(t, "parked", parked.wait(t), 21, "OFFSET_TOO_SMALL", low, low, 21)
	checkPull(t, "first", b.ask(t, 11, nil, pullFields("queueOffset", strconv.FormatInt(low, 10), "maxMsgNums", "1")...), 0, "FOUND", low+1, low, 21)
	a := b.ask(t, 31, nil, "topic", "T", "queueId", "0")
	if a.Code != 0 || number(t, a, "offset") != low {
		t.Errorf("min offset: %d %s", a.Code, a.Fields)
	}
}
