// Package uring writes and syncs files through io_uring, and through plain calls where io_uring is refused, behind one type:
// Queue. It knows file descriptors and bytes, nothing of logs or segments.
//
// A Queue has one owner: a goroutine on an OS thread of its own, the only one that touches the ring. Anybody may call Do or
// SyncFds; the call hands a batch of operations to the owner and waits until each of them has its result. The kernel is given
// slot numbers, never pointers, and memory that the collector never moves or frees (see Op.Buf).
//
// What the results promise:
//   - An operation without an error is done: its completion was read, and it said so. Neither the return value of
//     io_uring_enter nor its failure is ever taken for a completion.
//   - An operation that the kernel has not consumed was never begun. When the ring fails it is done by plain calls, and the
//     Queue stays with plain calls from then on.
//   - An operation that the kernel has consumed is never done again. A bad completion is its final result, and one that cannot
//     be read any more is ErrLost. A caller for whom it was a flush must stop promising: after a failed flush the kernel
//     takes the pages for clean, so that a later success proves nothing.
//
// The kernel tells a failed write-back once per open file. Two callers that flush the same descriptor cannot both be told, so
// there must be only one, or they must share the verdict.
package uring

import (
	"fmt"
	"unsafe"
)

// Kind says what an operation does.
type Kind uint8

const (
	Fsync      Kind = iota + 1 // flush the file FD; with DataSync without metadata that reading does not need
	Write                      // write Buf at Off
	WriteFixed                 // the same from registered memory: Buf lies within buffer BufIndex of Options.Buffers
)

// String is the name used in errors.
func (k Kind) String() string {
	switch k {
	case Fsync:
		return "fsync"
	case Write:
		return "write"
	case WriteFixed:
		return "fixed write"
	}
	return fmt.Sprintf("operation %d", uint8(k))
}

// Flags modify an operation.
type Flags uint8

const (
	DataSync Flags = 1 << iota // Fsync: as fdatasync
	DSync                      // Write, WriteFixed: bytes are on the device before it ends (RWF_DSYNC)
	Link                       // the next operation begins only if and when this one has succeeded in full
)

// Op is one operation and, once Do has returned, its result. The operations of a batch run in any order and at the same
// time, but for those joined by Link.
type Op struct {
	Kind  Kind
	Flags Flags
	FD    int
	Off   int64 // Write, WriteFixed

	// Buf is borrowed until Do has returned, and for good after ErrLost: the kernel may still be reading it then. It should be
	// mapped memory (mmap), not memory of the Go heap; for WriteFixed it must be anonymous, as Options.Buffers are.
	Buf      []byte
	BufIndex int // WriteFixed

	N   int   // bytes written
	Err error // nil only if the operation is done in full; an *OpError otherwise

	settled bool // N and Err are final; the owner's until the batch is answered
}

// maxWriteLen is what the kernel writes with one operation at most (MAX_RW_COUNT for 4 KiB pages).
const maxWriteLen = 1<<31 - 4096

// check refuses a batch that cannot be run as it stands, before any of it has begun.
func check(ops []Op, slots int, buffers [][]byte) error {
	chain := 0
	for i := range ops {
		op := &ops[i]
		if err := op.check(buffers); err != nil {
			return fmt.Errorf("uring: operation %d of %d: %w: %w", i, len(ops), ErrInvalid, err)
		}
		chain++
		if op.Flags&Link == 0 {
			chain = 0
			continue
		}
		if i == len(ops)-1 {
			return fmt.Errorf("uring: operation %d of %d: %w: the last one is linked to nothing", i, len(ops), ErrInvalid)
		}
		if chain+1 > slots {
			return fmt.Errorf("uring: operation %d of %d: %w: more than the %d of the ring", i, len(ops), ErrChainTooLong, slots)
		}
	}
	return nil
}

func (op *Op) check(buffers [][]byte) error {
	allowed := Link | DSync
	if op.Kind == Fsync {
		allowed = Link | DataSync
	}
	switch {
	case op.Kind < Fsync || op.Kind > WriteFixed:
		return fmt.Errorf("unknown kind %d", op.Kind)
	case op.Flags&^allowed != 0:
		return fmt.Errorf("flags %#x do not fit a %s, allowed are %#x", op.Flags, op.Kind, allowed)
	case op.Kind == Fsync:
		return nil
	case len(op.Buf) == 0 || len(op.Buf) > maxWriteLen:
		return fmt.Errorf("buffer of %d bytes, must be in 1..%d", len(op.Buf), maxWriteLen)
	case op.Off < 0:
		return fmt.Errorf("offset is %d, must not be negative", op.Off)
	case op.Kind == WriteFixed:
		return checkFixed(op, buffers)
	}
	return nil
}

func checkFixed(op *Op, buffers [][]byte) error {
	if op.BufIndex < 0 || op.BufIndex >= len(buffers) {
		return fmt.Errorf("buffer index is %d, %d buffers are registered", op.BufIndex, len(buffers))
	}
	whole := buffers[op.BufIndex]
	first, start := address(op.Buf), address(whole)
	if first < start || first+uintptr(len(op.Buf)) > start+uintptr(len(whole)) {
		return fmt.Errorf("buffer lies outside of registered buffer %d", op.BufIndex)
	}
	return nil
}

// address is the place of b's first byte. It keeps nothing alive.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// chainLen is the number of operations from the first of ops to the end of its chain.
func chainLen(ops []Op) int {
	n := 1
	for ops[n-1].Flags&Link != 0 {
		n++
	}
	return n
}

// follows tells whether operation i waits for the one before it.
func follows(ops []Op, i int) bool { return i > 0 && ops[i-1].Flags&Link != 0 }

// afterFailure tells whether operation i must not run because the one that it waited for failed.
func afterFailure(ops []Op, i int) bool { return follows(ops, i) && ops[i-1].Err != nil }

// firstError is the error of the first operation that has one.
func firstError(ops []Op) error {
	for i := range ops {
		if ops[i].Err != nil {
			return ops[i].Err
		}
	}
	return nil
}
