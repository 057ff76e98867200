package uring

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	kernelring "github.com/iceber/iouring-go/syscall"
)

// rawSQE and rawCQE are the kernel's view of the entries (struct io_uring_sqe, struct io_uring_cqe).
type rawSQE struct {
	opcode, flags uint8
	_             uint16
	fd            int32
	off, addr     uint64
	len, opFlags  uint32
	userData      uint64
	bufIndex      uint16
	_             uint16
	_             int32
	_             [2]uint64
}

type rawCQE struct {
	userData uint64
	res      int32
	_        uint32
}

// fakeKernel is the other side of a ring, played by a test: it consumes entries and stores completions when plan says so.
type fakeKernel struct {
	r      *ring
	plan   func(k *fakeKernel, toSubmit, minComplete uint32) error
	calls  int
	under  []rawSQE // consumed, not completed
	begun  []rawSQE // everything consumed, in order
	pauses int
}

// counterStart lets the four counters run over soon after the start.
const counterStart = 1<<32 - 3

// newFake returns an owner on a ring of its own whose kernel is played by plan.
func newFake(entries int, plan func(k *fakeKernel, toSubmit, minComplete uint32) error) (*owner, *fakeKernel) {
	counters := [4]uint32{counterStart, counterStart, counterStart, counterStart}
	k := &fakeKernel{plan: plan}
	k.r = &ring{
		kernel: k,
		sqHead: &counters[0], sqTail: &counters[1], cqHead: &counters[2], cqTail: &counters[3],
		sqes: make([]sqe, entries), cqes: make([]cqe, 2*entries), tail: counterStart,
	}
	o := newOwner(k.r)
	o.pause = func(time.Duration) { k.pauses++ }
	return o, k
}

func (k *fakeKernel) enter(toSubmit, minComplete uint32) error {
	if offered := atomic.LoadUint32(k.r.sqTail) - atomic.LoadUint32(k.r.sqHead); offered != toSubmit {
		panic(fmt.Sprintf("enter says %d entries, the queue has %d", toSubmit, offered))
	}
	if minComplete == 0 {
		panic("enter waits for nothing")
	}
	k.calls++
	return k.plan(k, toSubmit, minComplete)
}

func (k *fakeKernel) close() error { return nil }

// consume takes the n oldest entries out of the submission queue.
func (k *fakeKernel) consume(n int) {
	for range n {
		head := atomic.LoadUint32(k.r.sqHead)
		if head == atomic.LoadUint32(k.r.sqTail) {
			panic("nothing to consume")
		}
		e := *(*rawSQE)(unsafe.Pointer(&k.r.sqes[head&uint32(len(k.r.sqes)-1)]))
		k.under = append(k.under, e)
		k.begun = append(k.begun, e)
		atomic.StoreUint32(k.r.sqHead, head+1)
	}
}

// complete ends the i-th of the operations under way with res.
func (k *fakeKernel) complete(i int, res int32) {
	k.post(k.under[i].userData, res)
	k.under = append(k.under[:i:i], k.under[i+1:]...)
}

func (k *fakeKernel) post(userData uint64, res int32) {
	tail := atomic.LoadUint32(k.r.cqTail)
	if tail-atomic.LoadUint32(k.r.cqHead) == uint32(len(k.r.cqes)) {
		panic("completion queue overflows")
	}
	*(*rawCQE)(unsafe.Pointer(&k.r.cqes[tail&uint32(len(k.r.cqes)-1)])) = rawCQE{userData: userData, res: res}
	atomic.StoreUint32(k.r.cqTail, tail+1)
}

// success is the result of an operation done in full.
func (e rawSQE) success() int32 {
	if e.opcode == kernelring.IORING_OP_FSYNC {
		return 0
	}
	return int32(e.len)
}

// completeAll ends everything under way well.
func (k *fakeKernel) completeAll() {
	for len(k.under) > 0 {
		k.complete(0, k.under[0].success())
	}
}

// obey is a kernel that does all it is asked.
func obey(k *fakeKernel, toSubmit, _ uint32) error {
	k.consume(int(toSubmit))
	k.completeAll()
	return nil
}

// drive runs batches to their end as a Queue's goroutine does, and returns the error of the ring.
func drive(t *testing.T, o *owner, batches ...[]Op) error {
	t.Helper()
	var all []*batch
	for _, ops := range batches {
		b := &batch{ops: ops, done: make(chan struct{}, 1)}
		all = append(all, b)
		o.add(b)
	}
	var failed error
	for steps := 0; !o.idle(); steps++ {
		if steps > 100_000 {
			t.Fatal("does not come to an end")
		}
		if failed = o.step(); failed != nil {
			o.abandon()
		}
	}
	for i, b := range all {
		select {
		case <-b.done:
		default:
			t.Errorf("batch %d was not answered", i)
		}
		for j := range b.ops {
			if !b.ops[j].settled {
				t.Errorf("batch %d: operation %d is not settled", i, j)
			}
		}
	}
	if len(o.free) != len(o.slots) {
		t.Errorf("%d of %d slots are free at the end", len(o.free), len(o.slots))
	}
	return failed
}
