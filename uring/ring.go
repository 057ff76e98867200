package uring

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	kernelring "github.com/iceber/iouring-go/syscall"
	"golang.org/x/sys/unix"
)

type (
	sqe = kernelring.SubmissionQueueEntry64
	cqe = kernelring.CompletionQueueEvent16
)

// The kernel's layout; both lines fail to compile if the library's types differ.
var (
	_ [64]byte = [unsafe.Sizeof(sqe{})]byte{}
	_ [16]byte = [unsafe.Sizeof(cqe{})]byte{}
)

// neededFeatures: both queues in one mapping (5.4), and entries that the kernel has copied once enter returns (5.5).
const neededFeatures = kernelring.IORING_FEAT_SINGLE_MMAP | kernelring.IORING_FEAT_SUBMIT_STABLE

// kernel is the one system call of a ring at work; tests put a scripted one in its place.
type kernel interface {
	// enter offers the toSubmit oldest entries of the submission queue and waits for minComplete completions. How much of
	// both was done is read from the queues, never from here: it may return early in every respect.
	enter(toSubmit, minComplete uint32) error
	close() error
}

// ring is the memory shared with the kernel. One thread uses it.
//
// Four counters run freely and are masked on use. The kernel moves sqHead when it has consumed an entry and cqTail when it
// has stored a completion; ring moves sqTail and cqHead. Each side publishes with a store and sees with a load that order
// the entries before them, as sync/atomic does.
type ring struct {
	kernel         kernel
	sqHead, sqTail *uint32
	cqHead, cqTail *uint32
	sqes           []sqe // length is a power of two
	cqes           []cqe // length is a power of two, twice that of sqes
	tail           uint32
}

// completion is a copied cqe.
type completion struct {
	slot uint64
	res  int32
}

// full: no further entry may be pushed before enter.
func (r *ring) full() bool { return r.tail-atomic.LoadUint32(r.sqHead) == uint32(len(r.sqes)) }

// push returns the next entry, cleared, to be filled in before the next enter.
func (r *ring) push() *sqe {
	if r.full() {
		panic("BUG: uring: submission queue is full")
	}
	e := &r.sqes[r.tail&uint32(len(r.sqes)-1)]
	e.Reset()
	r.tail++
	return e
}

// enter offers everything pushed and waits for minComplete completions.
func (r *ring) enter(minComplete int) error {
	atomic.StoreUint32(r.sqTail, r.tail)
	return r.kernel.enter(r.tail-atomic.LoadUint32(r.sqHead), uint32(minComplete))
}

// takeBack takes the entries that the kernel has not consumed out of the queue, the youngest ones, and tells how many they
// were. The kernel looks at the queue only within enter, which publishes the new tail; until then they are ours.
func (r *ring) takeBack() int {
	n := r.tail - atomic.LoadUint32(r.sqHead)
	r.tail -= n
	return int(n)
}

// collect appends the completions that are there and gives their places back to the kernel.
func (r *ring) collect(dst []completion) []completion {
	head, tail := *r.cqHead, atomic.LoadUint32(r.cqTail)
	for ; head != tail; head++ {
		e := &r.cqes[head&uint32(len(r.cqes)-1)]
		dst = append(dst, completion{slot: e.UserData(), res: e.Result()})
	}
	atomic.StoreUint32(r.cqHead, head)
	return dst
}

// prepare fills e in for op.
func prepare(e *sqe, op *Op, slot uint64) {
	switch op.Kind {
	case Fsync:
		e.PrepOperation(kernelring.IORING_OP_FSYNC, int32(op.FD), 0, 0, 0)
		if op.Flags&DataSync != 0 {
			e.SetOpFlags(kernelring.IORING_FSYNC_DATASYNC)
		}
	case Write, WriteFixed:
		code := kernelring.IORING_OP_WRITE
		if op.Kind == WriteFixed {
			code = kernelring.IORING_OP_WRITE_FIXED
			e.SetBufIndex(uint16(op.BufIndex))
		}
		e.PrepOperation(code, int32(op.FD), uint64(address(op.Buf)), uint32(len(op.Buf)), uint64(op.Off))
		if op.Flags&DSync != 0 {
			e.SetOpFlags(unix.RWF_DSYNC)
		}
	}
	if op.Flags&Link != 0 {
		e.SetFlags(kernelring.IOSQE_FLAGS_IO_LINK)
	}
	e.SetUserData(slot)
}

// ringFD is the real kernel.
type ringFD struct {
	fd            int
	queues, table []byte // the two mappings
}

func (k *ringFD) enter(toSubmit, minComplete uint32) error {
	_, err := kernelring.IOURingEnter(k.fd, toSubmit, minComplete, kernelring.IORING_ENTER_FLAGS_GETEVENTS, nil)
	return err
}

// close ends the ring. What is under way in the kernel holds on to what it needs.
func (k *ringFD) close() error {
	var errs []error
	for _, m := range [][]byte{k.queues, k.table} {
		if m != nil {
			errs = append(errs, unix.Munmap(m))
		}
	}
	return errors.Join(append(errs, unix.Close(k.fd))...)
}

// openRing makes a ring of at least the given number of entries. The string says which call failed.
func openRing(entries int) (_ *ring, _ *ringFD, call string, err error) {
	var p kernelring.IOURingParams
	fd, err := kernelring.IOURingSetup(uint(entries), &p)
	if err != nil {
		return nil, nil, "io_uring_setup", err
	}
	k := &ringFD{fd: fd}
	if p.Features&neededFeatures != neededFeatures {
		k.close()
		return nil, nil, "io_uring_setup", fmt.Errorf("kernel features are %#x, needed are %#x", p.Features, neededFeatures)
	}
	size := max(p.SQOffset.Array+p.SQEntries*4, p.CQOffset.Cqes+p.CQEntries*uint32(unsafe.Sizeof(cqe{})))
	if k.queues, err = mapRing(fd, kernelring.IORING_OFF_SQ_RING, int(size)); err == nil {
		k.table, err = mapRing(fd, kernelring.IORING_OFF_SQES, int(p.SQEntries)*int(unsafe.Sizeof(sqe{})))
	}
	if err != nil {
		k.close()
		return nil, nil, "mapping the ring", err
	}
	return layOut(k, &p), k, "", nil
}

func mapRing(fd int, offset uint64, size int) ([]byte, error) {
	return unix.Mmap(fd, int64(offset), size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
}

// layOut finds the counters and entries within the mappings.
func layOut(k *ringFD, p *kernelring.IOURingParams) *ring {
	base := unsafe.Pointer(unsafe.SliceData(k.queues))
	counter := func(offset uint32) *uint32 { return (*uint32)(unsafe.Add(base, offset)) }
	// The queue is one of indices into the table of entries; entry i always stands at index i.
	indices := unsafe.Slice(counter(p.SQOffset.Array), p.SQEntries)
	for i := range indices {
		indices[i] = uint32(i)
	}
	return &ring{
		kernel: k,
		sqHead: counter(p.SQOffset.Head), sqTail: counter(p.SQOffset.Tail),
		cqHead: counter(p.CQOffset.Head), cqTail: counter(p.CQOffset.Tail),
		sqes: unsafe.Slice((*sqe)(unsafe.Pointer(unsafe.SliceData(k.table))), p.SQEntries),
		cqes: unsafe.Slice((*cqe)(unsafe.Add(base, p.CQOffset.Cqes)), p.CQEntries),
		tail: atomic.LoadUint32(counter(p.SQOffset.Tail)),
	}
}
