package uring

import (
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"testing"

	kernelring "github.com/iceber/iouring-go/syscall"
	"golang.org/x/sys/unix"
)

var seedFlag = flag.Uint64("seed", 0, "run TestModel with this seed only")

// modelKernel is a moody kernel that keeps io_uring's rules for chains: it consumes any part of what it is offered, ends a
// chain with the last entry of one call, runs operations in any order, fails some, and comes back early with EINTR, EAGAIN
// or EBUSY. It checks what the owner may not do.
type modelKernel struct {
	t      *testing.T
	rng    *rand.Rand
	ops    map[int32]*Op // by descriptor, which is unique
	before map[int32]int32
	chains [][]rawSQE // consumed, not completed; the first of each is running
	ended  map[int32]int32
}

func (m *modelKernel) plan(k *fakeKernel, toSubmit, _ uint32) error {
	n := int(toSubmit)
	if m.rng.IntN(3) == 0 {
		n = m.rng.IntN(n + 1)
	}
	k.consume(n)
	m.take(k.under)
	k.under = nil
	for len(m.chains) > 0 && m.rng.IntN(4) > 0 {
		m.end(k, m.rng.IntN(len(m.chains)))
	}
	switch m.rng.IntN(6) {
	case 0:
		return unix.EINTR
	case 1:
		return unix.EBUSY
	case 2:
		return unix.EAGAIN
	}
	return nil
}

// take sorts consumed entries into chains and checks that none runs ahead of the one it waits for.
func (m *modelKernel) take(entries []rawSQE) {
	open := false
	for _, e := range entries {
		if _, twice := m.ended[e.fd]; twice {
			m.t.Errorf("operation %d is given to the kernel twice", e.fd)
		}
		if open {
			m.chains[len(m.chains)-1] = append(m.chains[len(m.chains)-1], e)
		} else {
			if fd, waits := m.before[e.fd]; waits && (m.ended[fd] == 0 || m.ended[fd] == failed) {
				m.t.Errorf("operation %d begins though operation %d before it has not succeeded", e.fd, fd)
			}
			m.chains = append(m.chains, []rawSQE{e})
		}
		open = e.flags&kernelring.IOSQE_FLAGS_IO_LINK != 0
	}
}

const (
	succeeded = 1
	failed    = 2
)

// end ends the running operation of a chain, and all others of it should it fail.
func (m *modelKernel) end(k *fakeKernel, i int) {
	e := m.chains[i][0]
	m.chains[i] = m.chains[i][1:]
	res := e.success()
	switch m.rng.IntN(10) {
	case 0:
		res = -int32(unix.EIO)
	case 1:
		if e.len > 0 {
			res = m.rng.Int32N(int32(e.len))
		}
	}
	k.post(e.userData, res)
	m.ended[e.fd] = succeeded
	if res != e.success() {
		m.ended[e.fd] = failed
		for _, rest := range m.chains[i] {
			m.ended[rest.fd] = failed
			k.post(rest.userData, -int32(unix.ECANCELED))
		}
		m.chains[i] = nil
	}
	if len(m.chains[i]) == 0 {
		m.chains = append(m.chains[:i:i], m.chains[i+1:]...)
	}
}

// TestModel runs random batches on random rings and compares every result with what the kernel did.
func TestModel(t *testing.T) {
	t.Parallel()
	if *seedFlag != 0 {
		model(t, *seedFlag)
		return
	}
	for seed := uint64(1); seed <= 1000 && !t.Failed(); seed++ {
		model(t, seed)
	}
}

func model(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	m := &modelKernel{t: t, rng: rng, ops: map[int32]*Op{}, before: map[int32]int32{}, ended: map[int32]int32{}}
	entries := 1 << rng.IntN(4)
	var batches [][]Op
	for range 1 + rng.IntN(4) {
		batches = append(batches, m.batch(entries))
	}
	o, _ := newFake(entries, m.plan)
	if err := drive(t, o, batches...); err != nil {
		t.Errorf("ring: %v", err)
	}
	for fd, op := range m.ops {
		switch got := m.ended[fd]; {
		case op.Err == nil && got != succeeded:
			t.Errorf("operation %d has no error, the kernel's result is %d", fd, got)
		case op.Err != nil && got == succeeded:
			t.Errorf("operation %d has error %v, the kernel's result was success", fd, op.Err)
		case errors.Is(op.Err, ErrCanceled) && m.ops[m.before[fd]].Err == nil:
			t.Errorf("operation %d was canceled, though the one before it succeeded", fd)
		case op.Err != nil && !errors.Is(op.Err, unix.EIO) && !errors.Is(op.Err, io.ErrShortWrite) && !errors.Is(op.Err, ErrCanceled):
			t.Errorf("operation %d: unexpected error %v", fd, op.Err)
		}
	}
	if t.Failed() {
		t.Logf("again with -seed %d", seed)
	}
}

// batch makes up to 20 operations in chains of up to entries.
func (m *modelKernel) batch(entries int) []Op {
	ops := make([]Op, 1+m.rng.IntN(20))
	chain := 1
	for i := range ops {
		fd := int32(len(m.ops) + 1)
		ops[i] = Op{Kind: Fsync, FD: int(fd)}
		if m.rng.IntN(2) == 0 {
			ops[i] = Op{Kind: Write, FD: int(fd), Buf: make([]byte, 1+m.rng.IntN(100))}
		}
		if chain > 1 {
			m.before[fd] = fd - 1
		}
		if i+1 < len(ops) && chain < entries && m.rng.IntN(2) == 0 {
			ops[i].Flags |= Link
			chain++
		} else {
			chain = 1
		}
		m.ops[fd] = &ops[i]
	}
	return ops
}
