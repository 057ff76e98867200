package engine_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"ringmq/engine"
	"ringmq/engine/flush"
	"ringmq/engine/message"
	"ringmq/engine/segment"
	"ringmq/engine/segment/memstore"
)

func TestPutAndGetInEveryMode(t *testing.T) {
	for name, alter := range map[string]func(o *engine.Options){
		"async":        func(*engine.Options) {},
		"sync":         func(o *engine.Options) { o.SyncFlush = true },
		"mapped async": func(o *engine.Options) { o.MappedAppend = true },
		"mapped sync":  func(o *engine.Options) { o.MappedAppend, o.SyncFlush = true, true },
		"no ring":      func(o *engine.Options) { o.Ring, o.SyncFlush = false, true },
		"zeroed ahead": func(o *engine.Options) { o.ZeroAhead = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := small(t.TempDir())
			alter(&o)
			s := open(t, o)
			var want [3][]string
			for i := range 300 { // rolls several times
				body := fmt.Sprintf("%d %s", i, strings.Repeat(".", 900))
				queue := i % 3
				r := put(t, s, int32(queue), body)
				if int(r.QueueOffset) != len(want[queue]) || r.StoreTimeMS == 0 {
					t.Fatalf("put %d: %+v", i, r)
				}
				want[queue] = append(want[queue], body)
			}
			settle(t, s)
			for queue := range want {
				if got := bodies(records(t, s, testTopic, int32(queue))); !slices.Equal(got, want[queue]) {
					t.Errorf("queue %d serves %d messages, want %d", queue, len(got), len(want[queue]))
				}
			}
			audit(t, s)
			closeStore(t, s)
			s = open(t, o)
			if r := s.Recovery(); !r.Clean || r.Records != 0 {
				t.Errorf("recovery %+v", r)
			}
			audit(t, s)
		})
	}
}

func TestPutBatch(t *testing.T) {
	s := open(t, small(t.TempDir()))
	put(t, s, 1, "before")
	c := newCall()
	c.request.Message = message.Message{Topic: testTopic, QueueID: 1}
	for i := range 50 {
		c.request.Batch = append(c.request.Batch, text(testTopic, 1, fmt.Sprint("item ", i), ""))
	}
	s.Put(&c.request)
	r := c.wait(t)
	if r.Status != engine.PutOK || r.QueueOffset != 1 || len(r.Offsets) != 50 || r.Offsets[0] != r.Offset {
		t.Fatalf("%+v", r)
	}
	settle(t, s)
	got := records(t, s, testTopic, 1)
	for i, offset := range r.Offsets {
		if rec := got[i+1]; rec.Offset != offset || string(rec.Body) != fmt.Sprint("item ", i) {
			t.Errorf("item %d is %q at %d, want at %d", i, rec.Body, rec.Offset, offset)
		}
	}

	refused := map[string][]message.Message{
		"empty":        {},
		"mixed topics": {text(testTopic, 1, "a", ""), text("U", 1, "b", "")},
		"mixed queues": {text(testTopic, 1, "a", ""), text(testTopic, 2, "b", "")},
		"one oversize": {text(testTopic, 1, "a", ""), text(testTopic, 1, "b", strings.Repeat("x", 32768))},
		"too large":    slices.Repeat([]message.Message{text(testTopic, 1, strings.Repeat("x", 1000), "")}, 70),
	}
	for name, batch := range refused {
		c.request.Batch = batch
		s.Put(&c.request)
		if r := c.wait(t); r.Status != engine.Illegal || r.Err == nil || r.Offset != -1 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := put(t, s, 1, "after"); r.QueueOffset != 51 {
		t.Errorf("after refused batches the next number is %d, want 51", r.QueueOffset)
	}
	audit(t, s)
}

func TestPutLimits(t *testing.T) {
	o := small(t.TempDir())
	o.MaxMessageSize = 40_000
	s := open(t, o)
	long := func(n int) string { return strings.Repeat("x", n) }
	cases := []struct {
		name   string
		m      message.Message
		status engine.PutStatus
		says   string
	}{
		{"body below the limit", text(testTopic, 0, long(39_999), ""), engine.PutOK, ""},
		{"body at the limit", text(testTopic, 0, long(40_000), ""), engine.PutOK, ""},
		{"body above the limit", text(testTopic, 0, long(40_001), ""), engine.Illegal, "body has 40001 bytes, maxMessageSize allows 40000"},
		{"no body", text(testTopic, 0, "", ""), engine.PutOK, ""},
		{"properties at the limit", text(testTopic, 0, "", long(32_767)), engine.PutOK, ""},
		{"properties above the limit", text(testTopic, 0, "", long(32_768)), engine.Illegal, "properties"},
		{"more than a segment", text(testTopic, 0, long(36_000), long(30_000)), engine.Illegal, "mappedFileSizeCommitLog is 65536"},
		{"no topic", text("", 0, "x", ""), engine.Illegal, "topic has 0 bytes"},
		{"topic of one byte", text("t", 0, "x", ""), engine.PutOK, ""},
		{"topic of 127", text(long(127), 0, "x", ""), engine.PutOK, ""},
		{"topic of 128", text(long(128), 0, "x", ""), engine.PutOK, ""},
		{"topic of 255", text("%RETRY%"+long(248), 0, "x", ""), engine.PutOK, ""},
		{"topic of 256", text("%RETRY%"+long(249), 0, "x", ""), engine.Illegal, "topic has 256 bytes"},
		{"topic that leads elsewhere", text("../x", 0, "x", ""), engine.Illegal, "cannot name a folder"},
		{"topic of dots", text("..", 0, "x", ""), engine.Illegal, "cannot name a folder"},
		{"negative queue", text(testTopic, -1, "x", ""), engine.Illegal, "queue id is -1"},
		{"IPv6 hosts", func() message.Message {
			m := text(testTopic, 0, "x", "")
			m.BornHost, m.StoreHost = netip.MustParseAddrPort("[::1]:1"), netip.MustParseAddrPort("[::2]:2")
			return m
		}(), engine.PutOK, ""},
	}
	number := message.QueueOffset(0)
	for _, c := range cases {
		r := try(t, s, c.m)
		if r.Status != c.status || c.says != "" && (r.Err == nil || !strings.Contains(r.Err.Error(), c.says)) {
			t.Errorf("%s: status %d, %v, want %d, %q", c.name, r.Status, r.Err, c.status, c.says)
		}
		if c.status == engine.PutOK && c.m.Topic == testTopic {
			if r.QueueOffset != number {
				t.Errorf("%s: number %d, want %d: a refused put left a hole", c.name, r.QueueOffset, number)
			}
			number++
		}
	}
	audit(t, s)
}

// One put allocates nothing, however it is answered.
func TestPutDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for name, alter := range map[string]func(o *engine.Options){
		"async":     func(*engine.Options) {},
		"sync":      func(o *engine.Options) { o.SyncFlush = true },
		"mapped":    func(o *engine.Options) { o.MappedAppend = true },
		"transient": func(o *engine.Options) { o.TransientPool, o.TransientBuffers = true, 1 },
	} {
		t.Run(name, func(t *testing.T) {
			o := small(t.TempDir())
			o.SegmentSize, o.PoolSize = 16<<20, 1<<20
			alter(&o)
			s := open(t, o)
			c := newCall()
			c.request.Message = text(testTopic, 0, strings.Repeat("x", 1000), "TAGS\x01a\x02")
			one := func() {
				s.Put(&c.request)
				if r := <-c.done; r.Status != engine.PutOK {
					t.Fatal(r.Err)
				}
			}
			one()
			if n := testing.AllocsPerRun(1000, one); n > 0 {
				t.Errorf("%g allocations in a put", n)
			}
		})
	}
}

// Without waiting a put is answered before anything is flushed; and the flush that hangs does not hold it up.
func TestNoWaitIsAnsweredAtAppended(t *testing.T) {
	syncer := newHeldSyncer()
	o := small(t.TempDir())
	o.SyncFlush, o.Syncer = true, syncer
	s := open(t, o)
	waits := newCall()
	waits.request.Message = text(testTopic, 0, "waits", "")
	s.Put(&waits.request)
	<-syncer.entered
	quick := newCall()
	quick.request.Message = text(testTopic, 0, "does not", "")
	quick.request.NoWait = true
	s.Put(&quick.request)
	if r := quick.wait(t); r.Status != engine.PutOK || r.QueueOffset != 1 {
		t.Errorf("%+v", r)
	}
	select {
	case r := <-waits.done:
		t.Errorf("answered before the flush: %+v", r)
	default:
	}
	var res engine.GetResult
	s.Get([]byte(testTopic), 0, 0, 1, 1<<20, nil, &res)
	if res.Count != 0 {
		t.Error("a consumer sees a message before it is flushed")
	}
	res.Release()
	syncer.let(nil)
	if r := waits.wait(t); r.Status != engine.PutOK {
		t.Errorf("%+v", r)
	}
}

// heldSyncer makes every flush wait until it is let go for good.
type heldSyncer struct {
	entered chan struct{}
	gate    chan struct{}
	err     error // written before gate is closed
	once    sync.Once
}

func newHeldSyncer() *heldSyncer {
	return &heldSyncer{entered: make(chan struct{}, 1), gate: make(chan struct{})}
}

func (h *heldSyncer) Sync(files []*segment.File) error {
	select {
	case h.entered <- struct{}{}:
	default:
	}
	<-h.gate
	if h.err != nil {
		return h.err
	}
	return flush.Plain{}.Sync(files)
}

func (h *heldSyncer) let(err error) {
	h.once.Do(func() {
		h.err = err
		close(h.gate)
	})
}

// A failed flush is final: who waits gets code 10, who comes later 14 with the reason, reads go on, and only a new start opens the
// store again.
func TestFailedFlushLatches(t *testing.T) {
	syncer := newHeldSyncer()
	var book logBook
	o := small(t.TempDir())
	o.SyncFlush, o.Syncer, o.Logger = true, syncer, book.logger()
	s, err := engine.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	c := newCall()
	c.request.Message = text(testTopic, 0, "lost?", "")
	s.Put(&c.request)
	<-syncer.entered
	broken := errors.New("the device is gone")
	syncer.let(broken)
	if r := c.wait(t); r.Status != engine.FlushTimeout || !errors.Is(r.Err, broken) {
		t.Errorf("the waiting put: %+v", r)
	}
	for range 3 {
		if r := try(t, s, text(testTopic, 0, "later", "")); r.Status != engine.Unavailable || !errors.Is(r.Err, broken) {
			t.Errorf("a later put: %+v", r)
		}
	}
	if !errors.Is(s.Latched(), broken) {
		t.Errorf("latched: %v", s.Latched())
	}
	var res engine.GetResult
	if s.Get([]byte(testTopic), 0, 0, 1, 1, nil, &res); res.Count != 0 {
		t.Error("what was not flushed is served")
	}
	res.Release()
	if err := s.Close(); !errors.Is(err, broken) {
		t.Errorf("close: %v", err)
	}
	if !book.has("level=ERROR", "a flush has failed") {
		t.Errorf("it was not told:\n%s", book.String())
	}
	o.Syncer = nil
	s = open(t, o)
	if s.Recovery().Clean || s.Latched() != nil {
		t.Errorf("recovery %+v, latched %v", s.Recovery(), s.Latched())
	}
	audit(t, s)
}

// A flush that takes too long is answered with code 10, and the message stays.
func TestFlushTimeout(t *testing.T) {
	syncer := newHeldSyncer()
	o := small(t.TempDir())
	o.SyncFlush, o.Syncer = true, syncer
	o.Flush = func() flush.Settings { return flush.Settings{SyncFlushTimeoutMS: 1, FlushThoroughIntervalMS: 10_000} }
	s := open(t, o)
	if r := try(t, s, text(testTopic, 0, "slow", "")); r.Status != engine.FlushTimeout || !errors.Is(r.Err, flush.ErrTimeout) {
		t.Errorf("%+v", r)
	}
	syncer.let(nil)
	settle(t, s)
	if got := bodies(records(t, s, testTopic, 0)); !slices.Equal(got, []string{"slow"}) {
		t.Errorf("served %q", got)
	}
}

// The time-out of a sync flush is a length of time: a clock that is set forward does not end it, one that is set back does not prolong it.
func TestFlushTimeoutWhateverTheClockSays(t *testing.T) {
	for name, jump := range map[string]time.Duration{"forward": time.Hour, "back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				syncer := newHeldSyncer()
				var set atomic.Int64
				o := small(dir)
				o.Ring, o.SyncFlush, o.Syncer = false, true, syncer
				o.Storage = func(string) (segment.Storage, error) { return memstore.New(), nil }
				o.Now = func() int64 { return time.Now().UnixMilli() + set.Load() }
				s, err := engine.Open(o)
				if err != nil {
					t.Fatal(err)
				}
				c := newCall()
				c.request.Message = text(testTopic, 0, "slow", "")
				s.Put(&c.request)
				set.Store(jump.Milliseconds())
				time.Sleep(4900 * time.Millisecond)
				synctest.Wait()
				if len(c.done) != 0 {
					t.Errorf("answered before the time-out: %+v", <-c.done)
				}
				time.Sleep(300 * time.Millisecond)
				synctest.Wait()
				if len(c.done) != 1 {
					t.Fatal("not answered after the time-out")
				}
				if r := <-c.done; r.Status != engine.FlushTimeout {
					t.Errorf("%+v", r)
				}
				syncer.let(nil)
				settle(t, s)
				closeStore(t, s)
			})
		})
	}
}

func TestPutAfterClose(t *testing.T) {
	s := open(t, small(t.TempDir()))
	put(t, s, 0, "x")
	closeStore(t, s)
	if r := try(t, s, text(testTopic, 0, "late", "")); r.Status != engine.Unavailable || !errors.Is(r.Err, engine.ErrClosed) {
		t.Errorf("%+v", r)
	}
	var res engine.GetResult
	if s.Get([]byte(testTopic), 0, 0, 1, 1, nil, &res); res.Status != engine.NoQueue {
		t.Errorf("get: status %d", res.Status)
	}
	res.Release()
	if err := s.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

// Puts that come while the store closes are answered, each once, and what was answered with 0 is there.
func TestCloseUnderLoad(t *testing.T) {
	for _, syncFlush := range []bool{false, true} {
		t.Run(fmt.Sprint("sync=", syncFlush), func(t *testing.T) {
			t.Parallel()
			o := small(t.TempDir())
			o.SyncFlush = syncFlush
			s := open(t, o)
			acked := make([][]string, 4)
			var stored atomic.Int32
			var wg sync.WaitGroup
			for sender := range acked {
				wg.Go(func() {
					for i := 0; ; i++ {
						body := fmt.Sprintf("%d-%d", sender, i)
						r := try(t, s, text(testTopic, int32(sender), body, ""))
						if r.Status != engine.PutOK {
							return
						}
						acked[sender] = append(acked[sender], body)
						stored.Add(1)
					}
				})
			}
			for stored.Load() < 200 {
				time.Sleep(time.Millisecond)
			}
			closeStore(t, s)
			wg.Wait()
			s = open(t, o)
			for sender := range acked {
				if got := bodies(records(t, s, testTopic, int32(sender))); !slices.Equal(got, acked[sender]) {
					t.Errorf("sender %d: %d messages served, %d acknowledged", sender, len(got), len(acked[sender]))
				}
			}
		})
	}
}

// While the committer hangs the pool runs full. Puts wait in order in a bounded place, beyond it they are answered Busy; and all who
// wait are answered when it goes on.
func TestOverflow(t *testing.T) {
	disk := memstore.New()
	o := small(t.TempDir())
	o.SegmentSize, o.PoolSize = 1<<20, 64<<10
	o.Storage = func(string) (segment.Storage, error) { return disk, nil }
	s := open(t, o)
	put(t, s, 0, "first")
	gate := make(chan struct{})
	disk.Inject(&memstore.Fault{Op: memstore.OpWrite, Hold: gate})
	const n = 11_000
	calls := make([]*call, n)
	for i := range calls {
		calls[i] = newCall()
		calls[i].request.Message = text(testTopic, 0, fmt.Sprint(i), "")
		s.Put(&calls[i].request)
	}
	close(gate)
	disk.Heal()
	busy, next := 0, message.QueueOffset(1)
	for i, c := range calls {
		switch r := c.wait(t); r.Status {
		case engine.PutOK:
			if r.QueueOffset != next {
				t.Fatalf("put %d got number %d, want %d", i, r.QueueOffset, next)
			}
			next++
		case engine.Busy:
			busy++
		default:
			t.Fatalf("put %d: %+v", i, r)
		}
	}
	if busy == 0 || busy > n-10_000 || s.Metrics().PutsDelayed.Load() == 0 {
		t.Errorf("%d of %d were refused, %d delayed", busy, n, s.Metrics().PutsDelayed.Load())
	}
	audit(t, s)
}

// A disk above the ratio refuses messages with its path and how full it is, and takes them again by itself.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var percent atomic.Int64
		o := small(dir)
		o.Ring, o.DiskWarningRatio = false, 0
		o.DiskUsage = func(string) (float64, error) { return float64(percent.Load()) / 100, nil }
		s, err := engine.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		put(t, s, 0, "a")
		percent.Store(91)
		time.Sleep(1100 * time.Millisecond)
		r := try(t, s, text(testTopic, 0, "b", ""))
		if r.Status != engine.Unavailable || !strings.Contains(r.Err.Error(), "91.0 % full") || !strings.Contains(r.Err.Error(), dir) {
			t.Errorf("%+v", r)
		}
		if s.DiskFull() == nil || s.Latched() != nil {
			t.Error("a full disk is no latch")
		}
		percent.Store(90)
		time.Sleep(1100 * time.Millisecond)
		put(t, s, 0, "c")
		closeStore(t, s)
	})
}

// When the next segment cannot be made, puts that need it are refused with the reason, and taken again when it can.
func TestNoRoomForASegment(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.New()
		o := small(dir)
		o.Ring = false
		o.Storage = func(string) (segment.Storage, error) { return disk, nil }
		o.DiskUsage = func(string) (float64, error) { return 0.995, nil }
		s, err := engine.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		disk.Inject(&memstore.Fault{Op: memstore.OpCreate, Always: true, Err: syscall.ENOSPC})
		body := strings.Repeat("x", 10_000)
		var r engine.PutResult
		stored := 0
		for r = try(t, s, text(testTopic, 0, body, "")); r.Status == engine.PutOK; r = try(t, s, text(testTopic, 0, body, "")) {
			stored++
		}
		if stored < 6 || r.Status != engine.Unavailable || !errors.Is(r.Err, syscall.ENOSPC) ||
			!strings.Contains(r.Err.Error(), "99.5 % full") || !strings.Contains(r.Err.Error(), dir) {
			t.Errorf("after %d: %+v", stored, r)
		}
		if s.Latched() != nil {
			t.Error("a full disk is no latch")
		}
		disk.Heal()
		time.Sleep(1100 * time.Millisecond)
		for range 10 {
			put(t, s, 0, body)
		}
		audit(t, s)
		closeStore(t, s)
	})
}

// replicas answers when it is told to.
type replicas struct {
	mu    sync.Mutex
	waits []*engine.PutRequest
	ends  []message.Offset
}

func (r *replicas) Await(end message.Offset, p *engine.PutRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waits, r.ends = append(r.waits, p), append(r.ends, end)
}

func (r *replicas) take(n int) []*engine.PutRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waits) < n {
		return nil
	}
	taken := r.waits
	r.waits = nil
	return taken
}

// With replicas a put waits for both positions, whichever comes first.
func TestReplicator(t *testing.T) {
	syncer, remote := newHeldSyncer(), &replicas{}
	o := small(t.TempDir())
	o.SyncFlush, o.Syncer, o.Replicator = true, syncer, remote
	s := open(t, o)
	calls := []*call{newCall(), newCall(), newCall()}
	for i, c := range calls {
		c.request.Message = text(testTopic, 0, fmt.Sprint(i), "")
		s.Put(&c.request)
	}
	waits := remote.take(3)
	slow := errors.New("slave is slow")
	waits[0].Replicated(engine.PutOK, nil)
	waits[1].Replicated(engine.ReplicaTimeout, slow)
	for _, c := range calls {
		select {
		case r := <-c.done:
			t.Fatalf("answered before the flush: %+v", r)
		default:
		}
	}
	syncer.let(nil)
	if r := calls[0].wait(t); r.Status != engine.PutOK {
		t.Errorf("%+v", r)
	}
	if r := calls[1].wait(t); r.Status != engine.ReplicaTimeout || !errors.Is(r.Err, slow) {
		t.Errorf("%+v", r)
	}
	settle(t, s)
	select {
	case r := <-calls[2].done:
		t.Fatalf("answered before the replica: %+v", r)
	default:
	}
	waits[2].Replicated(engine.PutOK, nil)
	if r := calls[2].wait(t); r.Status != engine.PutOK {
		t.Errorf("%+v", r)
	}
	if !slices.IsSorted(remote.ends) {
		t.Errorf("replicas were asked out of order: %v", remote.ends)
	}
}
