package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"ringmq/engine"
	"ringmq/engine/consumequeue"
	"ringmq/engine/index"
	"ringmq/engine/message"
)

// recovered compares a store that has just been opened with what was promised, makes the model what it is, and compares that in full.
func (m *machine) recovered() error {
	m.rests()
	p, recovery := m.store.Positions(), m.store.Recovery()
	m.say("open: log [%d, %d), clean %v, cut %d, dropped %d, damaged %d", p.Min, p.End, recovery.Clean, recovery.CutBytes, recovery.Dropped, len(recovery.Damaged))
	if err := m.begins(p.Min); err != nil {
		return err
	}
	if bound := max(m.bound, m.cached); p.End < bound {
		return fmt.Errorf("the log ends at %d, it was promised up to %d", p.End, bound)
	}
	if m.cleanly && (!recovery.Clean || recovery.CutBytes > 0 || recovery.Dropped > 0) {
		return fmt.Errorf("the last stop was clean, recovery is %+v", recovery)
	}
	n, err := m.walk()
	if err != nil {
		return fmt.Errorf("the log: %w", err)
	}
	for _, r := range m.model.records[n:] {
		if r.promised || r.cached {
			return fmt.Errorf("number %d of %v at %d is lost, the log ends at %d", r.number, r.queue, r.at, p.End)
		}
	}
	if lost := len(m.model.records) - n; lost > 0 {
		m.say("%d records are lost, as they may be", lost)
	}
	m.model.cut(n)
	for _, d := range recovery.Damaged {
		if !slices.ContainsFunc(m.model.records, func(r *record) bool { return r.rotten && r.at < d.To && r.end() > d.From }) {
			return fmt.Errorf("what was never touched is called damaged: %+v", d)
		}
	}
	if err := m.zeroBehind(p.End); err != nil {
		return err
	}
	for _, r := range m.model.records {
		r.promised, r.cached = true, false // what was recovered is on the device
	}
	m.bound, m.cached, m.cleanly = p.End, 0, false
	if err := m.beginsAt(p.Min); err != nil {
		return err
	}
	return m.audit(true)
}

// begins: a segment whose removal was under way may be back, or gone.
func (m *machine) begins(min message.Offset) error {
	size := message.Offset(m.store.Options().SegmentSize)
	if min < m.min-size || min > m.min+size || min%size != 0 {
		return fmt.Errorf("the log begins at %d, it began at %d", min, m.min)
	}
	if min < m.min {
		m.say("the segment at %d is back", min)
		m.min = min
	}
	return nil
}

// walk reads the log from its beginning to its end beside the model, and tells how many of the model's records are there.
func (m *machine) walk() (int, error) {
	log, p, size := m.store.Log(), m.store.Positions(), message.Offset(m.store.Options().SegmentSize)
	records := m.model.readable(p.Min)
	before := len(m.model.records) - len(records)
	var got message.Record
	n := 0
	for at := p.Min; at < p.End; {
		if n < len(records) && records[n].rotten && records[n].at == at {
			at = records[n].end()
			n++
			continue
		}
		segmentEnd := at - at%size + size
		if segmentEnd-at < message.BlankLen {
			at = segmentEnd
			continue
		}
		view, ok := log.View(at, int(segmentEnd-at))
		if !ok {
			return 0, fmt.Errorf("there are no bytes at %d", at)
		}
		kind, err := message.Check(view.Bytes, at, &got)
		switch {
		case kind == message.Blank:
			at = segmentEnd
		case kind == message.Whole && n == len(records):
			err = fmt.Errorf("it was never put, or had been cut: number %d of %s/%d", got.QueueOffset, got.Topic, got.QueueID)
		case kind == message.Whole:
			r := records[n]
			err = r.is(&got)
			r.at, r.storeMS = at, got.StoreTime
			at = r.end()
			n++
		case err == nil:
			err = fmt.Errorf("%v", kind)
		}
		view.Release()
		if err != nil {
			return 0, fmt.Errorf("at %d: %w", at, err)
		}
	}
	return before + n, nil
}

// zeroBehind: nothing that was cut is left, in the cache or on the device.
func (m *machine) zeroBehind(end message.Offset) error {
	for _, f := range m.store.Log().Segments().Files() {
		from := max(int64(end)-f.Base(), 0)
		if from >= f.Size() {
			continue
		}
		for _, b := range [][]byte{f.Bytes(), m.disk.Log.Durable(f.Name())} {
			for i, c := range b[from:] {
				if c != 0 {
					return fmt.Errorf("the log ends at %d, but byte %d is not zero", end, f.Base()+from+int64(i))
				}
			}
		}
	}
	return nil
}

// audit compares all queues and keys with the model. started: recovery has just ended.
func (m *machine) audit(started bool) error {
	ids := map[queueKey]bool{}
	m.store.Queues(func(q *consumequeue.Queue) bool {
		ids[queueKey{q.ID.Topic, q.ID.QueueID}] = true
		return true
	})
	for key := range ids {
		if _, known := m.model.next[key]; !known {
			return fmt.Errorf("queue %v was never put to", key)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, topic := range topics {
		for id := range int32(4) {
			if err := m.auditQueue(queueKey{topic, id}, started); err != nil {
				return err
			}
		}
		for _, key := range keyWords {
			if err := m.query(topic, key, index.Key, 0, 1<<50, 1000); err != nil {
				return err
			}
		}
		for tag := range 3 {
			if err := m.query(topic, fmt.Sprint("t", tag), index.Tag, 0, 1<<50, 1+rng.IntN(100)); err != nil {
				return err
			}
		}
	}
	return nil
}

// auditQueue compares one queue: where it begins, where it ends, and all between.
func (m *machine) auditQueue(key queueKey, started bool) error {
	next := m.model.next[key]
	list := inQueue(m.model.readable(m.store.Positions().Min), key)
	q := m.store.Queue([]byte(key.topic), key.id)
	if q == nil {
		if next > 0 && !allRotten(list) {
			return fmt.Errorf("queue %v is gone, it ended at %d", key, next)
		}
		m.model.endQueue(key, list, 0)
		return nil
	}
	if end := q.Max(); end < next && started && allRotten(list[max(len(list)-int(next-end), 0):]) {
		// What rots before it has its entry, and is the last one of its queue, gives its number to the next.
		m.model.endQueue(key, list, end)
		next, list = end, inQueue(m.model.readable(m.store.Positions().Min), key)
	}
	first := next
	for _, r := range list {
		if first = r.number; !r.rotten {
			break
		}
	}
	if got := q.Max(); got != next {
		return fmt.Errorf("queue %v ends at %d, want %d", key, got, next)
	}
	low := first
	if len(list) > 0 {
		low = list[0].number
	}
	if got := q.Min(); got != first && !(got >= low && got <= first) && len(list) > 0 || len(list) == 0 && got != next {
		return fmt.Errorf("queue %v begins with %d, its first readable message is %d", key, got, first)
	}
	for at := q.Min(); at < next; {
		to, err := m.pull(key, at, 32, 1<<20)
		if err != nil {
			return err
		}
		if to <= at {
			return fmt.Errorf("pull of %v from %d does not go on", key, at)
		}
		at = to
	}
	return nil
}

func allRotten(list []*record) bool {
	return !slices.ContainsFunc(list, func(r *record) bool { return !r.rotten })
}

// endQueue: the queue ends at end, what rots behind it has no number any more.
func (m *model) endQueue(key queueKey, list []*record, end message.QueueOffset) {
	for _, r := range list {
		if r.number >= end {
			r.number = -1
		}
	}
	if m.next[key] > end {
		m.next[key] = end
	}
}

// query compares what a key finds with the model.
func (m *machine) query(topic, key string, kind index.Kind, beginMS, endMS int64, atMost int) error {
	if m.options.NoIndex {
		return nil
	}
	what := fmt.Sprintf("query of %s %q kind %d within [%d, %d], at most %d", topic, key, kind, beginMS, endMS, atMost)
	res, err := m.store.Query([]byte(topic), []byte(key), kind, beginMS, endMS, atMost, 1<<30)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer res.Release()
	var want []message.Offset
	rotten := map[message.Offset]bool{}
	positions := m.store.Positions()
	for _, r := range m.model.readable(positions.Min) {
		if r.end() > positions.Readable { // its flush has failed, in this step
			break
		}
		if !r.has(topic, key, kind) || r.storeMS < beginMS || r.storeMS > endMS {
			continue
		}
		if r.rotten {
			rotten[r.at] = true
		} else {
			want = append(want, r.at)
		}
	}
	got := slices.DeleteFunc(slices.Clone(res.Offsets), func(at message.Offset) bool { return rotten[at] })
	if len(rotten) == 0 {
		want = want[max(len(want)-atMost, 0):]
	} else if len(res.Offsets) == atMost { // some of them may have taken the place of others
		want = want[max(len(want)-len(got), 0):]
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("%s: found %v, want %v", what, got, want)
	}
	m.Found += len(got)
	return nil
}

// mustServe checks the statuses at and beyond the ends of a queue.
func (m *machine) mustServe(key queueKey) error {
	var res engine.GetResult
	defer res.Release()
	q := m.store.Queue([]byte(key.topic), key.id)
	if q == nil || q.Max() == 0 {
		return nil
	}
	next := q.Max()
	get := func(from message.QueueOffset, status engine.GetStatus, to message.QueueOffset) error {
		res.Release()
		m.store.Get([]byte(key.topic), key.id, from, 1, 1, nil, &res)
		if res.Status != status || res.Next != to {
			return fmt.Errorf("pull of %v from %d: status %d and next %d, want %d and %d", key, from, res.Status, res.Next, status, to)
		}
		return nil
	}
	if err := get(next, engine.OverflowOne, next); err != nil {
		return err
	}
	if err := get(next+7, engine.OverflowBadly, next); err != nil {
		return err
	}
	if low := q.Min(); low > 0 {
		return get(low-1, engine.TooSmall, low)
	}
	return nil
}
