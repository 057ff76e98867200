package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"ringmq/engine/message"
	"ringmq/engine/segment"
	"ringmq/engine/segment/memstore"
)

// record is a record of exactly size bytes whose body begins with its number.
func record(t testing.TB, number, size int) []byte {
	t.Helper()
	m := message.Message{Topic: "T", QueueID: 1}
	body := bytes.Repeat([]byte{byte('a' + number%26)}, size-m.RecordLen())
	copy(body, fmt.Sprintf("%08d", number))
	m.Body = body
	b, err := message.AppendRecord(nil, &m)
	if err != nil || len(b) != size {
		t.Fatalf("record of %d bytes: got %d, %v", size, len(b), err)
	}
	return b
}

// withSysFlag changes the sysflag of a record.
func withSysFlag(t testing.TB, size int, flag int32) []byte {
	t.Helper()
	m := message.Message{Topic: "T", SysFlag: flag}
	m.Body = make([]byte, size-m.RecordLen())
	b, err := message.AppendRecord(nil, &m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// manualClock is set by hand.
type manualClock struct{ ms atomic.Int64 }

func (c *manualClock) now() int64 { return c.ms.Load() }

const (
	testSegment = 16 << 10
	testPool    = 32 << 10
)

func testOptions(storage segment.Storage) Options {
	clock := new(manualClock)
	clock.ms.Store(1000)
	return Options{Storage: storage, SegmentSize: testSegment, PoolSize: testPool, Now: clock.now}
}

// open opens a log and closes it at the end of the test.
func open(t testing.TB, o Options) *Log {
	t.Helper()
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// started opens an empty log and starts it.
func started(t testing.TB, o Options) *Log {
	t.Helper()
	l := open(t, o)
	if err := l.Start(0); err != nil {
		t.Fatal(err)
	}
	return l
}

// put appends recs, waiting for room, while nobody else writes out.
func put(t testing.TB, l *Log, recs []byte, next *message.QueueOffset) Appended {
	t.Helper()
	for {
		a, err := l.Append(recs, next, nil)
		if err == nil {
			return a
		}
		if !errors.Is(err, ErrBusy) {
			t.Fatal(err)
		}
		writeOut(t, l)
		if err := l.Room(len(recs)); err != nil {
			t.Fatal(err)
		}
	}
}

func writeOut(t testing.TB, l *Log) message.Offset {
	t.Helper()
	at, err := l.WriteOut()
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// flush writes out and syncs everything.
func flush(t testing.TB, l *Log) {
	t.Helper()
	at := writeOut(t, l)
	for _, f := range l.Unsynced(at, nil) {
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	l.SetFlushed(at)
}

// found is what a scan has seen of one record.
type found struct {
	at      message.Offset
	size    int
	queueAt message.QueueOffset
	body    string
}

// scan walks the whole log.
func scan(t testing.TB, l *Log, mark message.Offset) (records []found, damage []Damage, end message.Offset) {
	t.Helper()
	end, err := l.Scan(l.Min(), mark, func(r *message.Record) error {
		records = append(records, found{r.Offset, int(r.Size), r.QueueOffset, string(r.Body)})
		return nil
	}, func(d Damage) { damage = append(damage, d) })
	if err != nil {
		t.Fatal(err)
	}
	return records, damage, end
}

func mem() *memstore.Storage { return memstore.New() }

// filled is a durable store of records of size bytes, as many as go into so many segments, and where each stands.
func filled(t testing.TB, segments, size int) (*memstore.Storage, []Appended) {
	t.Helper()
	storage := mem()
	l := started(t, testOptions(storage))
	var next message.QueueOffset
	var placed []Appended
	for l.End() < message.Offset((segments-1)*testSegment+testSegment/2) {
		placed = append(placed, put(t, l, record(t, len(placed), size), &next))
	}
	flush(t, l)
	if err := l.preparer.Await(l.segmentEnd); err != nil { // so that there is always one ahead
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return storage, placed
}

// change rewrites a closed file.
func change(storage *memstore.Storage, name string, f func(b []byte)) {
	b := storage.Live(name)
	f(b)
	storage.Put(name, b)
}
