package uring

import (
	"log/slog"
	"runtime"
	"sync"
)

// Modes of a Queue.
const (
	ModeRing  = "ring"
	ModePlain = "plain"
)

const (
	entriesDefault = 128
	entriesMax     = 4096
)

// Options of a Queue.
type Options struct {
	// Entries is how many operations may be under way at once, 128 when 0. It is rounded up to a power of two of at most
	// 4096. A batch may be larger, a chain may not.
	Entries int

	// Buffers are registered for WriteFixed. They must be anonymous mappings (the kernel refuses file mappings) and stay
	// mapped until Close has returned. They count towards the limit of locked memory.
	Buffers [][]byte

	// Off goes without a ring from the start.
	Off bool

	// Log gets one line should the ring fail while at work. What happened at the start is told by Mode and Reason.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Entries <= 0 {
		o.Entries = entriesDefault
	}
	n := 1
	for n < min(o.Entries, entriesMax) {
		n *= 2
	}
	o.Entries = n
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Queue runs batches of operations. All methods may be called by any number of goroutines.
//
// Batches of one Queue share its ring: one that comes while the owner waits in the kernel is begun when the next operation
// completes. Streams that must not wait for each other take a Queue each. With plain calls each batch runs in its caller's
// goroutine.
type Queue struct {
	options Options
	wake    chan struct{} // one place: the owner has something to look at
	ended   chan struct{} // closed when the owner's goroutine is done
	users   sync.WaitGroup

	mu      sync.Mutex // guards what follows; held for a few instructions, never over a call
	pending batchList  // handed in, not yet taken by the owner
	unused  *batch     // answered batches, kept for the next calls
	plain   bool
	reason  string // why plain
	closing bool   // no new calls
	stop    bool   // no calls at all any more: the owner may end
}

// Open never fails: where io_uring is refused the Queue works with plain calls, and Reason says why.
func Open(options Options) *Queue {
	q := &Queue{
		options: options.withDefaults(),
		wake:    make(chan struct{}, 1),
		ended:   make(chan struct{}),
	}
	if q.options.Off {
		q.plain, q.reason = true, "switched off"
		close(q.ended)
		return q
	}
	opened := make(chan struct{})
	go q.own(opened)
	<-opened
	return q
}

// Mode is ModeRing or ModePlain. A Queue may go from ring to plain, never back.
func (q *Queue) Mode() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.plain {
		return ModePlain
	}
	return ModeRing
}

// Reason says in one line why the mode is ModePlain; it is empty in ModeRing.
func (q *Queue) Reason() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.reason
}

// Do runs ops and returns when each has its result in N and Err. The error is that of the first operation that has one; nil
// means that all are done in full. A batch that is refused as a whole (ErrClosed, ErrInvalid, ErrChainTooLong) has not
// begun, and its operations are as they were.
func (q *Queue) Do(ops []Op) error {
	if err := check(ops, q.options.Entries, q.options.Buffers); err != nil {
		return err
	}
	b, err := q.begin()
	if err != nil {
		return err
	}
	if len(ops) > 0 {
		b.ops = ops
		q.run(b)
	}
	q.end(b)
	return firstError(ops)
}

// Close waits for the calls under way, which get their results, and gives the ring back. Later calls get ErrClosed.
func (q *Queue) Close() error {
	q.mu.Lock()
	q.closing = true
	q.mu.Unlock()
	q.users.Wait() // the owner serves them until the last one has left

	q.mu.Lock()
	q.stop = true
	q.mu.Unlock()
	q.wakeOwner()
	<-q.ended
	return nil
}

// begin counts a call in and gives it a batch.
func (q *Queue) begin() (*batch, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closing {
		return nil, ErrClosed
	}
	q.users.Add(1)
	b := q.unused
	if b == nil {
		return &batch{done: make(chan struct{}, 1)}, nil
	}
	q.unused, b.link = b.link, nil
	return b, nil
}

// end takes the batch back and counts the call out.
func (q *Queue) end(b *batch) {
	b.ops = nil
	q.mu.Lock()
	b.link, q.unused = q.unused, b
	q.mu.Unlock()
	q.users.Done()
}

// run returns when all operations of b are settled.
func (q *Queue) run(b *batch) {
	for i := range b.ops {
		op := &b.ops[i]
		op.N, op.Err, op.settled = 0, nil, false
	}
	q.mu.Lock()
	plain := q.plain
	if !plain {
		q.pending.push(b)
	}
	q.mu.Unlock()
	if plain {
		for i := range b.ops {
			runPlain(b.ops, i)
		}
		return
	}
	q.wakeOwner()
	<-b.done
}

func (q *Queue) wakeOwner() {
	select {
	case q.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// own is the owner's goroutine. Its thread is its own and ends with it: the kernel's workers belong to the thread that
// submits, and a goroutine that changes threads waits behind every busy one.
func (q *Queue) own(opened chan<- struct{}) {
	runtime.LockOSThread()
	defer close(q.ended)
	o, reason := start(q.options)
	if o == nil {
		q.goPlain(nil, reason)
		close(opened)
		return
	}
	defer o.ring.kernel.close()
	close(opened)
	for {
		stop := q.take(o)
		if o.idle() {
			if stop {
				return
			}
			<-q.wake
			continue
		}
		if err := o.step(); err != nil {
			reason := refusal("io_uring_enter", err)
			q.options.Log.Warn("io_uring has failed, going on with plain calls", "reason", reason)
			q.goPlain(o, reason)
			o.abandon()
			return
		}
	}
}

// take moves what was handed in to the owner and tells whether the owner may end.
func (q *Queue) take(o *owner) (stop bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.pending.first != nil {
		o.add(q.pending.pop())
	}
	return q.stop
}

// goPlain turns later calls to plain calls; those already handed in go to the owner, which has to bring them to their end.
func (q *Queue) goPlain(o *owner, reason string) {
	q.mu.Lock()
	q.plain, q.reason = true, reason
	q.mu.Unlock()
	if o != nil {
		q.take(o)
	}
}
