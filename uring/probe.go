package uring

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	kernelring "github.com/iceber/iouring-go/syscall"
	"golang.org/x/sys/unix"
)

// probeOp and probeHeader are struct io_uring_probe_op and the head of struct io_uring_probe.
type probeOp struct {
	op    uint8
	_     uint8
	flags uint16
	_     uint32
}

type probeHeader struct {
	lastOp   uint8
	opsCount uint8
	_        uint16
	_        [3]uint32
}

const (
	probeOps         = 256
	probeOpSupported = 1 << 0
)

var neededOps = []struct {
	code uint8
	name string
}{
	{kernelring.IORING_OP_FSYNC, "IORING_OP_FSYNC"},
	{kernelring.IORING_OP_WRITE, "IORING_OP_WRITE"},
	{kernelring.IORING_OP_WRITE_FIXED, "IORING_OP_WRITE_FIXED"},
}

// start makes a ring and has it prove itself: the kernel must know the operations, take the buffers, flush a file when told
// to, and say so when it cannot. Without a ring the string says why. The calling thread becomes the owner's.
func start(options Options) (*owner, string) {
	r, k, call, err := openRing(options.Entries)
	if err != nil {
		return nil, refusal(call, err)
	}
	call, err = "probing operations", probe(k.fd)
	if err == nil {
		call, err = "registering buffers", registerBuffers(k.fd, options.Buffers)
	}
	o := newOwner(r)
	if err == nil {
		call, err = "trial flush", trial(o)
	}
	if err != nil {
		k.close()
		return nil, refusal(call, err)
	}
	return o, ""
}

func probe(fd int) error {
	var answer struct {
		probeHeader
		ops [probeOps]probeOp
	}
	if err := kernelring.IOURingRegister(fd, kernelring.IORING_REGISTER_PROBE, unsafe.Pointer(&answer), probeOps); err != nil {
		return err
	}
	for _, need := range neededOps {
		if answer.ops[need.code].flags&probeOpSupported == 0 {
			return fmt.Errorf("the kernel lacks %s", need.name)
		}
	}
	return nil
}

func registerBuffers(fd int, buffers [][]byte) error {
	if len(buffers) == 0 {
		return nil
	}
	vectors := make([]unix.Iovec, len(buffers))
	for i, b := range buffers {
		vectors[i].Base = unsafe.SliceData(b)
		vectors[i].SetLen(len(b))
	}
	err := kernelring.IOURingRegister(fd, kernelring.IORING_REGISTER_BUFFERS, unsafe.Pointer(&vectors[0]), uint32(len(vectors)))
	runtime.KeepAlive(vectors)
	return err
}

// trial flushes a file in memory and a descriptor that is none. A ring that fails the first or passes the second must not be
// trusted with a store.
func trial(o *owner) error {
	fd, err := unix.MemfdCreate("ringmq-uring-trial", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("memfd_create: %w", err)
	}
	defer unix.Close(fd)
	b := &batch{
		ops:  []Op{{Kind: Fsync, Flags: DataSync, FD: fd}, {Kind: Fsync, Flags: DataSync, FD: -1}},
		done: make(chan struct{}, 1),
	}
	o.add(b)
	for !o.idle() {
		if err := o.step(); err != nil {
			return err
		}
	}
	if err := b.ops[0].Err; err != nil {
		return err
	}
	if err := b.ops[1].Err; !errors.Is(err, unix.EBADF) {
		return fmt.Errorf("flushing no file gave %v, want EBADF", err)
	}
	return nil
}
