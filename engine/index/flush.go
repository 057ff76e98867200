package index

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"ringmq/engine/message"
	"ringmq/internal/durable"
)

// A flush goes in three steps, so that the sync in the middle may be one with that of others: Prepare writes out, SyncWith
// syncs, Finish says in the progress file what is durable now. Prepare and Finish are called by one goroutine.

// Prepare writes out what stands in memory, if the flush is worth it: always when asked to be thorough and something is new, else when
// enough was put since the last one. It says up to where the log must be on the device before Finish, and false if there is no flush.
func (x *Index) Prepare(thorough bool) (upTo message.Offset, due bool) {
	x.flushing.Lock()
	defer x.flushing.Unlock()
	x.batch, x.synced, x.syncErr = x.batch[:0], false, nil
	x.begun = time.Now()
	x.mu.Lock()
	due = x.due(thorough)
	f := x.newest()
	var err error
	if due && f != nil {
		err = x.writeTail(f)
	}
	x.candidate = progress{position: x.next, geometry: x.geometry}
	if f != nil {
		x.candidate.name, x.candidate.header = f.name, f.header
		x.candidate.entries = x.digestState()
	}
	x.mu.Unlock()
	if !due {
		return 0, false
	}
	if err == nil {
		err = x.writeHead(f)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err != nil {
		x.unwritable(err)
		return 0, false
	}
	for _, f := range x.files {
		if f.unsynced {
			x.batch = append(x.batch, f)
		}
	}
	x.prepared = x.metrics.WrittenBytes.Load() + x.metrics.SlotBytes.Load()
	return x.candidate.position, true
}

// digestState is what the digest goes on from after a start. mu is held.
func (x *Index) digestState() (state [digestLen]byte) {
	b, err := x.digest.MarshalBinary()
	if err != nil || len(b) != digestLen {
		panic(fmt.Sprintf("BUG: index: state of a digest has %d bytes: %v", len(b), err))
	}
	return [digestLen]byte(b)
}

// due is whether to flush. mu and flushing are held.
func (x *Index) due(thorough bool) bool {
	if x.dead != nil || x.closed {
		return false
	}
	if thorough {
		f := x.newest()
		return x.next != x.saved.position || f != nil && (f.name != x.saved.name || f.header != x.saved.header)
	}
	return x.next-x.saved.position >= flushBytes
}

// writeHead writes the dirty pages of f's head, a few at a time, so that no put waits long. Slots may be newer than what Prepare
// has noted; they are believed after a clean stop only. If f becomes full meanwhile, who puts has written it.
func (x *Index) writeHead(f *file) error {
	for more := f != nil; more; {
		x.mu.Lock()
		if x.newest() != f {
			x.mu.Unlock()
			return nil
		}
		var err error
		more, err = x.writePages(f)
		x.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// SyncWith syncs files of others in one batch with those that wait for Finish, if any do. sync tells of each how it went, and SyncWith of the
// others' the first error. It may be called at any time, by anybody.
func (x *Index) SyncWith(fds []int, sync func(fds []int, errs []error) error) error {
	x.flushing.Lock()
	if x.synced || len(x.batch) == 0 {
		x.flushing.Unlock()
		return sync(fds, nil)
	}
	defer x.flushing.Unlock() // held meanwhile: an error is told to one only who syncs a file
	n := len(fds)
	fds = slices.Clone(fds)
	for _, f := range x.batch {
		fds = append(fds, int(f.f.Fd()))
	}
	errs := make([]error, len(fds))
	_ = sync(fds, errs) // each has its own
	x.synced, x.syncErr = true, errors.Join(errs[n:]...)
	for _, err := range errs[:n] {
		if err != nil {
			return err
		}
	}
	return nil
}

// Finish syncs what was not synced yet, and saves the progress. An error is told once; after one of a sync nothing is put any more in this
// run, since nobody knows what the device has.
func (x *Index) Finish() {
	x.flushing.Lock()
	defer x.flushing.Unlock()
	if x.candidate.geometry != x.geometry {
		return // Reset came between
	}
	err := x.syncErr
	if !x.synced && len(x.batch) > 0 {
		err = x.syncBatch()
	}
	x.mu.Lock()
	names := x.newNames
	x.newNames = false
	x.mu.Unlock()
	if err == nil && names {
		err = durable.SyncDir(x.o.Dir)
	}
	if err != nil {
		x.fail(err)
		return
	}
	if err := x.candidate.save(x.o.Progress); err != nil {
		x.mu.Lock()
		x.newNames = x.newNames || names
		x.unwritable(err)
		x.mu.Unlock()
		return
	}
	x.finished()
}

// syncBatch syncs what nobody took along. flushing is held.
func (x *Index) syncBatch() error {
	fds := make([]int, 0, len(x.batch))
	for _, f := range x.batch {
		fds = append(fds, int(f.f.Fd()))
	}
	if x.o.Sync != nil {
		return x.o.Sync(fds)
	}
	var errs []error
	for _, fd := range fds {
		errs = append(errs, fdatasync(fd))
	}
	return errors.Join(errs...)
}

// finished notes what is durable. flushing is held.
func (x *Index) finished() {
	x.saved = x.candidate
	x.savedAt.Store(int64(x.saved.position))
	x.metrics.Flushes.Add(1)
	x.metrics.FlushMicros.Add(time.Since(x.begun).Microseconds())
	x.metrics.FlushSizes.Add(x.prepared - x.flushed)
	x.flushed = x.prepared
	x.mu.Lock()
	defer x.mu.Unlock()
	full := int64(0)
	for _, f := range x.files {
		if f.name == x.saved.name {
			break
		}
		f.unsynced, full = false, f.header.endMS
	}
	x.fullMS.Store(full)
}

func (x *Index) fail(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.dead == nil {
		x.dead = fmt.Errorf("index: sync: %w", err)
		x.metrics.Failures.Add(1)
		x.o.Logger.Error("the key index could not be synced; later messages are found by key after the next start", "error", err)
	}
}

func fdatasync(fd int) error {
	for {
		if err := unix.Fdatasync(fd); err != unix.EINTR {
			return err
		}
	}
}
