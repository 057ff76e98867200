package uring

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// memory is an anonymous mapping, which may be registered.
func memory(t testing.TB, size int) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(b) })
	return b
}

func create(t testing.TB) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// memoryFile is a file without a device: as many operations on it as a test likes take no time.
func memoryFile(t testing.TB) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate(t.Name(), unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "memory")
	t.Cleanup(func() { f.Close() })
	return f
}

func descriptors(t testing.TB, n int) []int {
	fds := make([]int, n)
	for i := range fds {
		fds[i] = int(create(t).Fd())
	}
	return fds
}

// inBothModes runs a test on a ring, if this machine gives one, and with plain calls.
func inBothModes(t *testing.T, options Options, test func(t *testing.T, q *Queue)) {
	for _, mode := range []string{ModeRing, ModePlain} {
		t.Run(mode, func(t *testing.T) {
			options := options
			options.Off = mode == ModePlain
			q := Open(options)
			defer q.Close()
			if q.Mode() != mode {
				t.Skipf("no ring here: %s", q.Reason())
			}
			test(t, q)
			if q.Mode() != mode || (q.Reason() == "") != (mode == ModeRing) {
				t.Errorf("mode is %s at the end, reason %q", q.Mode(), q.Reason())
			}
		})
	}
}

func TestDo(t *testing.T) {
	t.Parallel()
	buf := memory(t, 1<<16)
	for i := range buf {
		buf[i] = byte(i >> 8)
	}
	inBothModes(t, Options{Entries: 4, Buffers: [][]byte{buf}}, func(t *testing.T, q *Queue) {
		f := create(t)
		fd := int(f.Fd())
		ops := []Op{
			{Kind: Write, Flags: Link, FD: fd, Buf: buf[:4096]},
			{Kind: WriteFixed, Flags: Link | DSync, FD: fd, Buf: buf[4096 : 4096+100], Off: 4096},
			{Kind: Fsync, Flags: DataSync, FD: fd},
			{Kind: Write, Flags: DSync, FD: fd, Buf: buf[8192:], Off: 8192},
			{Kind: Fsync, FD: fd},
			{Kind: WriteFixed, FD: fd, Buf: buf[len(buf)-1:], Off: 1 << 20},
		}
		for range 3 { // results of an earlier call are overwritten
			if err := q.Do(ops); err != nil {
				t.Fatal(err)
			}
			for i := range ops {
				if ops[i].Err != nil || ops[i].N != len(ops[i].Buf) {
					t.Errorf("operation %d: got N %d, error %v, want %d", i, ops[i].N, ops[i].Err, len(ops[i].Buf))
				}
			}
		}
		want := make([]byte, 1<<20+1)
		copy(want, buf[:4096+100])
		copy(want[8192:], buf[8192:])
		want[1<<20] = buf[len(buf)-1]
		if got, err := os.ReadFile(f.Name()); err != nil || !bytes.Equal(got, want) {
			t.Errorf("file differs from what was written (%d bytes, %v)", len(got), err)
		}
		if err := q.Do(nil); err != nil {
			t.Errorf("no operations: %v", err)
		}
	})
}

func TestDoFails(t *testing.T) {
	t.Parallel()
	buf := memory(t, 4096)
	inBothModes(t, Options{}, func(t *testing.T, q *Queue) {
		fd := int(create(t).Fd())
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer full.Close()
		ops := []Op{
			{Kind: Fsync, FD: -1},
			{Kind: Fsync, FD: fd},
			{Kind: Write, Flags: Link, FD: int(full.Fd()), Buf: buf},
			{Kind: Fsync, FD: fd},
			{Kind: Write, Flags: Link, FD: fd, Buf: buf},
			{Kind: Write, Flags: Link, FD: 1 << 30, Buf: buf, Off: 4096},
			{Kind: Fsync, FD: fd},
		}
		err = q.Do(ops)
		wantErrs(t, ops, unix.EBADF, nil, unix.ENOSPC, ErrCanceled, nil, unix.EBADF, ErrCanceled)
		if want := "uring: fsync, fd -1: EBADF (bad file descriptor)"; err != ops[0].Err || err.Error() != want {
			t.Errorf("got error %v, want the first operation's, %s", err, want)
		}
		var opErr *OpError
		if !errors.As(ops[5].Err, &opErr) || opErr.FD != 1<<30 || opErr.Off != 4096 || opErr.Len != 4096 || opErr.Kind != Write {
			t.Errorf("got error %+v, want one that tells the operation", ops[5].Err)
		}
	})
}

func TestDoRefuses(t *testing.T) {
	t.Parallel()
	registered := memory(t, 8192)
	other := memory(t, 4096)
	sync, link := Op{Kind: Fsync}, Op{Kind: Fsync, Flags: Link}
	inBothModes(t, Options{Entries: 3, Buffers: [][]byte{registered}}, func(t *testing.T, q *Queue) { // 3 is made 4
		for _, c := range []struct {
			ops  []Op
			want error
			text string
		}{
			{[]Op{sync, {}}, ErrInvalid, "operation 1 of 2: invalid operation: unknown kind 0"},
			{[]Op{{Kind: WriteFixed + 1}}, ErrInvalid, "unknown kind 4"},
			{[]Op{{Kind: Fsync, Flags: DSync}}, ErrInvalid, "do not fit a fsync"},
			{[]Op{{Kind: Write, Flags: DataSync, Buf: other}}, ErrInvalid, "do not fit a write"},
			{[]Op{{Kind: Write}}, ErrInvalid, "buffer of 0 bytes"},
			{[]Op{{Kind: Write, Buf: other, Off: -1}}, ErrInvalid, "offset is -1"},
			{[]Op{{Kind: WriteFixed, Buf: registered, BufIndex: 1}}, ErrInvalid, "buffer index is 1, 1 buffers"},
			{[]Op{{Kind: WriteFixed, Buf: registered, BufIndex: -1}}, ErrInvalid, "buffer index is -1"},
			{[]Op{{Kind: WriteFixed, Buf: other}}, ErrInvalid, "outside of registered buffer 0"},
			{[]Op{link}, ErrInvalid, "linked to nothing"},
			{[]Op{link, link, link, link, sync}, ErrChainTooLong, "more than the 4 of the ring"},
		} {
			if err := q.Do(c.ops); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got error %v, want %v with %q", err, c.want, c.text)
			}
		}
		fd := int(create(t).Fd())
		ops := []Op{link, link, link, sync}
		for i := range ops {
			ops[i].FD = fd
		}
		if err := q.Do(ops); err != nil {
			t.Errorf("a chain as long as the ring: %v", err)
		}
	})
}

// TestRingOfOne has many callers share a ring with room for one operation; each gets its own result.
func TestRingOfOne(t *testing.T) {
	t.Parallel()
	const callers, rounds = 64, 5
	buf := memory(t, callers)
	for i := range buf {
		buf[i] = byte(i)
	}
	inBothModes(t, Options{Entries: 1}, func(t *testing.T, q *Queue) {
		f := memoryFile(t)
		fd := int(f.Fd())
		var group sync.WaitGroup
		for i := range callers {
			group.Go(func() {
				ops := []Op{{Kind: Write, FD: fd, Buf: buf[i : i+1], Off: int64(i)}, {Kind: Fsync, Flags: DataSync, FD: -2 - i}}
				for range rounds {
					err := q.Do(ops)
					var opErr *OpError
					if !errors.As(err, &opErr) || opErr.FD != -2-i || ops[0].Err != nil {
						t.Errorf("caller %d got the result %v of somebody else", i, err)
					}
				}
				if err := q.SyncFds([]int{fd, fd}); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		got := make([]byte, callers+1)
		if n, _ := f.ReadAt(got, 0); !bytes.Equal(got[:n], buf) {
			t.Errorf("file holds %x, want %x", got[:n], buf)
		}
	})
}

// TestSignals floods all threads with signals, so that enter is interrupted again and again.
func TestSignals(t *testing.T) {
	q := Open(Options{Entries: 8})
	defer q.Close()
	fds := append(descriptors(t, 2), int(memoryFile(t).Fd()), int(memoryFile(t).Fd()))
	var stop atomic.Bool
	var group sync.WaitGroup
	group.Go(func() {
		for !stop.Load() {
			threads, err := os.ReadDir("/proc/self/task")
			if err != nil {
				t.Error(err)
				return
			}
			for _, thread := range threads {
				var tid int
				fmt.Sscan(thread.Name(), &tid)
				unix.Tgkill(os.Getpid(), tid, unix.SIGURG)
			}
		}
	})
	for i := range 20 {
		for _, fd := range fds {
			if _, err := unix.Pwrite(fd, []byte{byte(i)}, int64(i)*4096); err != nil {
				t.Error(err)
			}
		}
		if err := q.SyncFds(fds); err != nil {
			t.Error(err)
		}
	}
	stop.Store(true)
	group.Wait()
}

func TestSyncFds(t *testing.T) {
	t.Parallel()
	inBothModes(t, Options{Entries: 16}, func(t *testing.T, q *Queue) {
		for _, n := range []int{0, 1, 2, 15, 16, 17, 66} {
			fds := descriptors(t, n)
			if err := q.SyncFds(fds); err != nil {
				t.Errorf("%d files: %v", n, err)
			}
			if n == 0 {
				continue
			}
			fds[n-1] = -1
			if err := q.SyncFds(fds); !errors.Is(err, unix.EBADF) {
				t.Errorf("%d files, the last one bad: got error %v, want %v", n, err, unix.EBADF)
			}
		}
	})
}

// TestClose closes while operations are under way: each caller gets its results or ErrClosed, and nobody waits for ever.
func TestClose(t *testing.T) {
	t.Parallel()
	fds := append(descriptors(t, 1), int(memoryFile(t).Fd()), int(memoryFile(t).Fd()))
	for round := range 20 {
		q := Open(Options{Entries: 2, Off: round%2 == 1})
		underWay := make(chan struct{}, 1000)
		var callers, closers sync.WaitGroup
		for range 32 {
			callers.Go(func() {
				err := q.SyncFds(fds)
				for ; err == nil; err = q.SyncFds(fds) {
					select {
					case underWay <- struct{}{}:
					default:
					}
				}
				if !errors.Is(err, ErrClosed) {
					t.Errorf("got error %v, want none or %v", err, ErrClosed)
				}
			})
		}
		<-underWay
		for range 2 {
			closers.Go(func() {
				if err := q.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		closers.Wait()
		callers.Wait()
		if err := q.Do([]Op{{Kind: Fsync, FD: fds[0]}}); !errors.Is(err, ErrClosed) {
			t.Errorf("Do after Close: got error %v, want %v", err, ErrClosed)
		}
	}
}

// TestCloseEndsOwner looks for goroutines of queues among all stacks. It does not run beside other tests.
func TestCloseEndsOwner(t *testing.T) {
	for range 10 {
		q := Open(Options{Entries: 1})
		if err := q.SyncFds(descriptors(t, 3)); err != nil {
			t.Error(err)
		}
		q.Close()
	}
	for range 1000 { // the last deferred call comes before the goroutine's very end
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		if !bytes.Contains(stacks, []byte("(*Queue).own")) {
			return
		}
		runtime.Gosched()
	}
	t.Error("an owner's goroutine is still there")
}

func TestNoAllocation(t *testing.T) {
	buf := memory(t, 4096)
	inBothModes(t, Options{Buffers: [][]byte{buf}}, func(t *testing.T, q *Queue) {
		fds := descriptors(t, 4)
		ops := []Op{
			{Kind: WriteFixed, Flags: DSync, FD: fds[0], Buf: buf},
			{Kind: Write, Flags: Link, FD: fds[0], Buf: buf},
			{Kind: Fsync, Flags: DataSync, FD: fds[0]},
		}
		for name, call := range map[string]func() error{
			"Do":               func() error { return q.Do(ops) },
			"SyncFds, 4 files": func() error { return q.SyncFds(fds) },
			"SyncFds, 1 file":  func() error { return q.SyncFds(fds[:1]) },
		} {
			n := testing.AllocsPerRun(10, func() {
				if err := call(); err != nil {
					t.Error(err)
				}
			})
			if n != 0 {
				t.Errorf("%s allocates %v times", name, n)
			}
		}
	})
}

func TestOpenDefaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ asked, want int }{{0, 128}, {-1, 128}, {1, 1}, {2, 2}, {3, 4}, {100, 128}, {4096, 4096}, {1 << 30, 4096}} {
		if got := (Options{Entries: c.asked}).withDefaults().Entries; got != c.want {
			t.Errorf("%d entries asked for: got %d, want %d", c.asked, got, c.want)
		}
	}
	q := Open(Options{Off: true})
	if q.Mode() != ModePlain || q.Reason() != "switched off" {
		t.Errorf("Off: got mode %s, reason %q", q.Mode(), q.Reason())
	}
	q.Close()

	// The kernel refuses to register a file mapping: no ring, and the reason says so.
	f := create(t)
	if err := f.Truncate(4096); err != nil {
		t.Fatal(err)
	}
	mapped, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mapped)
	q = Open(Options{})
	q.Close()
	if q.Mode() == ModePlain {
		t.Skipf("no ring here: %s", q.Reason())
	}
	q = Open(Options{Buffers: [][]byte{mapped}})
	defer q.Close()
	if q.Mode() != ModePlain || !strings.Contains(q.Reason(), "registering buffers: EFAULT") {
		t.Errorf("file mapping registered: got mode %s, reason %q", q.Mode(), q.Reason())
	}
	ops := []Op{{Kind: WriteFixed, FD: int(f.Fd()), Buf: mapped}}
	if err := q.Do(ops); err != nil {
		t.Errorf("without a ring: %v", err)
	}
}
