package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Holder is what a look at the lock file tells, without taking the lock.
type Holder struct {
	InUse bool
	PID   int    // of who has it, 0 if the kernel does not tell: an open file description lock belongs to no process
	Last  string // who had it last: "ringmq", "java", or "" if there is no telling
}

// LookAt tells who has or had the store whose lock file is at path. It neither locks nor writes; without the file nobody ever had it.
func LookAt(path string) (Holder, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Holder{}, nil
	}
	if err != nil {
		return Holder{}, fmt.Errorf("checkpoint: look at lock: %w", err)
	}
	defer f.Close()
	asked := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 0, Len: 1}
	if err := retryEINTR(func() error { return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &asked) }); err != nil {
		return Holder{}, fmt.Errorf("checkpoint: look at lock %s: fcntl F_OFD_GETLK: %w", path, err)
	}
	h := Holder{InUse: asked.Type != unix.F_UNLCK}
	if h.InUse && asked.Pid > 0 {
		h.PID = int(asked.Pid)
	}
	var text [len(ownText) + 1]byte
	n, err := f.ReadAt(text[:], 0)
	if err != nil && err != io.EOF {
		return h, fmt.Errorf("checkpoint: look at lock: %w", err)
	}
	switch l := (Lock{last: string(text[:n])}); {
	case l.LastWasOwn():
		h.Last = "ringmq"
	case l.LastWasJava():
		h.Last = "java"
	}
	return h, nil
}
