// Package offset keeps how far each group of consumers has come in each queue. Commits go to memory; Save makes them durable, so
// that a kill costs repeated messages, never lost ones.
package offset

import (
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ringmq/broker/configfile"
	"ringmq/engine/message"
)

// None is the offset of a group that has never committed one.
const None message.QueueOffset = -1

// Table is all offsets. Methods may be called from any goroutine.
type Table struct {
	log  *slog.Logger
	now  func() int64
	file *configfile.File

	changes atomic.Uint64 // raised after every change of an offset

	mu      sync.RWMutex
	keys    map[string]*queues // by topic@group; entries are only added
	version configfile.DataVersion
	pulled  json.RawMessage // pullOffsetTable, kept as it came
}

// queues are the offsets of one group in one topic.
type queues struct {
	mu      sync.RWMutex // guards the map; the offsets are atomic
	offsets map[int32]*atomic.Int64
}

// fileContent is consumerOffset.json.
type fileContent struct {
	DataVersion configfile.DataVersion     `json:"dataVersion"`
	GroupTopics map[string][]string        `json:"groupTopicMap"`
	Offsets     map[string]map[int32]int64 `json:"offsetTable"`
	Pulled      json.RawMessage            `json:"pullOffsetTable,omitempty"`
}

// Options of a Table.
type Options struct {
	Path   string // config/consumerOffset.json
	Logger *slog.Logger
	Now    func() int64 // ms; nil: the clock
}

// Open loads the offsets. Nothing is written before the first Save.
func Open(o Options) (*Table, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = func() int64 { return time.Now().UnixMilli() }
	}
	t := &Table{log: o.Logger, now: o.Now, file: configfile.New(o.Path, o.Logger), keys: make(map[string]*queues)}
	content, err := configfile.Load[fileContent](t.file)
	if err != nil {
		return nil, err
	}
	for key, byQueue := range content.Offsets {
		q := &queues{offsets: make(map[int32]*atomic.Int64, len(byQueue))}
		for id, offset := range byQueue {
			if id < 0 || offset < 0 {
				t.log.Warn("offset: entry of the offsets file is left out", "file", o.Path, "key", key, "queue", id, "offset", offset)
				continue
			}
			q.offsets[id] = newOffset(offset)
		}
		t.keys[key] = q
	}
	t.version, t.pulled = content.DataVersion, content.Pulled
	return t, nil
}

func newOffset(n int64) *atomic.Int64 {
	a := new(atomic.Int64)
	a.Store(n)
	return a
}

// maxKey is room for the longest topic and group on the stack; a longer key costs an allocation.
const maxKey = 512

// find returns the offsets of one group in one topic, nil if there are none. It allocates nothing.
func (t *Table) find(topic, group []byte) *queues {
	var room [maxKey]byte
	key := append(append(append(room[:0], topic...), '@'), group...)
	t.mu.RLock()
	q := t.keys[string(key)]
	t.mu.RUnlock()
	return q
}

// Commit sets an offset, which the caller has checked against the queue: not negative, not above its maximum. It allocates
// nothing for a queue that has one already.
func (t *Table) Commit(topic, group []byte, queueID int32, at message.QueueOffset) {
	if at < 0 || queueID < 0 {
		panic("BUG: offset: a negative offset or queue is committed")
	}
	q := t.find(topic, group)
	if q == nil {
		q = t.add(string(topic) + "@" + string(group))
	}
	q.mu.RLock()
	a := q.offsets[queueID]
	q.mu.RUnlock()
	if a == nil {
		q.mu.Lock()
		if a = q.offsets[queueID]; a == nil {
			a = newOffset(int64(None)) // so that a first commit of 0 is a change
			q.offsets[queueID] = a
		}
		q.mu.Unlock()
	}
	if a.Swap(int64(at)) != int64(at) {
		t.changes.Add(1)
	}
}

func (t *Table) add(key string) *queues {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.keys[key]
	if q == nil {
		q = &queues{offsets: make(map[int32]*atomic.Int64)}
		t.keys[key] = q
	}
	return q
}

// Query returns an offset, None if there is none.
func (t *Table) Query(topic, group []byte, queueID int32) message.QueueOffset {
	q := t.find(topic, group)
	if q == nil {
		return None
	}
	q.mu.RLock()
	a := q.offsets[queueID]
	q.mu.RUnlock()
	if a == nil {
		return None
	}
	return message.QueueOffset(a.Load())
}

// Topics are those that group has an offset in, sorted.
func (t *Table) Topics(group string) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var topics []string
	for key := range t.keys {
		if topic, g, ok := split(key); ok && g == group {
			topics = append(topics, topic)
		}
	}
	slices.Sort(topics)
	return topics
}

// split takes a key apart. Neither topics nor groups have an @ in them.
func split(key string) (topic, group string, ok bool) { return strings.Cut(key, "@") }

// Save writes the offsets if one has changed since the last Save.
func (t *Table) Save() error { return t.file.Save(&t.changes, t.snapshot) }

func (t *Table) snapshot() any {
	t.mu.Lock()
	t.version = t.version.Next(t.now())
	content := fileContent{DataVersion: t.version, Pulled: t.pulled, GroupTopics: make(map[string][]string)}
	keys := maps.Clone(t.keys)
	t.mu.Unlock()

	content.Offsets = make(map[string]map[int32]int64, len(keys))
	for key, q := range keys {
		content.Offsets[key] = q.snapshot()
		if topic, group, ok := split(key); ok {
			content.GroupTopics[group] = append(content.GroupTopics[group], topic)
		}
	}
	for _, topics := range content.GroupTopics {
		slices.Sort(topics)
	}
	return content
}

func (q *queues) snapshot() map[int32]int64 {
	q.mu.RLock()
	defer q.mu.RUnlock()
	byQueue := make(map[int32]int64, len(q.offsets))
	for id, a := range q.offsets {
		if n := a.Load(); n >= 0 { // one that is just being added has none yet
			byQueue[id] = n
		}
	}
	return byQueue
}
