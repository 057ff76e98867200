package memstore

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"ringmq/engine/segment"
)

// BadSectors is a segment.Storage on a file system, some of whose pages fault when they are touched through a mapping, as those do that the
// device cannot read: they are not in memory, and nothing brings them there. Reads and writes by descriptor go on.
type BadSectors struct {
	segment.Storage
	Pages map[string][][2]int // of a file: [from, to), multiples of a page
}

var _ segment.Storage = (*BadSectors)(nil)

// Open maps an existing file.
func (s *BadSectors) Open(name string, size int64) (segment.Backing, error) {
	b, err := s.Storage.Open(name, size)
	if err != nil {
		return nil, err
	}
	for _, p := range s.Pages[name] {
		if err := unreadable(b.Bytes()[p[0]:p[1]]); err != nil {
			return nil, fmt.Errorf("memstore: bad sectors of %s: %w", name, err)
		}
	}
	return b, nil
}

// unreadable maps whole pages anew, beyond the end of an empty file.
func unreadable(pages []byte) error {
	fd, err := unix.MemfdCreate("badsectors", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.MmapPtr(fd, 0, unsafe.Pointer(unsafe.SliceData(pages)), uintptr(len(pages)), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_FIXED)
	return err
}
