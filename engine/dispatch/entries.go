package dispatch

import (
	"errors"
	"log/slog"
	"strconv"
	"syscall"

	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
)

// scheduleTopic holds delayed messages: its entries carry the time of delivery where others carry the hash of the tags.
const scheduleTopic = "SCHEDULE_TOPIC_XXXX"

// Entries makes queue entries of records. Recovery and the dispatcher use the same one, so a queue that was rebuilt equals the
// queue that was lost. One goroutine at a time.
type Entries struct {
	Queues *consumequeue.Table
	Delays Delays
	Logger *slog.Logger

	// Found is set while recovering only, when most entries are there already.
	Found *Found
}

// Put puts the entry of r into its queue, which is made if need be. The queue is nil when the record has no place in one: half
// messages that were prepared the old way, rollbacks, and records whose fields no queue can be made of. An error is one of the disk and
// may pass. No allocation but for a new queue.
func (x *Entries) Put(r *message.Record) (*consumequeue.Queue, consumequeue.Entry, error) {
	if !message.InQueue(r.SysFlag) {
		return nil, consumequeue.Entry{}, nil
	}
	q := x.Queues.Find(r.Topic, r.QueueID)
	if q == nil {
		q = x.Queues.Get(consumequeue.ID{Topic: string(r.Topic), QueueID: r.QueueID})
	}
	made := consumequeue.Entry{Offset: r.Offset, Size: r.Size, TagsCode: x.tagsCode(r)}
	if x.Found != nil && x.Found.stays(q, r, made) {
		return q, made, nil
	}
	if err := q.Put(r.QueueOffset, made); err != nil {
		return x.failed(q, r, made, err)
	}
	return q, made, nil
}

// failed passes on an error of the disk, after which the same Put can be tried again. Any other will stay: no checksum covers the fields
// that an entry's place comes from. The record is left in the log then, without an entry.
func (x *Entries) failed(
	q *consumequeue.Queue, r *message.Record, made consumequeue.Entry, err error,
) (*consumequeue.Queue, consumequeue.Entry, error) {
	var errno syscall.Errno
	if errors.As(err, &errno) || errors.Is(err, consumequeue.ErrClosed) {
		return q, made, err
	}
	x.Logger.Error("a record gets no entry in its queue", "topic", q.ID.Topic, "queue", q.ID.QueueID, "number", r.QueueOffset,
		"offset", r.Offset, "error", err)
	return nil, made, nil
}

func (x *Entries) tagsCode(r *message.Record) int64 {
	if string(r.Topic) == scheduleTopic {
		if text, ok := message.Property(r.Properties, message.PropertyDelay); ok {
			if level, err := strconv.Atoi(string(text)); err == nil && level > 0 {
				return r.StoreTime + x.Delays.Of(level)
			}
		}
	}
	tags, _ := message.Property(r.Properties, message.PropertyTags)
	return message.TagsCode(tags)
}
