package flush

import (
	"errors"

	"ringmq/engine/segment"
)

// Syncer makes the written bytes of files durable; one error fails all. A Service calls it from one goroutine.
type Syncer interface {
	Sync(files []*segment.File) error
}

// Plain syncs one file after the other with fdatasync.
type Plain struct{}

// Sync stops at the first file that fails.
func (Plain) Sync(files []*segment.File) error {
	for _, f := range files {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// Batcher syncs several descriptors at once (fdatasync each) and returns when all are done; an io_uring does it with one call.
type Batcher interface {
	SyncFds(fds []int) error
}

// Ring syncs several files at once, and a single one plainly, which is faster than through a ring.
type Ring struct {
	batcher Batcher
	fds     []int
}

// NewRing makes a Ring on b.
func NewRing(b Batcher) *Ring { return &Ring{batcher: b} }

// Sync fails every file when one fails: which of them it was is not known.
func (r *Ring) Sync(files []*segment.File) error {
	if len(files) < 2 {
		return Plain{}.Sync(files)
	}
	// Held, so that no descriptor number is closed and given to another file while the kernel works on it.
	held := 0
	defer func() {
		for _, f := range files[:held] {
			f.Release()
		}
	}()
	r.fds = r.fds[:0]
	for _, f := range files {
		if !f.Hold() {
			return segment.ErrClosed
		}
		held++
		if f.Fd() < 0 {
			return Plain{}.Sync(files)
		}
		r.fds = append(r.fds, f.Fd())
	}
	for _, f := range files {
		if err := f.BeginSync(); err != nil {
			return err
		}
	}
	err := r.batcher.SyncFds(r.fds)
	var errs []error
	for _, f := range files {
		errs = append(errs, f.EndSync(err))
	}
	return errors.Join(errs...)
}
