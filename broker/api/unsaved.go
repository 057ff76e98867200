package api

import (
	"fmt"
	"sync"

	"ringmq/net/remoting"
)

// unsaved are sends whose message is stored, but whose topic, which they or others have just made, is not on the disk yet. Their answers
// wait for it: a topic that a producer was told of has all its queues after a power cut.
type unsaved struct {
	mu    sync.Mutex
	sends []*send
	bytes int // of their buffers
}

// What may wait for the disk, in sends and in bytes of their buffers. One beyond it is answered at once, without the promise.
const (
	unsavedSends = 10_000
	unsavedBytes = 64 << 20
)

// hold keeps an answered send until TopicsSaved, unless its topic is durable.
func (a *API) hold(s *send) bool {
	if a.opts.Topics.Durable(s.topic) {
		return false
	}
	u := &a.unsaved
	u.mu.Lock()
	defer u.mu.Unlock()
	// Saved meanwhile? Then TopicsSaved may have been here before.
	if a.opts.Topics.Durable(s.topic) {
		return false
	}
	size := s.put.Held()
	if len(u.sends) >= unsavedSends || u.bytes+size > unsavedBytes {
		s.answer.Code = remoting.FlushDiskTimeout
		s.answer.Remark = fmt.Sprintf("the message is stored, but its new topic is not saved yet, and %d sends wait for that already", len(u.sends))
		return false
	}
	u.sends = append(u.sends, s)
	u.bytes += size
	return true
}

// TopicsSaved tells that the table of topics was saved, or could not be: the sends that wait for it are answered. Whoever makes a
// topic has it saved soon, so one that was made after the table was written waits for the next time.
func (a *API) TopicsSaved(err error) {
	u := &a.unsaved
	u.mu.Lock()
	var ready []*send
	kept, bytes := u.sends[:0], 0
	for _, s := range u.sends {
		switch {
		case a.opts.Topics.Durable(s.topic):
		case err != nil:
			s.answer.Code = remoting.FlushDiskTimeout // stored, but without the promise
			s.answer.Remark = "the message is stored, but its new topic could not be saved: " + err.Error()
		default:
			kept, bytes = append(kept, s), bytes+s.put.Held()
			continue
		}
		ready = append(ready, s)
	}
	clear(u.sends[len(kept):])
	u.sends, u.bytes = kept, bytes
	u.mu.Unlock()
	for _, s := range ready {
		s.finish(false)
	}
}
