package engine

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// residentPages is how many pages one mincore call is asked about.
const residentPages = 512

// resident asks the kernel whether all pages of mapped bytes are in memory. What cannot be asked counts as resident: the worst is a
// page fault where a worker should have had it.
func resident(b []byte) bool {
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
