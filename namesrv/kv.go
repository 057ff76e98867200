package namesrv

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"

	"ringmq/broker/configfile"
)

const (
	// orderNamespace holds, by topic, which brokers have how many queues of an ordered topic; routes carry it.
	orderNamespace = "ORDER_TOPIC_CONFIG"

	maxKVBytes = 4 << 20 // of all keys and values: the table is for operators, not for data
)

// kvTable is the small table that operators keep in the name server, in a file of the original's form if it has a path.
type kvTable struct {
	file    *configfile.File // nil: in memory only
	changes atomic.Uint64

	mu    sync.RWMutex // guards the two below
	names map[string]map[string]string
	bytes int
}

type kvFile struct {
	ConfigTable map[string]map[string]string `json:"configTable"`
}

func newKVTable(path string, log *slog.Logger) (*kvTable, error) {
	t := &kvTable{names: map[string]map[string]string{}}
	if path == "" {
		return t, nil
	}
	t.file = configfile.New(path, log)
	read, err := configfile.Load[kvFile](t.file)
	if err != nil {
		return nil, fmt.Errorf("namesrv: %w", err)
	}
	for namespace, keys := range read.ConfigTable {
		for key, value := range keys {
			if err := t.put(namespace, key, value); err != nil {
				return nil, fmt.Errorf("namesrv: %s: %w", path, err)
			}
		}
	}
	t.changes.Store(0) // the file has it all
	return t, nil
}

func (t *kvTable) put(namespace, key, value string) error {
	if namespace == "" || key == "" {
		return errors.New("namesrv: ext fields namespace and key are needed")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	old, had := t.names[namespace][key]
	size := t.bytes + len(value) - len(old)
	if !had {
		size += len(namespace) + len(key)
	}
	if size > maxKVBytes {
		return fmt.Errorf("namesrv: key-value table would grow to %d bytes: at most %d are kept", size, maxKVBytes)
	}
	if t.names[namespace] == nil {
		t.names[namespace] = map[string]string{}
	}
	t.names[namespace][key] = value
	t.bytes = size
	t.changes.Add(1)
	return nil
}

func (t *kvTable) delete(namespace, key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	value, had := t.names[namespace][key]
	if !had {
		return
	}
	delete(t.names[namespace], key)
	if len(t.names[namespace]) == 0 {
		delete(t.names, namespace)
	}
	t.bytes -= len(namespace) + len(key) + len(value)
	t.changes.Add(1)
}

func (t *kvTable) get(namespace, key string) (string, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	value, ok := t.names[namespace][key]
	return value, ok
}

// namespace returns a copy of all keys of a namespace, nil when it has none.
func (t *kvTable) namespace(name string) map[string]string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return maps.Clone(t.names[name])
}

// save makes the present state durable. It blocks for the disk.
func (t *kvTable) save() error {
	if t.file == nil {
		return nil
	}
	return t.file.Save(&t.changes, func() any {
		t.mu.RLock()
		defer t.mu.RUnlock()
		copied := kvFile{ConfigTable: make(map[string]map[string]string, len(t.names))}
		for namespace, keys := range t.names {
			copied.ConfigTable[namespace] = maps.Clone(keys)
		}
		return copied
	})
}
