// Package checkpoint keeps the small files that tell recovery where to begin: checkpoint, abort, lock, and ringmq's own
// mark of what is durable. Each is derived or advisory: a lost checkpoint or mark costs recovery time, never a message, so
// one that cannot be believed is reported and then treated as if it were not there. Nothing here guesses from damaged bytes.
//
// The callers are the store's open, its flush services and its close, one at a time per file; nothing is locked here.
package checkpoint

import (
	"errors"
	"fmt"
	"os"

	"ringmq/engine/message"
	"ringmq/internal/durable"
)

// Checkpoint is RocketMQ's checkpoint file. The times are store times of messages in ms since 1970; 0 means unknown.
type Checkpoint struct {
	LogTimeMS     int64          // last message that a thorough flush of the commit log covered
	QueueTimeMS   int64          // last message whose consume queue entry is flushed
	IndexTimeMS   int64          // last message in a full, flushed index file
	MasterFlushed message.Offset // a slave's: how far its master had flushed
	Confirmed     message.Offset // how far replicas agreed; after a recovery, the first byte of the last record
	QueueOffset   message.Offset // consume queue entries of all records before it are flushed
}

// Load reads the checkpoint at path. A file that is absent or has another size than a checkpoint gives zero values, a
// negative value is taken as zero; err says which, and the result may be used in any case.
func Load(path string) (Checkpoint, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Checkpoint{}, fmt.Errorf("checkpoint: read: %w", err)
	}
	c, err := decodeCheckpoint(b)
	if err != nil {
		return c, fmt.Errorf("checkpoint: %s: %w", path, err)
	}
	return c, nil
}

// Save replaces the file at path durably. It refuses negative values, for Load would drop them.
func (c Checkpoint) Save(path string) error {
	for i, v := range c.values() {
		if v < 0 {
			return fmt.Errorf("checkpoint: save %s: %s is %d, must not be negative", path, checkpointFields[i], v)
		}
	}
	return durable.WriteFile(path, appendCheckpoint(make([]byte, 0, checkpointSize), c))
}

// values are the fields in the order of the file.
func (c Checkpoint) values() [checkpointFieldCount]int64 {
	return [...]int64{c.LogTimeMS, c.QueueTimeMS, c.IndexTimeMS, int64(c.MasterFlushed), int64(c.Confirmed), int64(c.QueueOffset)}
}

func checkpointOf(v [checkpointFieldCount]int64) Checkpoint {
	return Checkpoint{
		LogTimeMS:     v[0],
		QueueTimeMS:   v[1],
		IndexTimeMS:   v[2],
		MasterFlushed: message.Offset(v[3]),
		Confirmed:     message.Offset(v[4]),
		QueueOffset:   message.Offset(v[5]),
	}
}

// HasAbort tells whether the abort file is at path: the last run did not end with a complete clean stop.
func HasAbort(path string) (bool, error) {
	_, err := os.Lstat(path)
	if err == nil {
		return true, nil
	}
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return false, fmt.Errorf("checkpoint: abort file: %w", err)
}

// SetAbort makes the abort file durably, holding this process's id in decimal. An old one is replaced, which also makes
// durable one that a killed process had just made.
func SetAbort(path string) error { return durable.WriteFile(path, fmt.Appendf(nil, "%d", os.Getpid())) }

// ClearAbort removes the abort file durably. One that is not there is no error.
func ClearAbort(path string) error { return durable.Remove(path) }
