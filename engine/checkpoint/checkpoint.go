// Package checkpoint keeps the small files that tell recovery where to begin: checkpoint, abort, lock, and ringmq's own mark.
package checkpoint

import "ringmq/engine/message"

// Checkpoint is the file of RocketMQ: 4096 bytes, longs at 0, 8, 16, 24, 32, 40.
type Checkpoint struct {
	LogTimeMS, QueueTimeMS, IndexTimeMS   int64
	MasterFlushed, Confirmed, QueueOffset message.Offset
}

func Load(path string) (Checkpoint, error)  { panic("unbuilt") } // a short, absent or senseless file is zero and said in err
func (c Checkpoint) Save(path string) error { panic("unbuilt") } // written and fsynced

// Mark is ringmq's own: what is known durable. It is replaced atomically (temp, fsync, rename, fsync of the directory), with an xxhash.
type Mark struct {
	Flushed         message.Offset // the device has the log up to here
	Dispatched      message.Offset // the device has all queue entries of records before it; at most Flushed
	Last            message.Offset // offset of the last record before Flushed, -1 if none: identity of the log
	LastStoreTimeMS int64
	Clean           bool
	Queues          []QueueMark // as of Dispatched
}

type QueueMark struct {
	Topic    string
	QueueID  int32
	Min, Max message.QueueOffset // Min: first entry of the first file
}

func LoadMark(path string) (m Mark, ok bool, err error) { panic("unbuilt") }
func (m *Mark) Save(path string) error                  { panic("unbuilt") }

// Lock holds the file lock with F_OFD_SETLK on byte 0; a held one is an error that names the folder and, if told, the process.
type Lock struct{}

func Acquire(path string) (*Lock, error) { panic("unbuilt") }
func (l *Lock) Release() error           { panic("unbuilt") }

// SetAbort makes the abort file (process id in decimal) durably; HasAbort tells whether it was there; ClearAbort removes it durably.
func HasAbort(path string) (bool, error) { panic("unbuilt") }
func SetAbort(path string) error         { panic("unbuilt") }
func ClearAbort(path string) error       { panic("unbuilt") }
