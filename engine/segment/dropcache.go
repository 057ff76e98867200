package segment

import (
	"fmt"
	"io"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// dropUnit is what the beginning of a stretch that is dropped is rounded down to: the kernel keeps a large folio that is not wholly in it.
	dropUnit = 4 << 20

	// askPages is how many pages one mincore call is asked about.
	askPages = 16384
)

// DropCache drops the pages from off on. What the kernel keeps all the same, because another process has it mapped or because the file
// system lives in memory, is written again and synced: then the device has what the cache has.
func (f *dirFile) DropCache(off int64) error {
	from := off / dropUnit * dropUnit
	if from >= int64(len(f.data)) {
		return nil
	}
	// First out of our own mapping: a page that is mapped is not dropped.
	if err := unix.Madvise(f.data[from:], unix.MADV_DONTNEED); err != nil {
		return fmt.Errorf("unmap pages of %s: %w", f.file.Name(), err)
	}
	if err := unix.Fadvise(f.fd, from, 0, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("drop pages of %s: %w", f.file.Name(), err)
	}
	kept, err := f.rewriteCached(from)
	if err != nil || kept == 0 {
		return err
	}
	return f.Sync()
}

// rewriteCached writes the pages from off on that are in the cache with the bytes that they have, and tells how many.
func (f *dirFile) rewriteCached(off int64) (pages int64, err error) {
	state := make([]byte, askPages)
	page := make([]byte, unix.Getpagesize())
	pageSize := int64(len(page))
	for off < int64(len(f.data)) {
		n := min(int64(len(f.data))-off, askPages*pageSize)
		if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&f.data[off])), uintptr(n), uintptr(unsafe.Pointer(&state[0]))); errno != 0 {
			return pages, fmt.Errorf("ask for cached pages of %s: %w", f.file.Name(), errno)
		}
		for i := range (n + pageSize - 1) / pageSize {
			if state[i]&1 == 0 {
				continue
			}
			pages++
			if err := f.rewrite(page, off+i*pageSize); err != nil {
				return pages, err
			}
		}
		off += n
	}
	return pages, nil
}

// rewrite writes one page with the bytes that it has.
func (f *dirFile) rewrite(page []byte, at int64) error {
	n, err := unix.Pread(f.fd, page, at)
	for err == unix.EINTR {
		n, err = unix.Pread(f.fd, page, at)
	}
	if err == nil && n == 0 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("read %s at %d: %w", f.file.Name(), at, err)
	}
	return f.WriteAt([][]byte{page[:n]}, at)
}
