package api

import (
	"sync"

	"ringmq/net/remoting"
)

// unsaved are sends whose message is stored, but whose topic, which they or others have just made, is not on the disk yet. Their answers
// wait for it: a topic that a producer was told of has all its queues after a power cut.
type unsaved struct {
	mu    sync.Mutex
	sends []*send
}

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
	u.sends = append(u.sends, s)
	return true
}

// TopicsSaved tells that the table of topics was saved, or could not be: the sends that wait for it are answered. Whoever makes a
// topic has it saved soon, so one that was made after the table was written waits for the next time.
func (a *API) TopicsSaved(err error) {
	u := &a.unsaved
	u.mu.Lock()
	var ready []*send
	kept := u.sends[:0]
	for _, s := range u.sends {
		switch {
		case a.opts.Topics.Durable(s.topic):
		case err != nil:
			s.answer.Code = remoting.FlushDiskTimeout // stored, but without the promise
			s.answer.Remark = "the message is stored, but its new topic could not be saved: " + err.Error()
		default:
			kept = append(kept, s)
			continue
		}
		ready = append(ready, s)
	}
	clear(u.sends[len(kept):])
	u.sends = kept
	u.mu.Unlock()
	for _, s := range ready {
		s.finish(false)
	}
}
