package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrLocked means that another broker, or another Open in this process, has the store.
var ErrLocked = errors.New("in use")

// What the lock file holds tells who had the store last: RocketMQ writes its text over the first bytes at every start.
const (
	javaText = "lock"
	ownText  = "ringmq"
)

// Lock is a held store. The kernel gives it up with Release or with the end of the process, however that comes.
type Lock struct {
	f    *os.File
	last string // the text of who had the store before
}

// LastWasOwn tells whether nobody but ringmq has had the store since its last Claim.
func (l *Lock) LastWasOwn() bool { return l.last == ownText }

// LastWasJava tells whether a Java broker has had the store since the last Claim.
func (l *Lock) LastWasJava() bool {
	return len(l.last) >= len(javaText) && l.last[:len(javaText)] == javaText
}

// Claim durably writes who has the store. It is called when what another broker may have done to the store is known and kept: whoever
// reads the text later trusts the mark for it.
func (l *Lock) Claim() error {
	if l.LastWasOwn() {
		return nil
	}
	_, err := l.f.WriteAt([]byte(ownText), 0)
	if err == nil {
		err = l.f.Truncate(int64(len(ownText)))
	}
	if err == nil {
		err = l.f.Sync()
	}
	if err != nil {
		return fmt.Errorf("checkpoint: claim store: %w", err)
	}
	return nil
}

// Acquire takes the lock file at path, making it if need be. It locks byte 0 as an open file description lock
// (F_OFD_SETLK): that belongs to this one opened file, so it excludes a second Acquire in the same process, which a plain
// POSIX lock would let pass, and it excludes POSIX locks, which a Java broker's FileChannel.tryLock takes. A held lock is
// ErrLocked with the folder and, when the holder took a POSIX lock, its process id.
func Acquire(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: lock store: %w", err)
	}
	if err := lockByte(f, path); err != nil {
		f.Close()
		return nil, err
	}
	var text [len(ownText) + 1]byte
	n, err := f.ReadAt(text[:], 0)
	if err != nil && err != io.EOF {
		f.Close()
		return nil, fmt.Errorf("checkpoint: lock store: %w", err)
	}
	return &Lock{f, string(text[:n])}, nil
}

// Release gives the lock up. The file stays: removing it would let two brokers lock two files of one name.
func (l *Lock) Release() error {
	if err := l.f.Close(); err != nil {
		return fmt.Errorf("checkpoint: release lock: %w", err)
	}
	return nil
}

func lockByte(f *os.File, path string) error {
	want := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: 0, Len: 1}
	err := retryEINTR(func() error { return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &want) })
	if err == nil {
		return nil
	}
	dir := filepath.Dir(path)
	if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
		return fmt.Errorf("checkpoint: lock store %s: fcntl F_OFD_SETLK: %w", dir, err)
	}
	// Ask who; the holder may be gone by now, and an open file description lock tells -1.
	holder := want
	if unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &holder) == nil && holder.Type != unix.F_UNLCK && holder.Pid > 0 {
		return fmt.Errorf("checkpoint: store %s is %w by process %d", dir, ErrLocked, holder.Pid)
	}
	return fmt.Errorf("checkpoint: store %s is %w", dir, ErrLocked)
}

func retryEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
