package checkpoint

import (
	"errors"
	"fmt"
	"os"

	"ringmq/engine/message"
	"ringmq/internal/durable"
)

// Mark is ringmq's own: what is known durable. Below Flushed a record that is not whole is damage; at or above it, the torn
// tail. It may stand below the truth, never above: it is saved only after the flush it speaks of has returned.
type Mark struct {
	Flushed         message.Offset // the device has the log up to here
	Dispatched      message.Offset // the device has all queue entries of records before it; at most Flushed
	Last            message.Offset // offset of the last record before Flushed, -1 if none: identity of the log
	LastStoreTimeMS int64          // of that record, 0 if none
	Limit           message.Offset // nothing was, or will be before a later mark, written at or behind it; 0: not known
	Clean           bool           // a complete clean stop wrote it
	Queues          []QueueMark    // as of Dispatched
}

// QueueMark is one consume queue as of a Mark's Dispatched.
type QueueMark struct {
	Topic    string
	QueueID  int32
	Min, Max message.QueueOffset // Min: first entry of the first file
}

// LoadMark reads the mark at path. Without one, ok is false and err nil; with one that is damaged, of another version or
// contradicts itself, ok is false and err says so.
func LoadMark(path string) (m Mark, ok bool, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return Mark{}, false, nil
	}
	if err != nil {
		return Mark{}, false, fmt.Errorf("checkpoint: read mark: %w", err)
	}
	m, err = decodeMark(b)
	if err != nil {
		return Mark{}, false, fmt.Errorf("checkpoint: mark %s: %w; ignored", path, err)
	}
	return m, true, nil
}

// Boundary is from where on a record that is not whole is the torn end of the log; below, it is damage. lastUsed is the first byte of the last
// segment in use. Behind a clean mark there is nothing of ours: what is there a Java broker wrote, and also when java says that one has had
// the store since, its last segment is where the log may be torn. Without a mark it is lastUsed.
func (m *Mark) Boundary(lastUsed message.Offset, java bool) message.Offset {
	if m.Clean || java {
		return max(m.Flushed, lastUsed)
	}
	return m.Flushed
}

// Save replaces the mark at path in one step and durably. A mark that contradicts itself is a mistake of the caller.
func (m *Mark) Save(path string) error {
	if err := m.check(); err != nil {
		panic("BUG: checkpoint: mark to be saved: " + err.Error())
	}
	return durable.WriteFile(path, appendMark(make([]byte, 0, m.encodedLen()), m))
}
