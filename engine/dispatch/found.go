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
	taken   Taken
	queues  map[*consumequeue.Queue]*foundQueue
}

// Taken decides whether an entry that is there under r's number, and is another than the one made of r, stays. Two records may claim one
// number in a log that a broker wrote after it had lost entries. found: the entry was there before recovery began; else recovery has made
// it of an earlier record.
type Taken func(q *consumequeue.Queue, r *message.Record, there, made consumequeue.Entry, found bool) (stays bool)

// foundQueue is what is known of one queue.
type foundQueue struct {
	first, max message.QueueOffset              // of what was found
	made       map[message.QueueOffset]struct{} // numbers between them that recovery has put something else at

	from    message.QueueOffset // a row of entries within one file
	entries []consumequeue.Entry
}

// found tells whether what stands under a number was there before recovery began.
func (f *foundQueue) found(number message.QueueOffset) bool {
	_, made := f.made[number]
	return number >= f.first && number < f.max && !made
}

// NewFound makes a Found for queue files of so many entries.
func NewFound(perFile int64, taken Taken) *Found {
	return &Found{perFile: message.QueueOffset(perFile), taken: taken, queues: make(map[*consumequeue.Queue]*foundQueue)}
}

// stays tells whether nothing has to be put for r.
func (f *Found) stays(q *consumequeue.Queue, r *message.Record, made consumequeue.Entry) bool {
	known := f.queues[q]
	if known == nil {
		known = &foundQueue{first: q.First(), max: q.Max(), entries: make([]consumequeue.Entry, 0, foundChunk)}
		f.queues[q] = known
	}
	number := r.QueueOffset
	if number < q.First() || number >= q.Max() {
		return false
	}
	there, ok := f.entry(q, known, number)
	if !ok {
		return false
	}
	if *there == made {
		return true
	}
	if f.taken(q, r, *there, made, known.found(number)) {
		return true
	}
	*there = made // it is put by the caller
	if known.made == nil {
		known.made = make(map[message.QueueOffset]struct{})
	}
	known.made[number] = struct{}{}
	return false
}

// entry returns the entry with a number. What is read is written again, by the chunk: it may be in the page cache only, left there by a
// process that was killed, or even by a write-back that failed. False if it cannot be read or written: then it is put anew.
func (f *Found) entry(q *consumequeue.Queue, known *foundQueue, number message.QueueOffset) (there *consumequeue.Entry, ok bool) {
	if i := int(number - known.from); i >= 0 && i < len(known.entries) {
		return &known.entries[i], true
	}
	n := min(foundChunk, f.perFile-number%f.perFile)
	got, err := q.Read(number, known.entries[:n])
	if err == nil && got > 0 {
		err = q.Rewrite(number, known.entries[:got])
	}
	if err != nil || got == 0 {
		known.entries = known.entries[:0]
		return nil, false
	}
	known.from, known.entries = number, known.entries[:got]
	return &known.entries[0], true
}
