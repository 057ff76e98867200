package dispatch_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"ringmq/engine/consumequeue"
	"ringmq/engine/dispatch"
	"ringmq/engine/message"
	"ringmq/engine/segment"
)

const segmentSize = 4096

// memoryLog is a log in memory, written by the test.
type memoryLog struct {
	bytes    []byte
	numbers  map[string]message.QueueOffset
	readable atomic.Int64
	short    int // views are at most so long, 0: no bound
}

func (l *memoryLog) View(from message.Offset, n int) (segment.View, bool) {
	if int(from) >= len(l.bytes) {
		return segment.View{}, false
	}
	if l.short > 0 {
		n = min(n, l.short)
	}
	return segment.View{Bytes: l.bytes[from:min(int(from)+n, len(l.bytes))]}, true
}

func (l *memoryLog) Readable() message.Offset { return message.Offset(l.readable.Load()) }

// add appends a record, and shows it only by show.
func (l *memoryLog) add(t testing.TB, m message.Message, storeTimeMS int64) (at message.Offset, size int) {
	t.Helper()
	rec, err := message.AppendRecord(nil, &m)
	if err != nil {
		t.Fatal(err)
	}
	if used := len(l.bytes) % segmentSize; used+len(rec)+message.BlankLen > segmentSize {
		rest := segmentSize - used
		l.bytes = append(message.AppendBlank(l.bytes, rest), make([]byte, rest-message.BlankLen)...)
	}
	if l.numbers == nil {
		l.numbers = map[string]message.QueueOffset{}
	}
	key := fmt.Sprint(m.Topic, m.QueueID)
	at = message.Offset(len(l.bytes))
	message.Stamp(rec, l.numbers[key], at, storeTimeMS)
	if message.InQueue(m.SysFlag) {
		l.numbers[key]++
	}
	l.bytes = append(l.bytes, rec...)
	return at, len(rec)
}

func (l *memoryLog) show() { l.readable.Store(int64(len(l.bytes))) }

func openTable(t testing.TB, dir string) *consumequeue.Table {
	t.Helper()
	table, err := consumequeue.Open(consumequeue.Options{Dir: dir, FileSize: 200})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { table.Close() })
	return table
}

// arrivals counts what the dispatcher tells.
type arrivals struct {
	mu   sync.Mutex
	seen []string
}

func (a *arrivals) Arrived(q *consumequeue.Queue, tagsCode int64, max message.QueueOffset) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen = append(a.seen, fmt.Sprintf("%s/%d %d %d", q.ID.Topic, q.ID.QueueID, tagsCode, max))
}

type fixture struct {
	log        *memoryLog
	table      *consumequeue.Table
	dispatcher *dispatch.Dispatcher
	arrivals   arrivals
	failed     error
	book       bytes.Buffer
}

func newFixture(t testing.TB, dir string) *fixture {
	f := &fixture{log: new(memoryLog), table: openTable(t, dir)}
	logger := slog.New(slog.NewTextHandler(&f.book, nil))
	delays, _ := dispatch.ParseDelays("1s 10s")
	f.dispatcher = dispatch.New(dispatch.Options{
		Log: f.log, SegmentSize: segmentSize, Readable: f.log.Readable, Arrivals: &f.arrivals, Logger: logger,
		Entries: &dispatch.Entries{Queues: f.table, Delays: delays, Logger: logger},
		Failed:  func(err error) { f.failed = err },
	})
	return f
}

func (f *fixture) entries(t testing.TB, topic string, queue int32) []consumequeue.Entry {
	t.Helper()
	q := f.table.Find([]byte(topic), queue)
	if q == nil {
		return nil
	}
	list := make([]consumequeue.Entry, q.Max()-q.First())
	if n, err := q.Read(q.First(), list); err != nil || n != len(list) {
		t.Fatalf("%d entries of %d, %v", n, len(list), err)
	}
	return list
}

func property(name, value string) []byte { return message.AppendProperty(nil, name, value) }

// Every record below the readable position gets its entry, none above it; whatever the length of the views.
func TestDispatcherFollowsTheLog(t *testing.T) {
	for _, short := range []int{0, 400, 1000} {
		t.Run(fmt.Sprint("view=", short), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, dir)
				f.log.short = short
				f.dispatcher.Start(dispatch.Position{Last: -1})
				var want []consumequeue.Entry
				tags := property("TAGS", "a")
				for i := range 100 {
					at, size := f.log.add(t, message.Message{Topic: "T", Body: make([]byte, 100+i), Properties: tags}, int64(i))
					want = append(want, consumequeue.Entry{Offset: at, Size: int32(size), TagsCode: 'a'})
					if i%7 == 0 {
						f.log.show()
						f.dispatcher.Wake()
						synctest.Wait()
						if got := f.entries(t, "T", 0); !slices.Equal(got, want) {
							t.Fatalf("after %d: %v, want %v", i, got, want)
						}
						p := f.dispatcher.Position()
						if p.Dispatched != f.log.Readable() || p.Last != at || p.LastStoreTimeMS != int64(i) || p.Entries != int64(i+1) ||
							f.dispatcher.Dispatched() != p.Dispatched {
							t.Fatalf("position %+v", p)
						}
					}
				}
				synctest.Wait()
				if got := f.entries(t, "T", 0); len(got) == len(want) {
					t.Error("what is not readable was dispatched")
				}
				f.log.show()
				f.dispatcher.Close() // dispatches what there is
				if got := f.entries(t, "T", 0); !slices.Equal(got, want) {
					t.Errorf("after close: %d entries, want %d", len(got), len(want))
				}
				if len(f.arrivals.seen) != 100 || f.arrivals.seen[99] != "T/0 97 100" {
					t.Errorf("arrivals %d, last %s", len(f.arrivals.seen), f.arrivals.seen[len(f.arrivals.seen)-1])
				}
			})
		})
	}
}

func TestEntriesOfSpecialRecords(t *testing.T) {
	f := newFixture(t, t.TempDir())
	schedule := "SCHEDULE_TOPIC_XXXX"
	f.log.add(t, message.Message{Topic: schedule, QueueID: 1, Properties: property("DELAY", "2")}, 5000)
	f.log.add(t, message.Message{Topic: schedule, QueueID: 1, Properties: property("DELAY", "99")}, 6000)
	f.log.add(t, message.Message{Topic: schedule, QueueID: 1, Properties: property("TAGS", "a")}, 7000)
	f.log.add(t, message.Message{Topic: schedule, QueueID: 1, Properties: property("DELAY", "x")}, 8000)
	f.log.add(t, message.Message{Topic: "T", SysFlag: message.SysFlagPrepared}, 1)
	f.log.add(t, message.Message{Topic: "T", SysFlag: message.SysFlagRollback}, 1)
	f.log.add(t, message.Message{Topic: "T", SysFlag: message.SysFlagCommit, Properties: property("TAGS", "Aa")}, 1)
	f.log.add(t, message.Message{Topic: "T", Properties: property("DELAY", "2")}, 1)
	f.log.show()
	f.dispatcher.Start(dispatch.Position{Last: -1})
	f.dispatcher.Close()
	codes := func(topic string, queue int32) (list []int64) {
		for _, e := range f.entries(t, topic, queue) {
			list = append(list, e.TagsCode)
		}
		return list
	}
	if got := codes(schedule, 1); !slices.Equal(got, []int64{15_000, 16_000, 97, 0}) {
		t.Errorf("schedule entries %v", got)
	}
	if got := codes("T", 0); !slices.Equal(got, []int64{2112, 0}) {
		t.Errorf("entries of T %v", got)
	}
	if p := f.dispatcher.Position(); p.Dispatched != f.log.Readable() || p.Entries != 6 {
		t.Errorf("position %+v", p)
	}
}

// What was readable and is not whole any more latches the store, at the record; those before it have their entries.
func TestDispatcherFindsDamage(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, dir)
		f.log.add(t, message.Message{Topic: "T", Body: []byte("good")}, 1)
		at, _ := f.log.add(t, message.Message{Topic: "T", Body: []byte("bad")}, 2)
		f.log.add(t, message.Message{Topic: "T", Body: []byte("behind")}, 3)
		f.log.bytes[at+88] ^= 1
		f.log.show()
		f.dispatcher.Start(dispatch.Position{Last: -1})
		f.dispatcher.Wake()
		synctest.Wait()
		if !errors.Is(f.failed, message.ErrNotWhole) {
			t.Errorf("failed with %v", f.failed)
		}
		if got := f.entries(t, "T", 0); len(got) != 1 || f.dispatcher.Dispatched() != at {
			t.Errorf("%d entries, dispatched %d, want 1, %d", len(got), f.dispatcher.Dispatched(), at)
		}
		if !bytes.Contains(f.book.Bytes(), fmt.Appendf(nil, "offset=%d", at)) {
			t.Errorf("the log says\n%s", f.book.String())
		}
		f.failed = nil
		f.dispatcher.Wake()
		f.dispatcher.Close()
		if f.failed != nil {
			t.Error("told twice")
		}
	})
}

// Bytes that the device cannot read again latch the store; they do not end the process. Memory behind the end of its file faults as a bad
// sector does.
func TestDispatcherSurvivesABadSector(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, filepath.Join(dir, "queues"))
		good, _ := f.log.add(t, message.Message{Topic: "T", Body: []byte("good")}, 1)
		f.log.add(t, message.Message{Topic: "T", Body: make([]byte, 3850)}, 1)
		bad, _ := f.log.add(t, message.Message{Topic: "T", Body: []byte("lost")}, 1) // in the next segment, as in the next page
		path := filepath.Join(dir, "log")
		if err := os.WriteFile(path, f.log.bytes, 0o644); err != nil {
			t.Fatal(err)
		}
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		mapped, err := unix.Mmap(int(file.Fd()), 0, len(f.log.bytes), unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Munmap(mapped)
		if err := file.Truncate(segmentSize); err != nil {
			t.Fatal(err)
		}
		f.log.bytes = mapped
		f.log.show()
		f.dispatcher.Start(dispatch.Position{Last: -1})
		synctest.Wait()
		if !errors.Is(f.failed, segment.ErrUnreadable) {
			t.Errorf("failed with %v", f.failed)
		}
		if got := f.dispatcher.Dispatched(); good != 0 || got != bad {
			t.Errorf("dispatched %d, want %d", got, bad)
		}
		f.dispatcher.Close()
	})
}

// A disk that cannot take an entry is tried again each second; nothing is passed over.
func TestDispatcherTriesAgain(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, dir)
		for range 30 {
			f.log.add(t, message.Message{Topic: "T", Body: []byte("x")}, 1)
		}
		// A file where the queue's folder must be: tails of the queue cannot be written out.
		blocker := filepath.Join(dir, "T")
		if err := os.WriteFile(blocker, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		for range 500 {
			f.log.add(t, message.Message{Topic: "T", Body: []byte("x")}, 1)
		}
		f.log.show()
		f.dispatcher.Start(dispatch.Position{Last: -1})
		synctest.Wait()
		if got := f.dispatcher.Dispatched(); got == f.log.Readable() {
			t.Fatal("everything was dispatched: the test does not block the disk")
		}
		if f.failed != nil {
			t.Errorf("the store was latched: %v", f.failed)
		}
		if err := os.Remove(blocker); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		if got := f.entries(t, "T", 0); len(got) != 530 || f.dispatcher.Dispatched() != f.log.Readable() {
			t.Errorf("%d entries, want 530", len(got))
		}
		f.dispatcher.Close()
	})
}

// A record whose fields no queue can be made of stays in the log, told, and stops nobody.
func TestRecordsWithoutAQueue(t *testing.T) {
	f := newFixture(t, t.TempDir())
	f.log.add(t, message.Message{Topic: "a/b"}, 1)
	f.log.add(t, message.Message{Topic: "T", QueueID: -3}, 1)
	f.log.add(t, message.Message{Topic: "G"}, 1)
	at, _ := f.log.add(t, message.Message{Topic: "G"}, 1)
	message.Stamp(f.log.bytes[at:], 1<<40, at, 1)
	f.log.add(t, message.Message{Topic: "T"}, 1)
	f.log.show()
	f.dispatcher.Start(dispatch.Position{Last: -1})
	f.dispatcher.Close()
	if got := f.entries(t, "T", 0); len(got) != 1 || f.dispatcher.Dispatched() != f.log.Readable() || f.failed != nil {
		t.Errorf("%d entries, dispatched %d of %d, failed %v", len(got), f.dispatcher.Dispatched(), f.log.Readable(), f.failed)
	}
	if n := bytes.Count(f.book.Bytes(), []byte("gets no entry")); n != 3 {
		t.Errorf("%d lines, want 3:\n%s", n, f.book.String())
	}
}

func TestPutDoesNotAllocate(t *testing.T) {
	log := new(memoryLog)
	table, err := consumequeue.Open(consumequeue.Options{Dir: t.TempDir(), FileSize: 6_000_000})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	tags := property("TAGS", "a")
	for range 10_010 {
		log.add(t, message.Message{Topic: "T", Body: make([]byte, 100), Properties: tags}, 1)
	}
	entries := &dispatch.Entries{Queues: table, Delays: dispatch.Delays{1}, Logger: slog.New(slog.DiscardHandler)}
	var r message.Record
	at := message.Offset(0)
	one := func() {
		segmentEnd := at - at%segmentSize + segmentSize
		kind, err := message.Check(log.bytes[at:min(int(segmentEnd), len(log.bytes))], at, &r)
		if err != nil {
			t.Fatal(err)
		}
		at += message.Offset(r.Size)
		if kind == message.Blank {
			return
		}
		if _, _, err := entries.Put(&r); err != nil {
			t.Fatal(err)
		}
	}
	for range 300 { // until the queue has its file and its buffers
		one()
	}
	if n := testing.AllocsPerRun(9000, one); n > 0 {
		t.Errorf("%g allocations a record", n)
	}
}
