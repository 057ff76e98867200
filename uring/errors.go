package uring

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

var (
	// ErrClosed: the Queue was closed before the call.
	ErrClosed = errors.New("uring: queue is closed")

	// ErrInvalid: the batch is wrong in itself; nothing of it was begun.
	ErrInvalid = errors.New("invalid operation")

	// ErrChainTooLong: operations joined by Link must fit into the ring together; nothing of the batch was begun.
	ErrChainTooLong = errors.New("chain is too long")

	// ErrCanceled: never begun, since an earlier operation of its chain failed.
	ErrCanceled = errors.New("not begun, an earlier operation of its chain failed")

	// ErrLost: given to the kernel, but the ring failed before its result could be read. It may have happened, may be
	// happening still, or may never happen. Final: it must not be tried again.
	ErrLost = errors.New("given to the kernel, its result cannot be read")
)

// OpError is the failure of one operation. Err is an errno, io.ErrShortWrite, ErrCanceled or ErrLost.
type OpError struct {
	Kind Kind
	FD   int
	Off  int64 // of a write
	Len  int   // of a write
	N    int   // bytes of it that were written
	Err  error
}

func (e *OpError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "uring: %s, fd %d", e.Kind, e.FD)
	if e.Kind != Fsync {
		fmt.Fprintf(&b, ", %d bytes at %d", e.Len, e.Off)
	}
	if errors.Is(e.Err, io.ErrShortWrite) {
		fmt.Fprintf(&b, ": only %d bytes written", e.N)
		return b.String()
	}
	b.WriteString(": ")
	b.WriteString(describe(e.Err))
	return b.String()
}

// Unwrap gives errors.Is the errno or sentinel.
func (e *OpError) Unwrap() error { return e.Err }

func (op *Op) fail(err error) {
	op.Err = &OpError{Kind: op.Kind, FD: op.FD, Off: op.Off, Len: len(op.Buf), N: op.N, Err: err}
}

// finish takes the result that a completion or a plain call gave: bytes written or zero, or a negative errno.
func (op *Op) finish(res int) {
	op.settled = true
	switch {
	case res < 0:
		op.fail(syscall.Errno(-res))
	case op.Kind == Fsync && res != 0:
		op.fail(fmt.Errorf("result %d where only 0 means flushed", res))
	case op.Kind == Fsync:
	case res > len(op.Buf):
		op.fail(fmt.Errorf("result says %d bytes written", res))
	default:
		op.N = res
		if res < len(op.Buf) {
			op.fail(io.ErrShortWrite)
		}
	}
}

// settle gives the operation an end without a result of the kernel.
func (op *Op) settle(err error) {
	op.settled = true
	op.fail(err)
}

// describe gives an errno its name, for "EIO" is what people search for.
func describe(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		if name := unix.ErrnoName(errno); name != "" {
			return fmt.Sprintf("%s (%s)", name, errno.Error())
		}
	}
	return err.Error()
}

const disabledSysctl = "/proc/sys/kernel/io_uring_disabled"

// refusal says in one line why there is no ring: which call failed with what, and what that means most of the time.
func refusal(call string, err error) string {
	return call + ": " + describe(err) + hint(err)
}

func hint(err error) string {
	switch {
	case errors.Is(err, unix.ENOSYS):
		return ": the kernel has no io_uring, or a filter hides it"
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		if b, readErr := os.ReadFile(disabledSysctl); readErr == nil && strings.TrimSpace(string(b)) != "0" {
			return ": kernel.io_uring_disabled is " + strings.TrimSpace(string(b))
		}
		return ": a seccomp filter, as container runtimes set, or a security module forbids io_uring"
	case errors.Is(err, unix.ENOMEM):
		return ": not enough memory, or the limit of locked memory (ulimit -l) is too low"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return ": the limit of open files (ulimit -n) is reached"
	}
	return ""
}
