package server

import (
	"math/bits"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	pooledBits   = 20      // buffers up to 1 MiB are kept
	pooledBytes  = 4 << 20 // of all kept ones of a loop
	smallestBits = 10
)

// buffers is one loop's stock of byte buffers. Those up to 1 MiB are kept by power of two. Larger ones are mapped, and unmapped when they
// come back: as garbage a few frames of 16 MiB would make the heap, and with it the process, many times as large as it needs to be until
// the collector and the scavenger have caught up. It knows no lock: only the loop uses it.
type buffers struct {
	free   [pooledBits + 1][][]byte
	size   int
	mapped map[*byte]int // first byte -> length of those given out
}

// get returns an empty buffer with room for n bytes. It must come back by put.
func (p *buffers) get(n int) []byte {
	class := max(bits.Len(uint(n-1)), smallestBits)
	if class > pooledBits {
		return p.getMapped(n)
	}
	list := p.free[class]
	if len(list) == 0 {
		return make([]byte, 0, 1<<class)
	}
	b := list[len(list)-1]
	list[len(list)-1] = nil
	p.free[class] = list[:len(list)-1]
	p.size -= cap(b)
	return b
}

func (p *buffers) getMapped(n int) []byte {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil { // too many mappings, or no memory, which the heap may have
		return make([]byte, 0, n)
	}
	if p.mapped == nil {
		p.mapped = make(map[*byte]int)
	}
	p.mapped[&b[0]] = len(b)
	return b[:0]
}

// put takes b back; b may be nil. The caller must have no slice of it left.
func (p *buffers) put(b []byte) {
	n := cap(b)
	if n == 0 {
		return
	}
	first := unsafe.SliceData(b)
	if length, ok := p.mapped[first]; ok {
		delete(p.mapped, first)
		if err := unix.Munmap(b[:length:length]); err != nil {
			panic("BUG: server: unmap a buffer: " + err.Error())
		}
		return
	}
	class := bits.Len(uint(n)) - 1
	if class > pooledBits || n != 1<<class || p.size+n > pooledBytes {
		return
	}
	p.free[class] = append(p.free[class], b[:0])
	p.size += n
}
