package server

import "math/bits"

const (
	pooledBits   = 20      // buffers up to 1 MiB are kept
	pooledBytes  = 4 << 20 // of all kept ones of a loop
	smallestBits = 10
)

// buffers is one loop's stock of byte buffers by power of two; larger ones are left to the collector. It knows no lock: only
// the loop uses it.
type buffers struct {
	free [pooledBits + 1][][]byte
	size int
}

// get returns an empty buffer with room for n bytes.
func (p *buffers) get(n int) []byte {
	class := max(bits.Len(uint(n-1)), smallestBits)
	if class > pooledBits {
		return make([]byte, 0, n)
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

// put takes b back; b may be nil. The caller must have no slice of it left.
func (p *buffers) put(b []byte) {
	n := cap(b)
	class := bits.Len(uint(n)) - 1
	if n == 0 || class > pooledBits || n != 1<<class || p.size+n > pooledBytes {
		return
	}
	p.free[class] = append(p.free[class], b[:0])
	p.size += n
}
