package segment

import (
	"fmt"
	"sync/atomic"
	"time"

	"ringmq/internal/mutant"
)

// closing is set in File.state when the Set has let the file go; the bits below count the holds.
const closing = int64(1) << 62

// File is a file of a Set, counted by holds: its bytes stay mapped until the last hold is released, also when it has been
// removed from the Set meanwhile.
type File struct {
	base    int64
	size    int64
	name    string
	backing Backing
	bytes   []byte
	metrics *Metrics

	state atomic.Int64 // holds, plus closing; closing with no holds means closed
	dirty atomic.Bool  // written since the last sync began
	sync  stickyError
}

// stickyError keeps the first error set. A failed fsync is final: the kernel has marked the pages clean, so that a second
// one would report success for bytes that are lost.
type stickyError struct{ first atomic.Pointer[error] }

func (s *stickyError) set(err error) {
	if err != nil && !mutant.NoLatch {
		failed := err // a variable of this branch, so that only a failure allocates
		s.first.CompareAndSwap(nil, &failed)
	}
}

func (s *stickyError) get() error {
	if p := s.first.Load(); p != nil {
		return *p
	}
	return nil
}

// NewFile makes a File of an open backing, whose owner it becomes: the very first segment of a store, before Set.Add.
func NewFile(base int64, b Backing) *File {
	return &File{base: base, size: int64(len(b.Bytes())), name: Name(base), backing: b, bytes: b.Bytes(), metrics: new(Metrics)}
}

// Base is the position of the first byte, which is also the name.
func (f *File) Base() int64 { return f.base }

// Size is the number of bytes, the same for all files of a Set.
func (f *File) Size() int64 { return f.size }

// End is the position behind the last byte.
func (f *File) End() int64 { return f.base + f.size }

// Name is Base in 20 digits.
func (f *File) Name() string { return f.name }

// Bytes is the mapping of the whole file. The caller needs a hold, or to be the one who removes files.
func (f *File) Bytes() []byte { return f.bytes }

// Fd is the descriptor that every write and flush of the file goes through; -1 if there is none. The caller needs a hold
// while it uses it, since a descriptor number is given out again after close.
func (f *File) Fd() int { return f.backing.Fd() }

// WriteAt writes all pieces, one behind the other, at off of the file. It is the page cache that has them afterwards. An
// error leaves it open how many bytes were written.
func (f *File) WriteAt(pieces [][]byte, off int64) error {
	n := int64(0)
	for _, p := range pieces {
		n += int64(len(p))
	}
	if off < 0 || off+n > f.size {
		panic(fmt.Sprintf("BUG: segment: write of [%d, %d) in file %s of %d bytes", off, off+n, f.name, f.size))
	}
	if !f.Hold() {
		return fmt.Errorf("segment: write file %s: %w", f.name, ErrClosed)
	}
	defer f.Release()
	f.dirty.Store(true)
	f.metrics.Writes.Add(1)
	f.metrics.WrittenBytes.Add(n)
	return f.backing.WriteAt(pieces, off)
}

// MarkDirty says that bytes were stored through the mapping, which nobody else can notice.
func (f *File) MarkDirty() { f.dirty.Store(true) }

// Dirty says whether bytes were written since the last sync began. Syncing a clean file costs a device flush for nothing.
func (f *File) Dirty() bool { return f.dirty.Load() }

// Sync makes every byte whose write ended before it durable (fdatasync). Once it has failed it returns that error for ever.
func (f *File) Sync() error {
	if !f.Hold() {
		return fmt.Errorf("segment: sync file %s: %w", f.name, ErrClosed)
	}
	defer f.Release()
	if err := f.BeginSync(); err != nil {
		return err
	}
	start := time.Now()
	err := f.EndSync(f.backing.Sync())
	f.metrics.SyncNS.Add(int64(time.Since(start)))
	return err
}

// Refresh makes sure that what is read at and behind off is what the device has: the file is synced, then its pages are dropped from the
// cache. A write-back that failed in an earlier process left pages there, readable and clean, which the device never took; they may be
// read as whole records, and no later sync would notice. Only before anything was written.
func (f *File) Refresh(off int64) error {
	if err := f.Sync(); err != nil {
		return err
	}
	d, ok := f.backing.(cacheDropper)
	if !ok {
		return nil
	}
	if !f.Hold() {
		return fmt.Errorf("segment: refresh file %s: %w", f.name, ErrClosed)
	}
	defer f.Release()
	if err := d.DropCache(off); err != nil {
		return fmt.Errorf("segment: refresh file %s: %w", f.name, err)
	}
	return nil
}

// BeginSync and EndSync bracket a sync that somebody does through Fd, such as the ring, so that the file knows of it. The
// caller holds the file. BeginSync returns the error of an earlier failed sync: then nothing may be submitted.
func (f *File) BeginSync() error {
	if err := f.sync.get(); err != nil {
		return err
	}
	f.dirty.Store(false)
	f.metrics.Syncs.Add(1)
	return nil
}

// EndSync takes the outcome of the sync begun by BeginSync, and returns it with the name of the file.
func (f *File) EndSync(err error) error {
	if err == nil {
		return nil
	}
	f.metrics.SyncFailed.Add(1)
	err = fmt.Errorf("segment: sync file %s: %w", f.name, err)
	f.sync.set(err)
	return err
}

// Hold keeps the file mapped until Release; false when the Set has let it go already.
func (f *File) Hold() bool {
	for {
		state := f.state.Load()
		if state&closing != 0 {
			return false
		}
		if f.state.CompareAndSwap(state, state+1) {
			return true
		}
	}
}

// Release gives back one hold. The last one closes a file that was removed meanwhile.
func (f *File) Release() {
	state := f.state.Add(-1)
	if state == closing {
		_ = f.closeBacking() // munmap of a mapping that exists; nobody is left to tell
		return
	}
	if state < 0 || state == closing-1 {
		panic("BUG: segment: file " + f.name + " released more often than held")
	}
}

// retire ends the life of the file as soon as nobody holds it. Called once, by its owner, after it is out of every Set, so
// that closing is set when the last Release looks, or no hold is left when retire looks: one of the two closes.
func (f *File) retire() error {
	state := f.state.Or(closing)
	if state&closing != 0 {
		panic("BUG: segment: file " + f.name + " closed twice")
	}
	if state != 0 {
		return nil
	}
	return f.closeBacking()
}

func (f *File) closeBacking() error {
	f.bytes = nil
	return f.backing.Close()
}
