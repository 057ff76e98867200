package segment

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// CacheUnit is the grain in which Cached and Uncache work: the kernel keeps large folios that are not wholly in what it is to let go.
const CacheUnit = dropUnit

// Cached tells for each CacheUnit of the file whether any page of it is in memory. What cannot be asked counts as in memory. The caller
// needs a hold.
func (f *File) Cached() []bool {
	units := make([]bool, (f.size+CacheUnit-1)/CacheUnit)
	for i := range units {
		units[i] = f.anyResident(int64(i) * CacheUnit)
	}
	return units
}

// anyResident tells whether a page of the CacheUnit at off is in memory.
func (f *File) anyResident(off int64) bool {
	if f.Fd() < 0 {
		return true
	}
	b := f.bytes[off:min(off+CacheUnit, f.size)]
	var state [CacheUnit / 4096]byte // no page is smaller
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(unsafe.Pointer(&state[0]))); errno != 0 {
		return true
	}
	for _, s := range state {
		if s&1 != 0 {
			return true
		}
	}
	return false
}

// Uncache lets the page cache drop the CacheUnits of [from, to): whoever has read what nobody else reads leaves room for what consumers
// read. It is advice. The caller needs a hold.
func (f *File) Uncache(from, to int64) {
	if f.Fd() < 0 || from >= to {
		return
	}
	_ = unix.Madvise(f.bytes[from:to], unix.MADV_DONTNEED) // first out of our own mapping: a page that is mapped is not dropped
	_ = unix.Fadvise(f.Fd(), from, to-from, unix.FADV_DONTNEED)
}

// Device reads a file as the device has it. It is used by one goroutine.
type Device interface {
	// ReadAt fills b from off on, as far as the file goes: less is no error. b begins and ends with a page of memory, off with a block.
	ReadAt(b []byte, off int64) (int, error)
	// Direct tells that the page cache was not touched. If it is false what was read may be what the cache has, and is in it now.
	Direct() bool
	Close() error
}

// OpenDevice opens the file around the page cache, where the file system can do that. The caller needs a hold.
func (f *File) OpenDevice() (Device, error) {
	if b, ok := f.backing.(interface{ OpenDevice() (Device, error) }); ok {
		return b.OpenDevice()
	}
	return &memory{f.bytes}, nil
}

// memory is a Device of a backing that has none.
type memory struct{ bytes []byte }

func (m *memory) ReadAt(b []byte, off int64) (int, error) { return copy(b, m.bytes[off:]), nil }
func (m *memory) Direct() bool                            { return false }
func (m *memory) Close() error                            { return nil }

// dirDevice is a second descriptor of a dirFile, for reading.
type dirDevice struct {
	name   string
	fd     int
	direct bool
}

// OpenDevice opens the file a second time, with O_DIRECT if the file system takes it.
func (f *dirFile) OpenDevice() (Device, error) {
	d := &dirDevice{name: f.file.Name(), direct: true}
	err := d.open(unix.O_DIRECT)
	if refusesDirect(err) {
		d.direct = false
		err = d.open(0)
	}
	if err != nil {
		return nil, fmt.Errorf("segment: open %s to read it from the device: %w", d.name, err)
	}
	return d, nil
}

func refusesDirect(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP)
}

func (d *dirDevice) open(flags int) (err error) {
	d.fd, err = unix.Open(d.name, unix.O_RDONLY|unix.O_CLOEXEC|flags, 0)
	for err == unix.EINTR {
		d.fd, err = unix.Open(d.name, unix.O_RDONLY|unix.O_CLOEXEC|flags, 0)
	}
	return err
}

func (d *dirDevice) Direct() bool { return d.direct }

func (d *dirDevice) ReadAt(b []byte, off int64) (read int, err error) {
	for read < len(b) {
		n, err := unix.Pread(d.fd, b[read:], off+int64(read))
		switch {
		case err == unix.EINTR:
			continue
		case d.direct && refusesDirect(err):
			// Taken at open, but not possible; or the odd end of a file.
			if err := d.leaveDirect(); err != nil {
				return read, err
			}
			continue
		case err != nil:
			return read, fmt.Errorf("segment: read %s at %d: %w: %w", d.name, off+int64(read), ErrUnreadable, err)
		case n == 0:
			return read, nil
		}
		read += n
		if d.direct && read%zeroBlock != 0 {
			return read, nil // only the end of the file is no whole block
		}
	}
	return read, nil
}

// leaveDirect goes on through the page cache.
func (d *dirDevice) leaveDirect() error {
	flags, err := unix.FcntlInt(uintptr(d.fd), unix.F_GETFL, 0)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(d.fd), unix.F_SETFL, flags&^unix.O_DIRECT)
	}
	if err != nil {
		return fmt.Errorf("segment: read %s: %w", d.name, err)
	}
	d.direct = false
	return nil
}

func (d *dirDevice) Close() error { return unix.Close(d.fd) }

// AlignedBuffer is memory for Device.ReadAt, outside the heap, and what gives it back.
func AlignedBuffer(size int) (b []byte, free func() error, err error) {
	b, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, nil, fmt.Errorf("segment: map %d bytes: %w", size, err)
	}
	return b, func() error { return unix.Munmap(b) }, nil
}
