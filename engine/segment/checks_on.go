//go:build invariants

package segment

import "sync/atomic"

// checksEnabled says whether the costly checks of the build tag invariants are compiled in.
const checksEnabled = true

// releaseCheck finds a View that is released twice, also by way of a copy: all copies of a View share one flag.
type releaseCheck struct{ done *atomic.Bool }

func (c *releaseCheck) armed() { c.done = new(atomic.Bool) }

func (c *releaseCheck) released() {
	if c.done != nil && c.done.Swap(true) {
		panic("BUG: segment: View released twice")
	}
}

// mangle ruins a buffer whose owner has let it go, so that whoever kept a slice of it fails.
func mangle(b []byte) {
	for i := range b {
		b[i] = 0xDB
	}
}
