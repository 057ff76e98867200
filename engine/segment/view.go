package segment

import (
	"math/bits"
	"sync"
)

// View is bytes that stay valid until Release, which must happen exactly once. From the mapping it holds the file; from the
// pool it owns a copied buffer. It is a value and may be moved, but only one of its copies may be released. Bytes may be
// cut shorter by its owner. The zero View holds nothing; releasing it does nothing.
type View struct {
	check releaseCheck
	Bytes []byte
	file  *File
	copy  *buffer
}

// Release gives the bytes back. A second Release of the same View is a bug: it panics under the build tag invariants and is
// harmless otherwise, unless it is done through a copy of the View.
func (v *View) Release() {
	v.check.released()
	file, buf := v.file, v.copy
	v.Bytes, v.file, v.copy = nil, nil, nil
	if file != nil {
		file.Release()
	}
	if buf != nil {
		buf.free()
	}
}

// Buffers of copied views come in powers of two, so that a short view does not pin a long buffer. A view longer than the
// largest class is served by the collector.
const (
	minBufferBits = 12 // 4 KiB
	maxBufferBits = 24 // 16 MiB
)

// buffer is memory on loan to one View.
type buffer struct {
	bytes []byte
	home  *sync.Pool // nil: too large to be kept
}

// buffers is the free list of a Pool's views, one sync.Pool for each size, so that the collector takes back what a burst of
// readers left behind.
type buffers struct {
	classes [maxBufferBits - minBufferBits + 1]sync.Pool
}

// get returns a buffer of at least n bytes.
func (l *buffers) get(n int) *buffer {
	class := max(bits.Len(uint(n-1)), minBufferBits) - minBufferBits
	if class >= len(l.classes) {
		return &buffer{bytes: make([]byte, n)}
	}
	home := &l.classes[class]
	if b, ok := home.Get().(*buffer); ok {
		return b
	}
	return &buffer{bytes: make([]byte, 1<<(class+minBufferBits)), home: home}
}

func (b *buffer) free() {
	mangle(b.bytes)
	if b.home != nil {
		b.home.Put(b)
	}
}
