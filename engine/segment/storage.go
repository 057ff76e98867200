// Package segment keeps mapped files of one fixed size, the memory pool that appends go to, and counted views of both.
// It knows no message. Positions are plain int64: byte positions in the logical file that all files of a Set form.
//
// Who may do what: anybody may read at any time. Set.Find and Set.View take no lock; Pool.View takes one that the appender waits for
// only if it meets a reader, see Pool. One appender puts into the Pool, one committer writes files and frees the Pool. Those who add and
// remove files of a Set exclude each other by a lock of the Set that readers never take. Bytes handed out as a View stay as they are
// until its Release.
package segment

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Storage is one directory of fixed-size files; the seam for faults. Names are plain file names.
type Storage interface {
	List() ([]Info, error)                           // sorted by name, stray names included
	Settle() error                                   // what List tells is durable: a process that was killed may have left names that are not
	Open(name string, size int64) (Backing, error)   // error if it is missing or of another size
	Create(name string, size int64) (Backing, error) // really allocated, all zero, file and directory durable; fails if it exists
	Resize(name string, size int64) error            // recovery only: pads with allocated zeros or cuts; same size: allocates holes
	Remove(name string) error                        // durable; nil if it is gone already
	MoveTo(name, path string) error                  // durable in both directories; fails if path exists
}

// Info describes one file of a Storage.
type Info struct {
	Name    string
	Size    int64
	ModTime time.Time
}

// Backing is one open file. All flushes go through the one descriptor that was opened before its first write. One that has a page
// cache between its bytes and the device is a cacheDropper, too.
type Backing interface {
	Bytes() []byte                            // the whole file, mapped; read only unless the storage is made writable
	WriteAt(pieces [][]byte, off int64) error // all or an error; short writes are continued; pieces are not altered
	Sync() error                              // fdatasync
	Fd() int                                  // -1 when there is none
	Close() error                             // Bytes are invalid afterwards
}

// cacheDropper is a Backing whose bytes may be other than those of the device: after a write-back that failed the kernel keeps the
// pages, readable and clean.
type cacheDropper interface {
	// DropCache makes the bytes from off on those that the device has, or has it have them. Everything was synced before, by a Sync that
	// succeeded. Nobody touches the file meanwhile.
	DropCache(off int64) error
}

var (
	// ErrClosed is returned by operations on a file or preparer that is closed or closing.
	ErrClosed = errors.New("segment: closed")
	// ErrSize is wrapped by errors about a file that has not the size it should have.
	ErrSize = errors.New("wrong size")
	// ErrNotZero is wrapped by errors about a file made ahead that is not all zero.
	ErrNotZero = errors.New("not all zero")
)

// nameLen is the length of the name of a file of a Set: its base in decimal, padded with zeros.
const nameLen = 20

// Name is the name of the file whose first byte is at position base.
func Name(base int64) string {
	if base < 0 {
		panic(fmt.Sprintf("BUG: segment: name of negative base %d", base))
	}
	return fmt.Sprintf("%0*d", nameLen, base)
}

// ParseName returns the base that name stands for; false when it is a stray name.
func ParseName(name string) (base int64, ok bool) {
	if len(name) != nameLen {
		return 0, false
	}
	for i := range len(name) {
		if name[i] < '0' || name[i] > '9' {
			return 0, false
		}
	}
	base, err := strconv.ParseInt(name, 10, 64)
	return base, err == nil
}
