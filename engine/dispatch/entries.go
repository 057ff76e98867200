package dispatch

import (
	"strconv"

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

	// Taken decides, when it is set, whether an entry that is already there under r's number and is another than made stays. It is
	// set while recovering only: two records may claim one number in a log that a broker wrote after it had lost entries.
	Taken func(q *consumequeue.Queue, r *message.Record, there, made consumequeue.Entry) bool
}

// Put puts the entry of r into its queue, which is made if need be. The queue is nil when the record has no place in one: half
// messages that were prepared the old way, and rollbacks. No allocation but for a new queue.
func (x *Entries) Put(r *message.Record) (*consumequeue.Queue, consumequeue.Entry, error) {
	if !message.InQueue(r.SysFlag) {
		return nil, consumequeue.Entry{}, nil
	}
	q := x.Queues.Find(r.Topic, r.QueueID)
	if q == nil {
		q = x.Queues.Get(consumequeue.ID{Topic: string(r.Topic), QueueID: r.QueueID})
	}
	made := consumequeue.Entry{Offset: r.Offset, Size: r.Size, TagsCode: x.tagsCode(r)}
	if x.Taken != nil && r.QueueOffset < q.Max() {
		var there [1]consumequeue.Entry
		if n, err := q.Read(r.QueueOffset, there[:]); err == nil && n == 1 && there[0] != made && x.Taken(q, r, there[0], made) {
			return q, there[0], nil
		}
	}
	return q, made, q.Put(r.QueueOffset, made)
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
