package flush

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ringmq/engine/commitlog"
	"ringmq/engine/message"
	"ringmq/engine/segment/memstore"
)

// rig is a log in memory with a service on it, as the engine puts them together.
type rig struct {
	t       *testing.T
	storage *memstore.Storage
	log     *commitlog.Log
	service *Service
	options Options

	mu       sync.Mutex
	settings Settings
	marks    []message.Offset
	failures []error

	released, advanced atomic.Int64
	next               message.QueueOffset
	record             []byte
}

// never is an interval that no test reaches.
const never = int64(1) << 40

const rigSegment = 16 << 10

func nowMS() int64 { return time.Now().UnixMilli() }

// newRig starts everything; change may alter the options before. With synctest the clock is the bubble's.
func newRig(t *testing.T, sync bool, change func(r *rig)) *rig {
	t.Helper()
	r := &rig{t: t, storage: memstore.New()}
	r.settings = Settings{FlushIntervalMS: 500, FlushLeastPages: 4, FlushThoroughIntervalMS: 10000, FlushTimed: true}
	r.options = Options{
		Syncer: Plain{}, Sync: sync, Now: nowMS,
		Settings: func() Settings { r.mu.Lock(); defer r.mu.Unlock(); return r.settings },
		Released: func() { r.released.Add(1) },
		Advanced: func() { r.advanced.Add(1) },
		Thorough: func(flushed message.Offset) { r.mu.Lock(); defer r.mu.Unlock(); r.marks = append(r.marks, flushed) },
		Failed:   func(err error) { r.mu.Lock(); defer r.mu.Unlock(); r.failures = append(r.failures, err) },
	}
	log, err := commitlog.Open(commitlog.Options{
		Storage: r.storage, SegmentSize: rigSegment, PoolSize: 64 << 10, Now: nowMS, RoomWanted: func() { r.service.Hurry() },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.log, r.options.Log = log, log
	if change != nil {
		change(r)
	}
	if err := log.Start(0); err != nil {
		t.Fatal(err)
	}
	r.service = New(r.options)
	r.service.Start()
	r.record, err = message.AppendRecord(nil, &message.Message{Topic: "T", Body: make([]byte, 900)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) set(change func(s *Settings)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.settings)
}

// end closes everything and checks what Close says.
func (r *rig) end(want bool) {
	r.t.Helper()
	if err := r.service.Close(); (err == nil) != want {
		r.t.Errorf("close: %v", err)
	}
	if err := r.log.Close(); err != nil {
		r.t.Error(err)
	}
}

// told are the positions for the mark and the failures so far.
func (r *rig) told() ([]message.Offset, []error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.marks), slices.Clone(r.failures)
}

// placed joins a queue under the put lock.
type placed struct {
	*waiter
	queue *Queue
}

func (p placed) Placed(a commitlog.Appended) {
	p.End = a.End
	p.queue.Add(&p.Wait)
}

// put appends one record whose wait joins queue.
func (r *rig) put(queue *Queue, deadlineMS int64) *waiter {
	r.t.Helper()
	w := waitFor(0, deadlineMS, nil)
	for {
		_, err := r.log.Append(r.record, &r.next, placed{w, queue})
		if err == nil {
			break
		}
		if !errors.Is(err, commitlog.ErrBusy) || r.log.Room(len(r.record)) != nil {
			r.t.Fatal(err)
		}
	}
	r.service.Wake()
	return w
}

// answered checks that each was answered once, with want.
func answered(t *testing.T, what string, want error, waits ...*waiter) {
	t.Helper()
	for i, w := range waits {
		if w.times.Load() != 1 || w.got() != want {
			t.Errorf("%s: wait %d answered %d times, %v, want once %v", what, i, w.times.Load(), w.got(), want)
		}
	}
}

func waiting(t *testing.T, what string, waits ...*waiter) {
	t.Helper()
	for i, w := range waits {
		if w.times.Load() != 0 {
			t.Errorf("%s: wait %d is answered already, %v", what, i, w.got())
		}
	}
}

// in runs f in a bubble with its own time.
func in(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}
