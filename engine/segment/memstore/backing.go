package memstore

import (
	"fmt"
	"sync/atomic"

	"ringmq/engine/segment"
)

// backing is one open file of a Storage.
type backing struct {
	storage *Storage
	file    *file
	closed  atomic.Bool
}

// backing opens f. s.mu is held.
func (s *Storage) backing(f *file) *backing {
	f.open++
	return &backing{storage: s, file: f}
}

// Bytes is the live array: stores into it are seen at once by all, and are durable only after a Sync.
func (b *backing) Bytes() []byte { return b.file.live }

func (b *backing) Fd() int { return -1 }

// WriteAt stores only the bytes that change, so that a committer who rewrites a block does not race with those who read the
// part of it that stays the same; in a real page cache they do not notice either.
func (b *backing) WriteAt(pieces [][]byte, off int64) error {
	if b.closed.Load() {
		return fmt.Errorf("memstore: write %s: %w", b.file.name, segment.ErrClosed)
	}
	fault := b.storage.run(OpWrite, b.file.name)
	left := -1
	if fault.err() != nil {
		left = fault.Short
	}
	f := b.file
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range pieces {
		if left >= 0 {
			p = p[:min(len(p), left)]
			left -= len(p)
		}
		if off < 0 || off+int64(len(p)) > int64(len(f.live)) {
			panic(fmt.Sprintf("BUG: memstore: write of [%d, %d) in %s of %d bytes", off, off+int64(len(p)), f.name, len(f.live)))
		}
		f.store(p, int(off))
		off += int64(len(p))
	}
	if err := fault.err(); err != nil {
		return fmt.Errorf("memstore: write %s at %d: %w", f.name, off, err)
	}
	return nil
}

func (f *file) store(p []byte, off int) {
	if len(p) == 0 {
		return
	}
	for page := off / PageSize; page <= (off+len(p)-1)/PageSize; page++ {
		delete(f.lost, page) // dirty again
	}
	old := f.live[off : off+len(p)]
	from, to := 0, len(p)
	for from < to && old[from] == p[from] {
		from++
	}
	for to > from && old[to-1] == p[to-1] {
		to--
	}
	if from < to {
		copy(old[from:to], p[from:to])
	}
}

// Sync makes the live pages durable, but for those whose write-back failed before and that were not written since. When a
// fault makes it fail nothing is durable for certain, and the pages count as clean from then on.
func (b *backing) Sync() error {
	if b.closed.Load() {
		return fmt.Errorf("memstore: sync %s: %w", b.file.name, segment.ErrClosed)
	}
	err := b.storage.run(OpSync, b.file.name).err()
	f := b.file
	f.mu.Lock()
	defer f.mu.Unlock()
	f.eachDirtyPage(func(page int, live, durable []byte) {
		if err != nil {
			f.lost[page] = true
		} else if !f.lost[page] {
			kernelCopy(durable, live)
		}
	})
	if err != nil {
		return fmt.Errorf("memstore: sync %s: %w", f.name, err)
	}
	return nil
}

// DropCache lets go of the clean pages from off on: those whose write-back failed show again what the device has.
func (b *backing) DropCache(off int64) error {
	f := b.file
	f.mu.Lock()
	defer f.mu.Unlock()
	for page := range f.lost {
		if from := page * PageSize; int64(from) >= off/PageSize*PageSize {
			to := min(from+PageSize, len(f.live))
			copy(f.live[from:to], f.durable[from:to])
			delete(f.lost, page)
		}
	}
	return nil
}

// Close ends this opening of the file.
func (b *backing) Close() error {
	if b.closed.Swap(true) {
		panic("BUG: memstore: " + b.file.name + " closed twice")
	}
	b.storage.mu.Lock()
	defer b.storage.mu.Unlock()
	b.file.open--
	return nil
}

// eachDirtyPage calls do for every page that the device has not as processes see it. f.mu is held.
func (f *file) eachDirtyPage(do func(page int, live, durable []byte)) {
	for page := 0; page*PageSize < len(f.live); page++ {
		from, to := page*PageSize, min((page+1)*PageSize, len(f.live))
		if live, durable := f.live[from:to], f.durable[from:to]; !kernelEqual(live, durable) {
			do(page, live, durable)
		}
	}
}

// kernelCopy and kernelEqual stand for the kernel, which reads mapped pages while a process stores into them and may take
// a torn state to the device: a race that is there by design, and not one of the program under test. They are loops, since
// copy and the comparison of strings tell the race detector from inside the runtime.
//
//go:norace
func kernelCopy(dst, src []byte) {
	//lint:ignore S1001 copy would tell the race detector
	for i := range src {
		dst[i] = src[i]
	}
}

//go:norace
func kernelEqual(a, b []byte) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
