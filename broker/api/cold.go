package api

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// warmUp brings the found records into memory and answers. It runs on a worker: an event loop that touched them would stop for the
// disk, and with it all its connections.
func (p *pull) warmUp() {
	for i := range p.result.Views {
		populate(p.result.Views[i].Bytes)
	}
	p.answerFound()
}

// populate has the kernel read the pages of mapped bytes and map them. In a system call the wait costs one thread; a page fault
// would also hold up the scheduler's turn on it. A kernel before 5.14 does not know the advice: then a thread is all there is to spare.
func populate(b []byte) {
	if len(b) == 0 {
		return
	}
	page := uintptr(unix.Getpagesize())
	start := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	head := start & (page - 1) // bytes between the page's start and b
	length := head + uintptr(len(b))
	_, _, errno := unix.Syscall(unix.SYS_MADVISE, start-head, length, unix.MADV_POPULATE_READ)
	if errno == 0 {
		return
	}
	sum := byte(0)
	for i := 0; i < len(b); i += int(page) {
		sum |= b[i]
	}
	touched(sum | b[len(b)-1])
}

// touched keeps the compiler from leaving the reads away.
//
//go:noinline
func touched(byte) {}
