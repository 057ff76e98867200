package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ringmq/engine"
	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
)

const (
	testTopic = "T"
	// patience ends a test that would otherwise hang; nothing waits for it to pass.
	patience = 20 * time.Second
)

// small are options with files small enough that tests roll.
func small(dir string) engine.Options {
	return engine.Options{
		Dir: dir, SegmentSize: 64 << 10, QueueFileSize: 2000, PoolSize: 256 << 10, UnlockedPool: true, Ring: true,
		IndexSlots: 100, IndexEntries: 2000,
		DiskWarningRatio: 1, PutWaitMS: 3_600_000, // the machine's disk is not what is tested
	}
}

func open(t testing.TB, o engine.Options) *engine.Store {
	t.Helper()
	s, err := engine.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func closeStore(t testing.TB, s *engine.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// call is a put that waits for its answer.
type call struct {
	request engine.PutRequest
	done    chan engine.PutResult
}

func newCall() *call {
	c := &call{done: make(chan engine.PutResult, 1)}
	c.request.Done = c
	return c
}

func (c *call) PutDone(p *engine.PutRequest, r *engine.PutResult) {
	result := *r
	result.Offsets = slices.Clone(r.Offsets)
	c.done <- result
}

func (c *call) wait(t testing.TB) engine.PutResult {
	t.Helper()
	select {
	case r := <-c.done:
		return r
	case <-time.After(patience):
		t.Fatal("a put was not answered")
		panic("unreachable")
	}
}

func text(topic string, queue int32, body, properties string) message.Message {
	return message.Message{
		Topic: topic, QueueID: queue, Body: []byte(body), Properties: []byte(properties), BornTime: 1,
		BornHost:  netip.MustParseAddrPort("127.0.0.1:5000"),
		StoreHost: netip.MustParseAddrPort("127.0.0.1:10911"),
	}
}

// try puts one message and waits.
func try(t testing.TB, s *engine.Store, m message.Message) engine.PutResult {
	t.Helper()
	c := newCall()
	c.request.Message = m
	s.Put(&c.request)
	return c.wait(t)
}

// put is try that must succeed.
func put(t testing.TB, s *engine.Store, queue int32, body string) engine.PutResult {
	t.Helper()
	r := try(t, s, text(testTopic, queue, body, "TAGS\x01a\x02"))
	if r.Status != engine.PutOK {
		t.Fatalf("put %q into queue %d: status %d, %v", body, queue, r.Status, r.Err)
	}
	return r
}

// settle waits until all that is readable has been dispatched.
func settle(t testing.TB, s *engine.Store) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		if p := s.Positions(); p.Dispatched == p.End && p.Readable == p.End {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("positions do not meet: %+v", s.Positions())
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// records gets a queue from min to max and decodes what comes.
func records(t testing.TB, s *engine.Store, topic string, queue int32) []message.Record {
	t.Helper()
	list, err := pullAll(s, topic, queue)
	if err != nil {
		t.Fatalf("topic %s queue %d: %v", topic, queue, err)
	}
	return list
}

func pullAll(s *engine.Store, topic string, queue int32) ([]message.Record, error) {
	q := s.Queue([]byte(topic), queue)
	if q == nil {
		return nil, nil
	}
	var list []message.Record
	var res engine.GetResult
	for next := q.Min(); next < q.Max(); {
		s.Get([]byte(topic), queue, next, 32, 1<<20, nil, &res)
		for _, view := range res.Views {
			for rest := bytes.Clone(view.Bytes); len(rest) > 0; {
				var r message.Record
				if err := message.Decode(rest[:message.Size(rest)], &r); err != nil && !errors.Is(err, message.ErrZerosInText) {
					return nil, err
				}
				list, rest = append(list, r), rest[r.Size:]
			}
		}
		res.Release()
		if res.Next <= next {
			return nil, fmt.Errorf("get at %d of [%d, %d): status %d, next %d", next, q.Min(), q.Max(), res.Status, res.Next)
		}
		next = res.Next
	}
	return list, nil
}

func bodies(list []message.Record) []string {
	var texts []string
	for i := range list {
		texts = append(texts, string(list[i].Body))
	}
	return texts
}

// logBook keeps what a store logs.
type logBook struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (b *logBook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

func (b *logBook) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lines.Write(line)
}

func (b *logBook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lines.String()
}

func (b *logBook) has(parts ...string) bool {
	for line := range strings.Lines(b.String()) {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			return true
		}
	}
	return false
}

// audit is what must hold of every open store: the log is whole from Min to End but for the damage that recovery told, the numbers of every
// queue rise by one from min to max, what is served belongs there, and the next message of each queue gets the old max.
func audit(t testing.TB, s *engine.Store) {
	t.Helper()
	settle(t, s)
	if err := auditLog(s); err != nil {
		t.Error(err)
	}
	for _, id := range queueIDs(s) {
		if err := auditQueue(s, id, len(s.Recovery().Damaged) > 0); err != nil {
			t.Error(err)
			continue
		}
		old := s.Queue([]byte(id.Topic), id.QueueID).Max()
		r := try(t, s, text(id.Topic, id.QueueID, "audit", ""))
		if r.Status != engine.PutOK || r.QueueOffset != old {
			t.Errorf("topic %s queue %d: the next message got number %d (status %d, %v), want %d", id.Topic, id.QueueID, r.QueueOffset, r.Status, r.Err, old)
		}
	}
	settle(t, s)
}

func queueIDs(s *engine.Store) (ids []consumequeue.ID) {
	s.Queues(func(q *consumequeue.Queue) bool {
		ids = append(ids, q.ID)
		return true
	})
	return ids
}

func auditLog(s *engine.Store) error {
	p, damaged := s.Positions(), s.Recovery().Damaged
	var r message.Record
	for at := p.Min; at < p.End; {
		segmentEnd := at - at%message.Offset(s.Options().SegmentSize) + message.Offset(s.Options().SegmentSize)
		view, ok := s.Log().View(at, int(segmentEnd-at))
		if !ok {
			return fmt.Errorf("the log has no bytes at %d", at)
		}
		kind, err := message.Check(view.Bytes, at, &r)
		size := message.Offset(r.Size)
		view.Release()
		switch kind {
		case message.Whole, message.Blank:
			at += size
		default:
			if len(damaged) == 0 || damaged[0].From != at {
				return fmt.Errorf("no whole record at %d: %v", at, err)
			}
			at, damaged = damaged[0].To, damaged[1:]
		}
	}
	return nil
}

func auditQueue(s *engine.Store, id consumequeue.ID, mayLack bool) error {
	q := s.Queue([]byte(id.Topic), id.QueueID)
	low, high := q.Min(), q.Max()
	if low > high {
		return fmt.Errorf("%v: min %d above max %d", id, low, high)
	}
	list, err := pullAll(s, id.Topic, id.QueueID)
	if err != nil {
		return fmt.Errorf("%v: %w", id, err)
	}
	next := low
	for i := range list {
		r := &list[i]
		if string(r.Topic) != id.Topic || r.QueueID != id.QueueID {
			return fmt.Errorf("%v serves a record of topic %s queue %d", id, r.Topic, r.QueueID)
		}
		if r.QueueOffset != next && !(mayLack && r.QueueOffset > next) {
			return fmt.Errorf("%v: number %d comes where %d is due", id, r.QueueOffset, next)
		}
		next = r.QueueOffset + 1
	}
	if next != high && !mayLack {
		return fmt.Errorf("%v: numbers end at %d, max is %d", id, next, high)
	}
	return nil
}

func exists(t testing.TB, pattern string) bool {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return len(names) > 0
}

func mustBe(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}
