package sim

import (
	"fmt"
	"slices"
	"strings"

	"ringmq/engine/index"
	"ringmq/engine/message"
)

// queueKey names a queue.
type queueKey struct {
	topic string
	id    int32
}

func (k queueKey) String() string { return fmt.Sprintf("%s/%d", k.topic, k.id) }

// record is one message as the model knows it.
type record struct {
	queue  queueKey
	number message.QueueOffset // -1: it has no entry any more, for it rotted
	body   string
	keys   []string
	unique string
	tag    string
	size   message.Offset

	at       message.Offset // -1: not known yet
	storeMS  int64
	acked    bool // code 0, and not WAIT=false
	seen     bool // by a consumer
	promised bool // whatever happens now
	cached   bool // promised as long as the power does not go
	rotten   bool // its bytes were changed behind the store's back
}

func (r *record) end() message.Offset { return r.at + r.size }

// properties are the record's, as the client sends them.
func (r *record) properties() []byte {
	p := message.AppendProperty(nil, message.PropertyKeys, strings.Join(r.keys, " "))
	p = message.AppendProperty(p, message.PropertyUniqueKey, r.unique)
	return message.AppendProperty(p, message.PropertyTags, r.tag)
}

// has tells whether the record bears a key.
func (r *record) has(topic, key string, kind index.Kind) bool {
	switch {
	case r.queue.topic != topic:
		return false
	case kind == index.Tag:
		return r.tag == key
	case r.unique == key:
		return true
	}
	return kind == index.Key && slices.Contains(r.keys, key)
}

// is tells how a decoded record differs, nil if it does not.
func (r *record) is(got *message.Record) error {
	switch {
	case string(got.Topic) != r.queue.topic || got.QueueID != r.queue.id:
		return fmt.Errorf("it is of queue %s/%d, want %v", got.Topic, got.QueueID, r.queue)
	case got.QueueOffset != r.number && r.number >= 0:
		return fmt.Errorf("it bears number %d, want %d", got.QueueOffset, r.number)
	case string(got.Body) != r.body || string(got.Properties) != string(r.properties()):
		return fmt.Errorf("body %.20q or properties differ, want %.20q", got.Body, r.body)
	case r.at >= 0 && got.Offset != r.at:
		return fmt.Errorf("it stands at %d, want %d", got.Offset, r.at)
	case message.Offset(got.Size) != r.size:
		return fmt.Errorf("it has %d bytes, want %d", got.Size, r.size)
	}
	return nil
}

// model is what the store should hold: the messages in the order of the log.
type model struct {
	records []*record
	next    map[queueKey]message.QueueOffset
}

func newModel() *model { return &model{next: make(map[queueKey]message.QueueOffset)} }

// add puts r behind all others.
func (m *model) add(r *record) {
	r.number, r.at = m.next[r.queue], -1
	m.next[r.queue]++
	m.records = append(m.records, r)
}

// drop takes out a record that was refused. Those that wait behind it get its number.
func (m *model) drop(r *record) {
	i := slices.Index(m.records, r)
	for _, later := range m.records[i+1:] {
		if later.queue == r.queue {
			later.number--
		}
	}
	m.records = slices.Delete(m.records, i, i+1)
	m.next[r.queue]--
}

// cut forgets the records from the n-th on.
func (m *model) cut(n int) {
	for _, r := range slices.Backward(m.records[n:]) {
		if r.number >= 0 {
			m.next[r.queue] = r.number
		}
	}
	m.records = m.records[:n]
}

// forget lets go of records far before min: what lies a segment before it may yet come back.
func (m *model) forget(min message.Offset) {
	n := 0
	for n < len(m.records) && m.records[n].at >= 0 && m.records[n].end() <= min {
		n++
	}
	m.records = m.records[n:]
}

// readable are the records from position min on.
func (m *model) readable(min message.Offset) []*record {
	n := 0
	for n < len(m.records) && m.records[n].at >= 0 && m.records[n].at < min {
		n++
	}
	return m.records[n:]
}

// inQueue are those of a queue among records that have a number there.
func inQueue(records []*record, key queueKey) []*record {
	var list []*record
	for _, r := range records {
		if r.queue == key && r.number >= 0 {
			list = append(list, r)
		}
	}
	return list
}
