package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
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

// never is an interval, in ms, that no test reaches.
const never = int64(1) << 40

// commitSettings can be changed while a store uses them.
type commitSettings struct {
	mu     sync.Mutex
	values flush.Settings
}

func (c *commitSettings) get() flush.Settings {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.values
}

func (c *commitSettings) set(change func(s *flush.Settings)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.values)
}

// transient are options of a store with the transient pool, whose log is in memory and whose committer does nothing by itself.
func transient(dir string, disk *memstore.Storage) (engine.Options, *commitSettings) {
	settings := &commitSettings{values: flush.Settings{
		FlushIntervalMS: 5, FlushThoroughIntervalMS: 20,
		CommitIntervalMS: never, CommitLeastPages: math.MaxInt32, CommitThoroughIntervalMS: never,
	}}
	o := small(dir)
	o.Ring, o.TransientPool, o.TransientBuffers = false, true, 4
	o.Flush = settings.get
	o.Storage = func(string) (segment.Storage, error) { return disk, nil }
	return o, settings
}

// killed is what a kill leaves of a store whose log is in disk: small files and queues in dir, and of the log what the page cache has.
func killed(t testing.TB, o engine.Options, disk *memstore.Storage) (engine.Options, *memstore.Storage) {
	t.Helper()
	clone := disk.CrashClone(rand.New(rand.NewPCG(1, 2)), 100)
	dir := t.TempDir()
	copyTree(t, o.Dir, dir)
	o.Dir, o.LogDir = dir, ""
	o.Storage = func(string) (segment.Storage, error) { return clone, nil }
	return o, clone
}

func served(t testing.TB, s *engine.Store) []string {
	t.Helper()
	return bodies(records(t, s, testTopic, 0))
}

// A put is answered before it is written; nobody sees it before it is; a kill loses what was not written and nothing else, from the end.
func TestTransientKill(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.New()
		o, settings := transient(dir, disk)
		s := open(t, o)
		var sent []string
		send := func(n int) {
			for range n {
				sent = append(sent, fmt.Sprintf("message %d", len(sent)))
				put(t, s, 0, sent[len(sent)-1])
			}
		}
		settings.set(func(s *flush.Settings) { s.CommitIntervalMS, s.CommitThoroughIntervalMS = 200, 200 })
		send(10)
		if err := engine.FlushAll(s); err != nil { // the settings count from here on
			t.Fatal(err)
		}
		send(10)
		if p := s.Positions(); p.End <= p.Committed || p.Readable != p.Committed || p.Dispatched > p.Committed {
			t.Errorf("answered before written, but positions are %+v", p)
		}
		synctest.Wait()
		if got := served(t, s); !slices.Equal(got, sent[:10]) {
			t.Errorf("consumers see %q", got)
		}
		if _, ok := s.Record(s.Positions().Committed); ok {
			t.Error("a record that is not written can be looked at")
		}
		now, _ := killed(t, o, disk)

		time.Sleep(201 * time.Millisecond)
		settle(t, s)
		if got := served(t, s); !slices.Equal(got, sent) {
			t.Errorf("after the thorough interval consumers see %q", got)
		}
		send(5)
		later, _ := killed(t, o, disk)
		send(5)
		closeStore(t, s)

		for _, c := range []struct {
			what string
			o    engine.Options
			want int
		}{{"killed before the commit", now, 10}, {"killed behind it", later, 20}, {"stopped cleanly", o, 30}} {
			s := open(t, c.o)
			if got := served(t, s); !slices.Equal(got, sent[:c.want]) || s.Recovery().CutBytes != 0 || len(s.Recovery().Damaged) != 0 {
				t.Errorf("%s: %d messages are there, want %d; %+v", c.what, len(got), c.want, s.Recovery())
			}
			if r := put(t, s, 0, "next"); r.QueueOffset != message.QueueOffset(c.want) {
				t.Errorf("%s: the next message has number %d, want %d", c.what, r.QueueOffset, c.want)
			}
			closeStore(t, s)
		}
	})
}

// Whatever the pool holds of earlier laps, a file gets nothing but what was appended, and zeros behind it up to the end of a block. The model
// is the log as a plain slice: after each commit, at any place in a block, the files are compared with it byte by byte.
func TestTransientWritesNoStaleBytes(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.New()
		o, settings := transient(dir, disk)
		o.TransientBuffers = 1 // the ring is one segment long: each lap lies on the one before, shifted by nothing
		s := open(t, o)
		rng := rand.New(rand.NewPCG(7, 7))
		compared := message.Offset(0)
		for laps := message.Offset(5); s.Positions().End < laps*message.Offset(o.SegmentSize); {
			for range 1 + rng.IntN(6) {
				put(t, s, 0, strings.Repeat("stale", 1+rng.IntN(900))) // never zero, unlike what may stand behind the end
			}
			if err := engine.FlushAll(s); err != nil {
				t.Fatal(err)
			}
			p := s.Positions()
			if p.Committed != p.End {
				t.Fatalf("positions %+v", p)
			}
			compareFiles(t, disk, s, compared, p.End)
			compared = p.End - p.End%message.Offset(o.SegmentSize)
		}
		settle(t, s)
		before := served(t, s)
		later, _ := killed(t, o, disk)
		s.Close()
		s = open(t, later)
		if got := served(t, s); !slices.Equal(got, before) || s.Recovery().CutBytes != 0 || len(s.Recovery().Damaged) != 0 {
			t.Errorf("%d messages after a kill, want %d; %+v", len(got), len(before), s.Recovery())
		}
		closeStore(t, s)
		settings.set(func(s *flush.Settings) { s.CommitIntervalMS, s.CommitThoroughIntervalMS = 1, 1 })
		s = open(t, later)
		audit(t, s)
		closeStore(t, s)
	})
}

// compareFiles looks at the files from the segment of from on: records that follow each other up to end, and then zeros.
func compareFiles(t *testing.T, disk *memstore.Storage, s *engine.Store, from, end message.Offset) {
	t.Helper()
	size := message.Offset(s.Options().SegmentSize)
	var r message.Record
	for base := from - from%size; base < end; base += size {
		file := disk.Live(segment.Name(int64(base)))
		at := base
		for at < min(end, base+size) {
			kind, err := message.Check(file[at-base:], at, &r)
			if kind != message.Whole && kind != message.Blank {
				t.Fatalf("no whole record at %d of %d: %v", at, end, err)
			}
			rest := file[at-base+message.Offset(r.Size):]
			if kind == message.Blank {
				rest = file[at-base+message.BlankLen:]
			}
			at += message.Offset(r.Size)
			if kind == message.Blank || at == end {
				if i := bytes.IndexFunc(rest, func(c rune) bool { return c != 0 }); i >= 0 {
					t.Fatalf("behind the end %d of what was appended stands %q", at, rest[i:min(i+20, len(rest))])
				}
			}
		}
	}
}

// A pool that runs full: a put waits for room and gets it at once, or is refused if that is wanted; and it is taken again afterwards.
func TestTransientPoolFull(t *testing.T) {
	for _, failFast := range []bool{false, true} {
		dir := t.TempDir()
		t.Run(fmt.Sprintf("failFast=%v", failFast), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { fillTransientPool(t, dir, failFast) })
		})
	}
}

func fillTransientPool(t *testing.T, dir string, failFast bool) {
	disk := memstore.New()
	o, settings := transient(dir, disk)
	settings.set(func(s *flush.Settings) { s.FailFast = failFast })
	s := open(t, o)
	gate := make(chan struct{})
	disk.Inject(&memstore.Fault{Op: memstore.OpWrite, Hold: gate})
	var calls []*call
	for size := int64(0); size < 2*o.SegmentSize*int64(o.TransientBuffers); size += 8 << 10 {
		c := newCall()
		c.request.Message = text(testTopic, 0, strings.Repeat("x", 8<<10), "")
		s.Put(&c.request)
		calls = append(calls, c)
		synctest.Wait() // for the next segment
	}
	if room, size := s.PoolRoom(); size != o.SegmentSize*int64(o.TransientBuffers) || room > 9<<10 {
		t.Errorf("%d of %d bytes are free", room, size)
	}
	answered := len(calls)
	if !failFast {
		answered = 0
		for _, c := range calls {
			answered += len(c.done)
		}
		if answered < 20 || answered > 32 {
			t.Errorf("%d of %d are answered while nothing can be written", answered, len(calls))
		}
	}
	for _, c := range calls[:answered] {
		if len(c.done) != 1 {
			t.Fatal("a put waits that is to be refused or done")
		}
	}
	close(gate)
	disk.Heal()
	stored, refused := int64(0), 0
	for _, c := range calls {
		switch r := c.wait(t); r.Status {
		case engine.PutOK:
			if int64(r.QueueOffset) != stored {
				t.Fatalf("number %d, want %d", r.QueueOffset, stored)
			}
			stored++
		case engine.Busy:
			refused++
			if !strings.Contains(r.Err.Error(), "fastFailIfNoBufferInStorePool") {
				t.Errorf("%v", r.Err)
			}
		default:
			t.Fatalf("%+v", r)
		}
	}
	if failFast != (refused >= len(calls)/2) || !failFast && refused > 0 {
		t.Errorf("%d of %d were refused, %d stored", refused, len(calls), stored)
	}
	synctest.Wait() // the pool has been written out, though no setting says so
	put(t, s, 0, "again")
	if err := engine.FlushAll(s); err != nil {
		t.Fatal(err)
	}
	settle(t, s)
	if got := served(t, s); int64(len(got)) != stored+1 {
		t.Errorf("%d messages are served, %d were stored", len(got), stored+1)
	}
	closeStore(t, s)
}

// A write that fails in the middle latches the store: what was answered and not written is lost, from the end, and everybody is told from
// then on.
func TestTransientWriteFails(t *testing.T) {
	t.Parallel()
	disk := memstore.New()
	o, _ := transient(t.TempDir(), disk)
	s := open(t, o)
	var kept []string
	for i := range 20 {
		kept = append(kept, fmt.Sprint("kept ", i))
		put(t, s, 0, kept[i])
	}
	if err := engine.FlushAll(s); err != nil {
		t.Fatal(err)
	}
	settle(t, s)
	// Over a roll: the end of the first segment is written, and while that takes its time all the rest is answered, which then cannot be.
	gate := make(chan struct{})
	disk.Inject(&memstore.Fault{Op: memstore.OpWrite, Nth: 1, Hold: gate})
	disk.Inject(&memstore.Fault{Op: memstore.OpWrite, Nth: 2, Err: syscall.EIO})
	for range 12 {
		body := strings.Repeat("gone ", 1500)
		kept = append(kept, body)
		put(t, s, 0, body)
	}
	close(gate)
	if err := engine.FlushAll(s); !errors.Is(err, syscall.EIO) {
		t.Fatalf("flush: %v", err)
	}
	if r := try(t, s, text(testTopic, 0, "late", "")); r.Status != engine.Unavailable || !errors.Is(r.Err, syscall.EIO) {
		t.Errorf("%+v", r)
	}
	if got := served(t, s); len(got) < 20 || !slices.Equal(got, kept[:len(got)]) {
		t.Errorf("serves %d messages", len(got))
	}
	if err := s.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("close: %v", err)
	}
	disk.Heal()
	s = open(t, o)
	p := s.Positions()
	if got := served(t, s); len(got) < 20 || len(got) >= len(kept) || !slices.Equal(got, kept[:len(got)]) || len(s.Recovery().Damaged) > 0 {
		t.Errorf("%d messages are there after a restart, %+v", len(got), p)
	}
	if r := try(t, s, text(testTopic, 0, "next", "")); r.Status != engine.PutOK {
		t.Errorf("%+v", r)
	}
}

// With replicas a put waits for them, and for nothing else.
func TestTransientReplicated(t *testing.T) {
	t.Parallel()
	remote := &replicas{}
	o, _ := transient(t.TempDir(), memstore.New())
	o.Replicator = remote
	s := open(t, o)
	c := newCall()
	c.request.Message = text(testTopic, 0, "x", "")
	s.Put(&c.request)
	select {
	case r := <-c.done:
		t.Fatalf("answered before the replica: %+v", r)
	default:
	}
	for _, p := range remote.take(1) {
		p.Replicated(engine.PutOK, nil)
	}
	if r := c.wait(t); r.Status != engine.PutOK {
		t.Errorf("%+v", r)
	}
	if p := s.Positions(); p.Committed != 0 || p.End == 0 {
		t.Errorf("positions %+v", p)
	}
}
