package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"ringmq/engine"
	"ringmq/engine/message"
)

// request is one put.
type request struct {
	engine.PutRequest
	number  int
	answers *answers
	records []*record
	result  engine.PutResult
}

func (r *request) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "put %d to %v:", r.number, r.records[0].queue)
	for _, rec := range r.records {
		fmt.Fprintf(&text, " %d", rec.size)
	}
	if r.NoWait {
		text.WriteString(" WAIT=false")
	}
	return text.String()
}

// answers gathers what was answered, on whatever goroutine.
type answers struct {
	mu   sync.Mutex
	list []*request
}

// PutDone is called by the store.
func (r *request) PutDone(_ *engine.PutRequest, result *engine.PutResult) {
	r.answers.mu.Lock()
	defer r.answers.mu.Unlock()
	r.result = *result
	r.result.Offsets = slices.Clone(result.Offsets)
	r.answers.list = append(r.answers.list, r)
}

// take returns what was answered since the last time, in the order of the puts.
func (a *answers) take() []*request {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.list
	a.list = nil
	slices.SortFunc(list, func(x, y *request) int { return x.number - y.number })
	return list
}

func (a *answers) forget() { a.take() }

var (
	topics    = []string{"A", "B"}
	keyWords  = []string{"k0", "k1", "k2", "k3"}
	bodySizes = []int{30, 150, 150, 150, 700, 700, 1500, 4000}
)

// someQueue prefers the first ones.
func someQueue(rng *rand.Rand) queueKey {
	return queueKey{topics[rng.IntN(len(topics))], int32(min(rng.IntN(4), rng.IntN(4)))}
}

func (m *machine) newRecord(rng *rand.Rand, key queueKey, item int) *record {
	r := &record{queue: key, tag: fmt.Sprint("t", rng.IntN(3)), unique: fmt.Sprintf("u%d.%d", m.clients, item)}
	r.body = fmt.Sprintf("%d.%d %s", m.clients, item, strings.Repeat("x", bodySizes[rng.IntN(len(bodySizes))]))
	if rng.IntN(3) > 0 {
		r.keys = append(r.keys, keyWords[rng.IntN(len(keyWords))])
	}
	return r
}

// put puts one message or a few as a batch, and does not wait for the answer.
func (m *machine) put(rng *rand.Rand) {
	m.clients++
	p := &request{number: m.clients, answers: &m.answers}
	p.Done = p
	p.NoWait = rng.IntN(10) == 0
	key := someQueue(rng)
	count := 1
	if rng.IntN(4) == 0 {
		count = 2 + rng.IntN(2)
	}
	var list []message.Message
	room := m.store.Log().MaxAppend()
	for item := range count {
		r := m.newRecord(rng, key, item)
		text := message.Message{
			Topic: key.topic, QueueID: key.id, Body: []byte(r.body), Properties: r.properties(), BornTime: 1,
			BornHost: netip.MustParseAddrPort("127.0.0.1:5000"), StoreHost: netip.MustParseAddrPort("127.0.0.1:10911"),
		}
		encoded, err := message.AppendRecord(nil, &text)
		if err != nil {
			panic(fmt.Sprintf("BUG: sim: %v", err))
		}
		if room -= len(encoded); room < 0 {
			break // more than one send may have
		}
		r.size = message.Offset(len(encoded))
		list = append(list, text)
		p.records = append(p.records, r)
		m.model.add(r)
	}
	p.Message = list[0]
	if len(list) > 1 {
		p.Batch = list
	}
	m.Puts += len(list)
	m.waiting = append(m.waiting, p)
	m.say("%v", p)
	m.store.Put(&p.PutRequest)
}

// takeAnswers takes in what was answered.
func (m *machine) takeAnswers() error {
	for _, p := range m.answers.take() {
		i := slices.Index(m.waiting, p)
		if i < 0 {
			return fmt.Errorf("%v is answered twice, now with status %d, %v", p, p.result.Status, p.result.Err)
		}
		m.waiting = slices.Delete(m.waiting, i, i+1)
		if err := m.answered(p); err != nil {
			return fmt.Errorf("%v: %w", p, err)
		}
	}
	return nil
}

func (m *machine) answered(p *request) error {
	m.say("put %d: status %d at %d, number %d", p.number, p.result.Status, p.result.Offset, p.result.QueueOffset)
	latched := m.store.Latched() != nil
	switch p.result.Status {
	case engine.PutOK:
		m.Acked += len(p.records)
		return m.stored(p, !p.NoWait)
	case engine.FlushTimeout:
		if !latched && !m.slow {
			return fmt.Errorf("it timed out though the disk is not slow: %w", p.result.Err)
		}
		return m.stored(p, false)
	case engine.Unavailable, engine.Busy:
		overdue := m.held != nil && errors.Is(p.result.Err, engine.ErrOverdue) // something hangs, so there is no room
		if !latched && !m.noSpace && !m.full && !overdue {
			return fmt.Errorf("it is refused though nothing is wrong: %w", p.result.Err)
		}
		for _, r := range slices.Backward(p.records) {
			m.model.drop(r)
		}
		return nil
	}
	return fmt.Errorf("status %d: %w", p.result.Status, p.result.Err)
}

// stored compares where the records are said to be with the model.
func (m *machine) stored(p *request, acked bool) error {
	at := p.result.Offset
	for i, r := range p.records {
		if p.Batch != nil && at != p.result.Offsets[i] {
			return fmt.Errorf("item %d is said to stand at %d, want %d", i, p.result.Offsets[i], at)
		}
		if want := p.result.QueueOffset + message.QueueOffset(i); r.number != want {
			return fmt.Errorf("item %d got number %d, want %d", i, want, r.number)
		}
		r.at, r.storeMS, r.acked = at, p.result.StoreTimeMS, acked
		at += r.size
	}
	return nil
}

// pull gets a queue from number from on, as a consumer does, and compares it with the model.
func (m *machine) pull(key queueKey, from message.QueueOffset, atOnce, maxBytes int) (next message.QueueOffset, err error) {
	var res engine.GetResult
	m.store.Get([]byte(key.topic), key.id, from, atOnce, maxBytes, nil, &res)
	defer res.Release()
	list := inQueue(m.model.readable(m.store.Positions().Min), key)
	at := from
	for _, view := range res.Views {
		for rest := view.Bytes; len(rest) > 0; {
			size := min(max(message.Size(rest), 1), len(rest))
			r, err := m.served(list, at, rest[:size])
			if err != nil {
				return 0, fmt.Errorf("pull of %v from %d: %w", key, from, err)
			}
			at, rest = r.number+1, rest[size:]
		}
	}
	if res.Count > 0 && at > res.Next || res.Next > m.model.next[key] {
		return 0, fmt.Errorf("pull of %v from %d: next is %d behind %d records up to %d, the queue ends at %d", key, from, res.Next, res.Count, at, m.model.next[key])
	}
	if !m.held.struck() {
		if err := skipped(list, at, res.Next); err != nil && res.Status == engine.Found {
			return 0, fmt.Errorf("pull of %v from %d: %w", key, from, err)
		}
	}
	m.Pulled += res.Count
	return res.Next, nil
}

// served compares one message with the one that is due at number at or behind it, and notes that a consumer has it.
func (m *machine) served(list []*record, at message.QueueOffset, b []byte) (*record, error) {
	if len(b) < numberAt+8 {
		return nil, fmt.Errorf("%d bytes are served", len(b))
	}
	number := message.QueueOffset(binary.BigEndian.Uint64(b[numberAt:])) // never rots
	i := slices.IndexFunc(list, func(r *record) bool { return r.number == number })
	if i < 0 || number < at {
		return nil, fmt.Errorf("number %d is served where %d is due", number, at)
	}
	r := list[i]
	if !r.rotten { // else it may be served as it is
		var got message.Record
		err := message.Decode(b, &got)
		if err == nil {
			err = r.is(&got)
		}
		if err != nil {
			return nil, fmt.Errorf("number %d: %w", number, err)
		}
		r.seen = true
	}
	return r, skipped(list, at, number)
}

// numberAt is where a record has its queue offset.
const numberAt = 20

// skipped says that a record in [from, to) was left out.
func skipped(list []*record, from, to message.QueueOffset) error {
	for _, r := range list {
		if r.number >= from && r.number < to && !r.rotten {
			return fmt.Errorf("number %d is left out", r.number)
		}
	}
	return nil
}
