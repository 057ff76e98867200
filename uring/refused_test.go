package uring

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	kernelring "github.com/iceber/iouring-go/syscall"
	"golang.org/x/sys/unix"
)

// childEnv makes the test binary run one of the scenes below in a process of its own, for what cannot be undone.
const childEnv = "RINGMQ_URING_TEST_SCENE"

var scenes = map[string]func() error{
	"setup EPERM":    refusedAtStart(unix.EPERM, all, "io_uring_setup: EPERM"),
	"setup ENOSYS":   refusedAtStart(unix.ENOSYS, all, "io_uring_setup: ENOSYS"),
	"setup EACCES":   refusedAtStart(unix.EACCES, all, "io_uring_setup: EACCES"),
	"setup ENOMEM":   refusedAtStart(unix.ENOMEM, all, "ulimit -l"),
	"register EPERM": refusedAtStart(unix.EPERM, register, "probing operations: EPERM"),
	"enter EPERM":    refusedAtStart(unix.EPERM, enter, "trial flush: EPERM"),
	"refused later":  refusedLater,
	"short write":    shortWrite,
}

// calls is a range of system call numbers.
type calls struct{ first, last uint32 }

var (
	all      = calls{kernelring.SYS_IO_URING_SETUP, kernelring.SYS_IO_URING_REGISTER}
	register = calls{kernelring.SYS_IO_URING_REGISTER, kernelring.SYS_IO_URING_REGISTER}
	enter    = calls{kernelring.SYS_IO_URING_ENTER, kernelring.SYS_IO_URING_ENTER}
)

func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		if err := scenes[name](); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestScenes(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name := range scenes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(exe)
			cmd.Env = append(os.Environ(), childEnv+"="+name)
			cmd.Dir = t.TempDir()
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// refuse has the given system calls answer errno in all threads (TSYNC), as the filter of a container runtime does. It
// cannot be undone.
func refuse(errno syscall.Errno, which calls) error {
	const numberOffset = 0 // of the system call within struct seccomp_data
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: numberOffset},
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: which.first, Jf: 2},
		{Code: unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, K: which.last, Jt: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	if e != 0 {
		return fmt.Errorf("seccomp: %w", e)
	}
	return nil
}

// works has q write and flush, and fail where it must.
func works(q *Queue) error {
	f, err := os.Create("f")
	if err != nil {
		return err
	}
	defer f.Close()
	fd := int(f.Fd())
	ops := []Op{{Kind: Write, Flags: Link, FD: fd, Buf: []byte("bytes")}, {Kind: Fsync, FD: fd}}
	if err := q.Do(ops); err != nil {
		return err
	}
	if err := q.SyncFds([]int{fd, fd, fd}); err != nil {
		return err
	}
	if err := q.SyncFds([]int{fd, -1}); !errors.Is(err, unix.EBADF) {
		return fmt.Errorf("flushing no file: got error %v, want %v", err, unix.EBADF)
	}
	if got, err := os.ReadFile("f"); err != nil || string(got) != "bytes" {
		return fmt.Errorf("file holds %q, %v", got, err)
	}
	return nil
}

// refusedAtStart opens a Queue where some calls are refused.
func refusedAtStart(errno syscall.Errno, which calls, reason string) func() error {
	return func() error {
		if which != all {
			if q := Open(Options{}); q.Mode() == ModePlain { // no ring here anyway, for another reason
				return q.Close()
			}
		}
		if err := refuse(errno, which); err != nil {
			return err
		}
		q := Open(Options{})
		if q.Mode() != ModePlain || !strings.Contains(q.Reason(), reason) || strings.Contains(q.Reason(), "\n") {
			return fmt.Errorf("mode %s, reason %q, want %s and one line with %q", q.Mode(), q.Reason(), ModePlain, reason)
		}
		if err := works(q); err != nil {
			return err
		}
		return q.Close()
	}
}

// refusedLater takes the ring away from a Queue that is at work.
func refusedLater() error {
	var log bytes.Buffer
	q := Open(Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if q.Mode() == ModePlain {
		return q.Close()
	}
	if err := works(q); err != nil {
		return err
	}
	if err := refuse(unix.EPERM, all); err != nil {
		return err
	}
	if err := works(q); err != nil { // the first batch meets the refusal and is done all the same
		return err
	}
	if q.Mode() != ModePlain || !strings.Contains(q.Reason(), "io_uring_enter: EPERM") {
		return fmt.Errorf("mode %s, reason %q, want %s and io_uring_enter: EPERM", q.Mode(), q.Reason(), ModePlain)
	}
	if err := q.Close(); err != nil {
		return err
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "plain calls") {
		return fmt.Errorf("log has %q, want one line", got)
	}
	return nil
}

// shortWrite lets a write run into the limit of file size.
func shortWrite() error {
	signal.Ignore(unix.SIGXFSZ)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 5000, Max: 5000}); err != nil {
		return err
	}
	f, err := os.Create("f")
	if err != nil {
		return err
	}
	fd := int(f.Fd())
	for _, off := range []bool{false, true} {
		q := Open(Options{Off: off})
		for _, flags := range []Flags{Link, Link | DSync} {
			ops := []Op{
				{Kind: Write, Flags: flags, FD: fd, Buf: make([]byte, 8192)},
				{Kind: Fsync, FD: fd},
				{Kind: Write, FD: fd, Buf: make([]byte, 1), Off: 5000},
			}
			q.Do(ops)
			if !errors.Is(ops[0].Err, io.ErrShortWrite) || ops[0].N != 5000 {
				return fmt.Errorf("%s: got N %d, error %v, want 5000 and %v", q.Mode(), ops[0].N, ops[0].Err, io.ErrShortWrite)
			}
			if !errors.Is(ops[1].Err, ErrCanceled) {
				return fmt.Errorf("%s: linked operation: got error %v, want %v", q.Mode(), ops[1].Err, ErrCanceled)
			}
			if !errors.Is(ops[2].Err, unix.EFBIG) {
				return fmt.Errorf("%s: beyond the limit: got error %v, want %v", q.Mode(), ops[2].Err, unix.EFBIG)
			}
		}
		q.Close()
	}
	return nil
}
