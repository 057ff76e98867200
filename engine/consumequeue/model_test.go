package consumequeue_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
)

var seed = flag.Uint64("seed", 0, "of the model test; 0: a new one each time")

// model is what the table must behave like: per queue a slice of entries, none removed from the front.
type model struct {
	t     *testing.T
	rng   *rand.Rand
	o     consumequeue.Options
	table *consumequeue.Table
	want  map[consumequeue.ID][]consumequeue.Entry
	at    message.Offset // end of the log
	log   []string
}

// TestModel does random things to a table and to slices, with few and many descriptors, and compares.
func TestModel(t *testing.T) {
	t.Parallel()
	first := *seed
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	for i, maxOpen := range []int{1, 3, 100} {
		s := first + uint64(i)*(1-min(*seed, 1))
		t.Run(fmt.Sprintf("maxOpen=%d/seed=%d", maxOpen, s), func(t *testing.T) {
			t.Parallel()
			m := &model{t: t, rng: rand.New(rand.NewPCG(s, 1)), want: map[consumequeue.ID][]consumequeue.Entry{}}
			m.o = consumequeue.Options{Dir: t.TempDir(), FileSize: 10 * consumequeue.EntrySize, MaxOpen: maxOpen, Sync: &countingSyncer{}}
			m.table = open(t, m.o)
			for range 60 {
				for range 5 {
					m.step()
				}
				m.compare()
			}
			check(t, m.table.Close())
		})
	}
}

func (m *model) step() {
	switch n := m.rng.IntN(100); {
	case n < 60:
		m.append(m.rng.IntN(40) + 1)
	case n < 75:
		m.do("flush", m.table.Flush())
	case n < 85:
		m.again()
	case n < 93:
		m.do("close", m.table.Close())
		m.table = open(m.t, m.o)
	default:
		m.cut()
	}
}

func (m *model) do(what string, err error) {
	m.log = append(m.log, what)
	if err != nil {
		m.t.Fatalf("%s: %v, after %v", what, err, m.log)
	}
}

func (m *model) id() consumequeue.ID {
	return consumequeue.ID{Topic: []string{"A", "B"}[m.rng.IntN(2)], QueueID: int32(m.rng.IntN(3))}
}

func (m *model) append(count int) {
	id := m.id()
	q := m.table.Get(id)
	for range count {
		e := consumequeue.Entry{Offset: m.at, Size: int32(m.rng.IntN(500) + 1), TagsCode: m.rng.Int64()}
		m.at += message.Offset(e.Size)
		m.do("put", q.Put(message.QueueOffset(len(m.want[id])), e))
		m.want[id] = append(m.want[id], e)
	}
}

// again puts an entry that is there, equal or with another hash.
func (m *model) again() {
	id := m.id()
	if len(m.want[id]) == 0 {
		return
	}
	n := m.rng.IntN(len(m.want[id]))
	if m.rng.IntN(2) == 0 {
		m.want[id][n].TagsCode++
	}
	m.do("put again", m.table.Get(id).Put(message.QueueOffset(n), m.want[id][n]))
}

func (m *model) cut() {
	end := message.Offset(m.rng.Int64N(int64(m.at) + 1))
	if m.rng.IntN(3) > 0 {
		end = m.at - min(m.at, end/20)
	}
	want := 0
	for id, entries := range m.want {
		keep := len(entries)
		for keep > 0 && entries[keep-1].End() > end {
			keep--
		}
		want += len(entries) - keep
		m.want[id] = entries[:keep:keep]
	}
	m.at = end
	dropped, err := m.table.Cut(end)
	m.do(fmt.Sprintf("cut %d", end), err)
	if dropped != want {
		m.t.Fatalf("dropped %d, want %d, after %v", dropped, want, m.log)
	}
}

func (m *model) compare() {
	for id, want := range m.want {
		q := m.table.Get(id)
		got := all(m.t, q)
		if len(got) != len(want) || q.First() != 0 {
			m.t.Fatalf("%v: %d entries from %d, want %d, after %v", id, len(got), q.First(), len(want), m.log)
		}
		var last message.Offset
		for i := range want {
			if got[i] != want[i] {
				m.t.Fatalf("%v: entry %d is %+v, want %+v, after %v", id, i, got[i], want[i], m.log)
			}
			last = want[i].End()
		}
		if q.LastOffset() != last {
			m.t.Fatalf("%v: last offset %d, want %d", id, q.LastOffset(), last)
		}
		if len(want) > 0 {
			n := m.rng.IntN(len(want))
			m.table.SetLogMin(want[n].Offset)
			if q.Min() != message.QueueOffset(n) {
				m.t.Fatalf("%v: min %d, want %d, after %v", id, q.Min(), n, m.log)
			}
			m.table.SetLogMin(0)
		}
	}
}
