package uring

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// syncs are n flushes of descriptors that do not exist: done by plain calls they give EBADF, so that it shows who did them.
func syncs(n int) []Op {
	ops := make([]Op, n)
	for i := range ops {
		ops[i] = Op{Kind: Fsync, Flags: DataSync, FD: -2 - i}
	}
	return ops
}

func wantErrs(t *testing.T, ops []Op, want ...error) {
	t.Helper()
	for i := range ops {
		if got := ops[i].Err; !errors.Is(got, want[i]) || got != nil && want[i] == nil {
			t.Errorf("operation %d: got error %v, want %v", i, got, want[i])
		}
	}
}

func nils(n int) []error { return make([]error, n) }

func TestPrepare(t *testing.T) {
	t.Parallel()
	buf := make([]byte, 4096)
	o, k := newFake(8, obey)
	ops := []Op{
		{Kind: Fsync, FD: 3},
		{Kind: Fsync, Flags: DataSync | Link, FD: 4},
		{Kind: Write, Flags: DSync, FD: 5, Buf: buf, Off: 1 << 40},
		{Kind: WriteFixed, Flags: Link, FD: 6, Buf: buf[:100], BufIndex: 7},
		{Kind: Fsync, FD: 6},
	}
	if err := drive(t, o, ops); err != nil {
		t.Fatal(err)
	}
	at := uint64(address(buf))
	want := []rawSQE{
		{opcode: 3, fd: 3},
		{opcode: 3, fd: 4, flags: 4, opFlags: 1},
		{opcode: 23, fd: 5, off: 1 << 40, addr: at, len: 4096, opFlags: 2},
		{opcode: 5, fd: 6, flags: 4, addr: at, len: 100, bufIndex: 7},
		{opcode: 3, fd: 6},
	}
	for i, got := range k.begun {
		want[i].userData = uint64(i)
		if got != want[i] {
			t.Errorf("operation %d: entry\n got %+v\nwant %+v", i, got, want[i])
		}
	}
	wantErrs(t, ops, nils(5)...)
	if ops[2].N != 4096 || ops[3].N != 100 {
		t.Errorf("written: got %d and %d, want 4096 and 100", ops[2].N, ops[3].N)
	}
}

// TestEnterReturnsEarly: enter may come back without having consumed or completed what it was asked for.
func TestEnterReturnsEarly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		plan func(k *fakeKernel, toSubmit, minComplete uint32) error
	}{
		{"nothing at all, twice", func(k *fakeKernel, n, _ uint32) error {
			if k.calls > 2 {
				return obey(k, n, 0)
			}
			return nil
		}},
		{"consumed, completed one by one", func(k *fakeKernel, n, _ uint32) error {
			k.consume(int(n))
			if k.calls > 3 {
				k.complete(len(k.under)-1, 0)
			}
			return nil
		}},
		{"consumes one at a time", func(k *fakeKernel, _, _ uint32) error {
			if len(k.begun) < 5 {
				k.consume(1)
				return nil
			}
			k.completeAll()
			return nil
		}},
		{"storm of EINTR before anything is consumed", func(k *fakeKernel, n, _ uint32) error {
			if k.calls > 1000 {
				return obey(k, n, 0)
			}
			return unix.EINTR
		}},
		{"storm of EINTR while waiting", func(k *fakeKernel, n, _ uint32) error {
			k.consume(int(n))
			if k.calls > 1000 {
				k.completeAll()
			}
			return os.NewSyscallError("iouring_enter", unix.EINTR)
		}},
		{"EINTR, yet all done", func(k *fakeKernel, n, _ uint32) error {
			obey(k, n, 0)
			return unix.EINTR
		}},
	} {
		o, k := newFake(8, c.plan)
		ops := syncs(5)
		if err := drive(t, o, ops); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		wantErrs(t, ops, nils(5)...)
		if len(k.begun) != 5 || k.pauses != 0 {
			t.Errorf("%s: kernel began %d operations, want 5; %d pauses, want 0", c.name, len(k.begun), k.pauses)
		}
	}
}

// TestRefusals: EAGAIN and EBUSY are waited out, by waiting for completions when there are any to come.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, errno := range []syscall.Errno{unix.EAGAIN, unix.EBUSY} {
		o, k := newFake(8, func(k *fakeKernel, n, _ uint32) error {
			if k.calls <= refusalsMax {
				return errno
			}
			return obey(k, n, 0)
		})
		ops := syncs(3)
		if err := drive(t, o, ops); err != nil {
			t.Errorf("%v: %v", errno, err)
		}
		wantErrs(t, ops, nils(3)...)
		if k.pauses != refusalsMax {
			t.Errorf("%v: %d pauses, want %d", errno, k.pauses, refusalsMax)
		}

		o, k = newFake(8, func(k *fakeKernel, n, _ uint32) error {
			switch k.calls {
			case 1:
				k.consume(2)
				return errno
			case 2:
				if n != 0 {
					t.Errorf("%v with operations under way: %d more were offered, want 0", errno, n)
				}
				k.completeAll()
				return nil
			}
			return obey(k, n, 0)
		})
		ops = syncs(3)
		if err := drive(t, o, ops); err != nil {
			t.Errorf("%v: %v", errno, err)
		}
		wantErrs(t, ops, nils(3)...)
		if k.pauses != 0 || k.calls != 3 {
			t.Errorf("%v: %d pauses and %d calls, want 0 and 3", errno, k.pauses, k.calls)
		}

		o, k = newFake(8, func(*fakeKernel, uint32, uint32) error { return errno })
		ops = syncs(3)
		if err := drive(t, o, ops); !errors.Is(err, errno) {
			t.Errorf("%v for ever: got error %v", errno, err)
		}
		wantErrs(t, ops, unix.EBADF, unix.EBADF, unix.EBADF) // never begun: done by plain calls
		if len(k.begun) != 0 {
			t.Errorf("%v for ever: kernel began %d operations", errno, len(k.begun))
		}
	}
}

// TestRefusalsAreCountedInARow: a kernel that is short of memory again and again, yet moves on, is not given up.
func TestRefusalsAreCountedInARow(t *testing.T) {
	t.Parallel()
	o, k := newFake(1, func(k *fakeKernel, n, _ uint32) error {
		if k.calls%refusalsMax != 0 {
			return unix.EAGAIN
		}
		return obey(k, n, 0)
	})
	ops := syncs(5)
	if err := drive(t, o, ops); err != nil {
		t.Error(err)
	}
	wantErrs(t, ops, nils(5)...)
	if want := 5 * (refusalsMax - 1); k.pauses != want {
		t.Errorf("%d pauses, want %d", k.pauses, want)
	}
}

// TestBadCompletions gives the first of three chained operations each kind of bad result.
func TestBadCompletions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		res  int32
		want error
		text string
	}{
		{"EIO", -int32(unix.EIO), unix.EIO, "uring: write, fd 9, 100 bytes at 4096: EIO (input/output error)"},
		{"ENOSPC", -int32(unix.ENOSPC), unix.ENOSPC, "ENOSPC (no space left on device)"},
		{"EINTR", -int32(unix.EINTR), unix.EINTR, "EINTR (interrupted system call)"},
		{"EAGAIN", -int32(unix.EAGAIN), unix.EAGAIN, "EAGAIN"},
		{"canceled with no chain before it", -int32(unix.ECANCELED), unix.ECANCELED, "ECANCELED"},
		{"short", 99, io.ErrShortWrite, "uring: write, fd 9, 100 bytes at 4096: only 99 bytes written"},
		{"nothing", 0, io.ErrShortWrite, "only 0 bytes written"},
		{"too long", 101, nil, "result says 101 bytes written"},
	} {
		o, _ := newFake(4, func(k *fakeKernel, n, _ uint32) error {
			k.consume(int(n))
			k.complete(0, c.res)
			for len(k.under) > 0 {
				k.complete(0, -int32(unix.ECANCELED))
			}
			return nil
		})
		ops := []Op{
			{Kind: Write, Flags: Link, FD: 9, Buf: make([]byte, 100), Off: 4096},
			{Kind: Fsync, Flags: Link, FD: 9},
			{Kind: Fsync, FD: 10},
		}
		if err := drive(t, o, ops); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := firstError(ops); err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: got error %v, want %v with %q", c.name, err, c.want, c.text)
		}
		wantErrs(t, ops[1:], ErrCanceled, ErrCanceled)
		if want := max(0, int(c.res)); c.want != nil && ops[0].N != want {
			t.Errorf("%s: N is %d, want %d", c.name, ops[0].N, want)
		}
	}

	o, _ := newFake(4, func(k *fakeKernel, n, _ uint32) error {
		k.consume(int(n))
		k.complete(0, 1)
		return nil
	})
	ops := syncs(1)
	drive(t, o, ops)
	if ops[0].Err == nil {
		t.Error("a flush with result 1 counts as flushed")
	}
}

// TestSplitChain: a kernel that consumes only the first part of a chain would run the second part at once.
func TestSplitChain(t *testing.T) {
	t.Parallel()
	chain := func() []Op {
		return []Op{
			{Kind: Write, Flags: Link, FD: -2, Buf: make([]byte, 8)},
			{Kind: Write, Flags: Link, FD: -3, Buf: make([]byte, 8)},
			{Kind: Fsync, FD: -4},
			{Kind: Fsync, FD: -5},
		}
	}
	for _, c := range []struct {
		name  string
		res   int32
		want  []error
		begun int
	}{
		{"first part succeeds", 8, nils(4), 4},
		{"first part is short", 7, []error{io.ErrShortWrite, ErrCanceled, ErrCanceled, nil}, 2},
		{"first part fails", -int32(unix.EIO), []error{unix.EIO, ErrCanceled, ErrCanceled, nil}, 2},
	} {
		o, k := newFake(4, func(k *fakeKernel, n, _ uint32) error {
			switch k.calls {
			case 1:
				k.consume(1)
			case 2, 3:
				if n != 0 {
					t.Errorf("%s: %d entries offered while the first part is under way", c.name, n)
				}
				if k.calls == 3 {
					k.complete(0, c.res)
				}
			default:
				obey(k, n, 0)
			}
			return nil
		})
		ops := chain()
		if err := drive(t, o, ops); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		wantErrs(t, ops, c.want...)
		if len(k.begun) != c.begun {
			t.Errorf("%s: kernel began %d operations, want %d", c.name, len(k.begun), c.begun)
		}
	}
}

// TestEnterFails: what the kernel consumed is lost or keeps its result; what it did not is done by plain calls (EBADF here).
func TestEnterFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		plan  func(k *fakeKernel, toSubmit, minComplete uint32) error
		drain func(k *fakeKernel) // at each pause afterwards
		want  []error
	}{
		{"before anything is consumed",
			func(*fakeKernel, uint32, uint32) error { return unix.EPERM }, nil,
			[]error{unix.EBADF, unix.EBADF, unix.EBADF, unix.EBADF, unix.EBADF}},
		{"all that fits consumed, nothing completed",
			func(k *fakeKernel, n, _ uint32) error { k.consume(int(n)); return unix.EBADR }, nil,
			[]error{ErrLost, ErrLost, ErrLost, ErrLost, unix.EBADF}},
		{"one consumed",
			func(k *fakeKernel, _, _ uint32) error { k.consume(1); return unix.EPERM }, nil,
			[]error{ErrLost, unix.EBADF, unix.EBADF, unix.EBADF, unix.EBADF}},
		{"two consumed, one of them completed",
			func(k *fakeKernel, _, _ uint32) error {
				k.consume(2)
				k.complete(1, 0)
				return unix.EPERM
			}, nil,
			[]error{ErrLost, nil, unix.EBADF, unix.EBADF, unix.EBADF}},
		{"completions arrive while it is given up",
			func(k *fakeKernel, n, _ uint32) error { k.consume(int(n)); return unix.EPERM },
			func(k *fakeKernel) {
				if k.pauses == 100 {
					k.complete(3, -int32(unix.EIO))
					k.complete(0, 0)
				}
			},
			[]error{nil, ErrLost, ErrLost, unix.EIO, unix.EBADF}},
		{"on the second call",
			func(k *fakeKernel, n, _ uint32) error {
				if k.calls == 2 {
					return unix.EFAULT
				}
				return obey(k, n, 0)
			}, nil,
			[]error{nil, nil, nil, nil, unix.EBADF}},
	} {
		o, k := newFake(4, c.plan)
		o.pause = func(time.Duration) {
			k.pauses++
			if c.drain != nil {
				c.drain(k)
			}
		}
		ops := syncs(5)
		if err := drive(t, o, ops); err == nil {
			t.Errorf("%s: the ring is still believed in", c.name)
		}
		wantErrs(t, ops, c.want...)
		if t.Failed() {
			t.Fatal(c.name)
		}
	}
}

// TestEnterFailsWithinChain: after a lost operation the rest of its chain is not begun, by nobody; other batches are done.
func TestEnterFailsWithinChain(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd := int(f.Fd())
	o, _ := newFake(4, func(k *fakeKernel, _, _ uint32) error {
		k.consume(1)
		return unix.EPERM
	})
	lost := []Op{
		{Kind: Write, Flags: Link, FD: fd, Buf: []byte("lost")},
		{Kind: Write, Flags: Link, FD: fd, Buf: []byte("not begun")},
		{Kind: Fsync, FD: fd},
	}
	plain := []Op{
		{Kind: Write, Flags: Link, FD: fd, Buf: []byte("plain"), Off: 10},
		{Kind: Fsync, FD: fd},
	}
	if err := drive(t, o, lost, plain); err == nil {
		t.Error("the ring is still believed in")
	}
	wantErrs(t, lost, ErrLost, ErrCanceled, ErrCanceled)
	wantErrs(t, plain, nil, nil)
	if got, err := os.ReadFile(f.Name()); err != nil || string(got) != "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00plain" {
		t.Errorf("file holds %q, %v", got, err)
	}
}

// TestWanted: one enter for a batch that fits, and a small batch is not held up by a large one.
func TestWanted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		entries int
		batches []int
		want    []uint32 // completions waited for at each call
	}{
		{8, []int{8}, []uint32{8}},
		{8, []int{5, 2}, []uint32{2, 5}},
		{4, []int{6}, []uint32{1, 2}},
		{1, []int{1, 1}, []uint32{1, 1}},
	} {
		var got []uint32
		o, _ := newFake(c.entries, func(k *fakeKernel, n, want uint32) error {
			got = append(got, want)
			k.consume(int(n))
			if len(c.batches) == 2 && k.calls == 1 && c.entries > 1 { // only the second batch is done
				k.complete(6, 0)
				k.complete(5, 0)
				return nil
			}
			k.completeAll()
			return nil
		})
		var batches [][]Op
		for _, n := range c.batches {
			batches = append(batches, syncs(n))
		}
		if err := drive(t, o, batches...); err != nil {
			t.Error(err)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("ring of %d, batches of %v: waited for %v, want %v", c.entries, c.batches, got, c.want)
		}
	}
}

func TestCompletionOfNothingPanics(t *testing.T) {
	t.Parallel()
	for _, userData := range []uint64{1, 4, 1<<64 - 1} {
		o, _ := newFake(4, func(k *fakeKernel, n, _ uint32) error {
			k.consume(int(n))
			k.post(userData, 0)
			return nil
		})
		o.add(&batch{ops: syncs(1), done: make(chan struct{}, 1)})
		func() {
			defer func() {
				if s, _ := recover().(string); !strings.HasPrefix(s, "BUG: ") {
					t.Errorf("user data %d: got panic %q, want one that begins with BUG:", userData, s)
				}
			}()
			o.step()
		}()
	}
}
