package commitlog

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"ringmq/engine/message"
	"ringmq/engine/segment/memstore"
)

var seed = flag.Uint64("seed", 0, "run the model test with this seed only")

// modeled is a record that the model has seen appended, with what its queue offset was.
type modeled struct {
	bytes []byte // as stamped
	at    message.Offset
}

// model runs random operations on a log and a plain slice beside it.
type model struct {
	t       *testing.T
	rng     *rand.Rand
	options Options
	storage *memstore.Storage
	log     *Log
	clock   *manualClock
	cutDir  string

	records []modeled // from Min on
	next    message.QueueOffset
	flushed message.Offset
	number  int // of the next record
	opened  int
	even    bool // all records have one size
}

// TestModel: whatever happens, what was flushed is there after a crash, what was not is a beginning of what was appended, and
// every record is byte for byte as it was. Several options must tell one story.
func TestModel(t *testing.T) {
	t.Parallel()
	shapes := []func(o *Options){
		func(o *Options) {},
		func(o *Options) { o.MappedAppend = true },
		func(o *Options) { o.SegmentSize, o.PoolSize = 8192, 12288 },
		func(o *Options) { o.SegmentSize, o.PoolSize = 12345, 20480 }, // not a multiple of a block
		func(o *Options) { o.SegmentSize, o.PoolSize = 65536, 16384 }, // pool smaller than a segment
	}
	for i, shape := range shapes {
		for s := uint64(1); s <= 6; s++ {
			if *seed != 0 && s != *seed {
				continue
			}
			t.Run(fmt.Sprintf("shape=%d/seed=%d", i, s), func(t *testing.T) {
				t.Parallel()
				m := &model{t: t, rng: rand.New(rand.NewPCG(s, uint64(i))), storage: memstore.New(), clock: new(manualClock),
					cutDir: t.TempDir(), even: s%2 == 0}
				m.options = testOptions(nil)
				m.options.Now = m.clock.now
				shape(&m.options)
				m.open(0)
				for range 400 {
					m.step()
				}
				m.close()
			})
		}
	}
}

func (m *model) step() {
	m.clock.ms.Add(m.rng.Int64N(5) - 2)
	switch n := m.rng.IntN(100); {
	case n < 60:
		m.append()
	case n < 75:
		writeOut(m.t, m.log)
	case n < 85:
		flush(m.t, m.log)
		m.flushed = m.log.Flushed()
	case n < 89:
		m.read()
	case n < 91:
		m.retire()
	case n < 93:
		flush(m.t, m.log)
		m.flushed = m.log.Flushed()
		m.close()
		m.open(m.flushed)
	case n < 95: // killed: the page cache lives on
		writeOut(m.t, m.log)
		m.crash(100)
	default:
		m.crash(m.rng.IntN(100))
	}
}

func (m *model) append() {
	var recs []byte
	for range 1 + m.rng.IntN(3) {
		size := 100 + m.rng.IntN(1500)
		if m.even {
			size = 400 // an old record that came back would stand where a new one may begin
		}
		recs = append(recs, record(m.t, m.number, size)...)
		m.number++
	}
	want := m.next
	a := put(m.t, m.log, recs, &m.next)
	if a.QueueOffset != want {
		m.t.Fatalf("queue offset %d, want %d", a.QueueOffset, want)
	}
	at := a.Start
	for len(recs) > 0 {
		n := message.Size(recs)
		m.records = append(m.records, modeled{bytes.Clone(recs[:n]), at})
		at += message.Offset(n)
		recs = recs[n:]
	}
	if at != a.End {
		m.t.Fatalf("end %d, want %d", a.End, at)
	}
}

// read compares a random record, wherever it is just now.
func (m *model) read() {
	if len(m.records) == 0 {
		return
	}
	r := m.records[m.rng.IntN(len(m.records))]
	v, ok := m.log.View(r.at, len(r.bytes))
	if !ok || !bytes.Equal(v.Bytes, r.bytes) {
		m.t.Fatalf("record at %d: view %v of %d bytes differs", r.at, ok, len(v.Bytes))
	}
	v.Release()
}

// retire removes the first segment if that is possible.
func (m *model) retire() {
	if m.log.RemoveFirst() != nil {
		return
	}
	for len(m.records) > 0 && m.records[0].at < m.log.Min() {
		m.records = m.records[1:]
	}
}

func (m *model) crash(keepPercent int) {
	clone := m.storage.CrashClone(m.rng, keepPercent)
	m.close()
	m.storage = clone
	m.open(m.flushed)
}

func (m *model) close() {
	if err := m.log.Close(); err != nil {
		m.t.Fatal(err)
	}
}

// open recovers and compares.
func (m *model) open(mark message.Offset) {
	m.options.Storage = m.storage
	l, err := Open(m.options)
	if err != nil {
		m.t.Fatal(err)
	}
	if m.rng.IntN(3) == 0 {
		mark = min(mark, l.LastUsed()) // as without a mark
	}
	n := 0
	lastTime := int64(0)
	end, err := l.Scan(l.Min(), mark, func(r *message.Record) error {
		if n == len(m.records) {
			return fmt.Errorf("record at %d was never appended", r.Offset)
		}
		v, _ := l.Segments().View(int64(r.Offset), int(r.Size))
		defer v.Release()
		if want := m.records[n]; r.Offset != want.at || !bytes.Equal(v.Bytes, want.bytes) {
			return fmt.Errorf("record %d at %d differs from the one appended at %d", n, r.Offset, want.at)
		}
		if r.StoreTime < lastTime {
			return fmt.Errorf("record %d: store time %d after %d", n, r.StoreTime, lastTime)
		}
		lastTime = r.StoreTime
		n++
		return nil
	}, func(d Damage) { m.t.Errorf("damage %+v", d) })
	if err != nil {
		m.t.Fatal(err)
	}
	if end < m.flushed {
		m.t.Fatalf("end %d, but %d was flushed", end, m.flushed)
	}
	m.records = m.records[:n]
	m.next = 0
	if n > 0 {
		var r message.Record
		message.Check(m.records[n-1].bytes, m.records[n-1].at, &r)
		m.next = r.QueueOffset + 1
	} else if l.Segments().First() != nil && l.Min() > 0 {
		m.next = 1 << 20 // the queue knows, not the log
	}
	m.opened++
	if _, err := l.Cut(end, 0, filepath.Join(m.cutDir, fmt.Sprint(m.opened))); err != nil {
		m.t.Fatal(err)
	}
	if err := l.Start(end); err != nil {
		m.t.Fatal(err)
	}
	m.log, m.flushed = l, end
}
