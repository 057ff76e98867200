package segment

import (
	"fmt"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"
)

// residentPages is how many pages one mincore call is asked about.
const residentPages = 512

// Resident asks the kernel whether all pages of mapped bytes are in memory. What cannot be asked counts as resident: the worst is a
// page fault where a worker should have had it.
func Resident(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	page := uintptr(unix.Getpagesize())
	first := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	begin, end := first&^(page-1), (first+uintptr(len(b))+page-1)&^(page-1)
	var state [residentPages]byte
	for begin < end {
		n := min(end-begin, residentPages*page)
		if _, _, errno := unix.Syscall(unix.SYS_MINCORE, begin, n, uintptr(unsafe.Pointer(&state[0]))); errno != 0 {
			return true
		}
		for _, s := range state[:(n+page-1)/page] {
			if s&1 == 0 {
				return false
			}
		}
		begin += n
	}
	return true
}

// Populate has the kernel read the pages of mapped bytes and map them. In a system call the wait costs one thread; a page fault would also
// hold up the scheduler's turn on it. Bytes that the device cannot read are an error.
func Populate(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	page := uintptr(unix.Getpagesize())
	start := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	head := start & (page - 1) // bytes between the page's start and b
	_, _, errno := unix.Syscall(unix.SYS_MADVISE, start-head, head+uintptr(len(b)), unix.MADV_POPULATE_READ)
	switch errno {
	case 0:
		return nil
	case unix.EFAULT, unix.EHWPOISON:
		return fmt.Errorf("%w: %w", ErrUnreadable, errno)
	}
	return touch(b, int(page)) // a kernel before 5.14 does not know the advice
}

// touch reads a byte of every page.
func touch(b []byte, page int) (err error) {
	defer CatchFault(&err, "segment", debug.SetPanicOnFault(true))
	sum := b[len(b)-1]
	for i := 0; i < len(b); i += page {
		sum |= b[i]
	}
	touched(sum)
	return nil
}

// touched keeps the compiler from leaving the reads away.
//
//go:noinline
func touched(byte) {}
