package dispatch

import (
	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
)

// foundChunk is how many entries of a queue are read at a time.
const foundChunk = 32

// Found knows the entries that recovery finds in the queues. It reads them by the chunk, as a walk over the log comes by each queue in
// the order of its numbers.
type Found struct {
	perFile message.QueueOffset
	taken   func(q *consumequeue.Queue, r *message.Record, there, made consumequeue.Entry) bool
	chunks  map[*consumequeue.Queue]*chunk
}

// chunk is a row of entries within one file of a queue.
type chunk struct {
	from    message.QueueOffset
	entries []consumequeue.Entry
}

// NewFound makes a Found for queue files of so many entries. taken decides whether an entry that is there under r's number, and is
// another than the one made of r, stays: two records may claim one number in a log that a broker wrote after it had lost entries.
func NewFound(perFile int64, taken func(q *consumequeue.Queue, r *message.Record, there, made consumequeue.Entry) bool) *Found {
	return &Found{perFile: message.QueueOffset(perFile), taken: taken, chunks: make(map[*consumequeue.Queue]*chunk)}
}

// stays tells whether nothing has to be put for r.
func (f *Found) stays(q *consumequeue.Queue, r *message.Record, made consumequeue.Entry) bool {
	if r.QueueOffset < q.First() || r.QueueOffset >= q.Max() {
		return false
	}
	there, ok := f.entry(q, r.QueueOffset)
	if !ok {
		return false
	}
	if *there == made {
		return true
	}
	if f.taken(q, r, *there, made) {
		return true
	}
	*there = made // it is put by the caller
	return false
}

// entry returns the entry with a number. What is read is written again, by the chunk: it may be in the page cache only, left there by a
// process that was killed, or even by a write-back that failed. False if it cannot be read or written: then it is put anew.
func (f *Found) entry(q *consumequeue.Queue, number message.QueueOffset) (there *consumequeue.Entry, ok bool) {
	c := f.chunks[q]
	if c == nil {
		c = &chunk{entries: make([]consumequeue.Entry, 0, foundChunk)}
		f.chunks[q] = c
	}
	if i := int(number - c.from); i >= 0 && i < len(c.entries) {
		return &c.entries[i], true
	}
	n := min(foundChunk, f.perFile-number%f.perFile)
	got, err := q.Read(number, c.entries[:n])
	if err == nil && got > 0 {
		err = q.Rewrite(number, c.entries[:got])
	}
	if err != nil || got == 0 {
		c.entries = c.entries[:0]
		return nil, false
	}
	c.from, c.entries = number, c.entries[:got]
	return &c.entries[0], true
}
