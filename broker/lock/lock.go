// Package lock lends queues to the members of a group that consumes in order: at most one client of a group holds a queue, and only as
// long as it asks again. The locks are in memory: after a restart clients ask again before they consume on.
package lock

import (
	"sync"
	"time"

	"ringmq/internal/clock"
)

// Life is how long a lock lasts after it was last asked for. Clients ask every 20 s.
const Life = 60 * time.Second

// Queue is one queue of a group's consumers.
type Queue struct {
	Topic   string
	Broker  string
	QueueID int32
}

// held is who has a queue, and until when.
type held struct {
	client  string
	untilMS int64
}

// Table is all locks. Methods may be called from any goroutine.
type Table struct {
	now func() int64

	mu     sync.Mutex
	groups map[string]map[Queue]held
}

// New is an empty table. now counts ms from any moment and never goes back; nil: since New.
func New(now func() int64) *Table {
	if now == nil {
		now = clock.Elapsed()
	}
	return &Table{now: now, groups: make(map[string]map[Queue]held)}
}

// Lock takes those queues for a client that no other holds, anew or again, and returns them.
func (t *Table) Lock(group, client string, queues []Queue) []Queue {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	locks := t.groups[group]
	if locks == nil {
		if len(queues) == 0 {
			return nil
		}
		locks = make(map[Queue]held)
		t.groups[group] = locks
	}
	var got []Queue
	for _, q := range queues {
		if h, ok := locks[q]; ok && h.client != client && now < h.untilMS {
			continue
		}
		locks[q] = held{client, now + Life.Milliseconds()}
		got = append(got, q)
	}
	return got
}

// Unlock gives back those queues that the client holds.
func (t *Table) Unlock(group, client string, queues []Queue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	locks := t.groups[group]
	for _, q := range queues {
		if locks[q].client == client {
			delete(locks, q)
		}
	}
	if len(locks) == 0 {
		delete(t.groups, group)
	}
}

// Expire forgets locks that are over, so that the table does not grow with clients that have gone.
func (t *Table) Expire() {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for group, locks := range t.groups {
		for q, h := range locks {
			if now >= h.untilMS {
				delete(locks, q)
			}
		}
		if len(locks) == 0 {
			delete(t.groups, group)
		}
	}
}
