package consumequeue

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// descriptors keeps the files of all queues open, as long as there are not too many. A file is open once for all its readers and
// writers, and it is closed only when everything written through its descriptor has been synced through it: an error of the
// write-back is told to the descriptors that were open then, so another one might never hear of it.
type descriptors struct {
	table *Table
	limit int

	mu       sync.Mutex
	open     map[fileKey]*descriptor
	idle     descriptor  // ring of those that may be closed: no users, synced; the one used last behind it, the oldest before it
	closing  *descriptor // chain of those that were dropped and have lost their last user
	unsynced int
	failed   error // the first sync that failed; it is never tried again
}

// fileKey names a file of a queue by its number.
type fileKey struct {
	queue  *Queue
	number int64
}

type descriptor struct {
	key  fileKey
	once sync.Once // opens
	file *file
	err  error

	// Guarded by descriptors.mu.
	next, prev *descriptor // in idle, or nil
	users      int         // it stays open while there are any
	opened     bool        // file is there
	unsynced   bool        // set before a write
	writes     uint64      // counted after a write
	dropped    bool        // no longer in open: the last user closes it
}

func newDescriptors(t *Table, limit int) *descriptors {
	d := &descriptors{table: t, limit: limit, open: make(map[fileKey]*descriptor)}
	d.idle.next, d.idle.prev = &d.idle, &d.idle
	return d
}

// use finds or opens a file; it stays open until done.
func (d *descriptors) use(q *Queue, number int64) (*descriptor, error) {
	key := fileKey{q, number}
	d.mu.Lock()
	f := d.open[key]
	if f == nil {
		f = &descriptor{key: key}
		d.open[key] = f
	}
	f.unlink()
	f.users++
	d.mu.Unlock()
	f.once.Do(func() {
		f.file, f.err = openFile(d.table.path(q.ID, number), unix.O_RDWR)
		if f.err == nil {
			d.mu.Lock()
			f.opened = true
			d.mu.Unlock()
			d.table.metrics.Opens.Add(1)
			d.table.metrics.Open.Add(1)
		}
	})
	if f.err != nil {
		d.done(f)
		return nil, fmt.Errorf("consumequeue: %w", f.err)
	}
	return f, nil
}

// done ends a use, and closes what is open beyond the limit.
func (d *descriptors) done(f *descriptor) {
	d.mu.Lock()
	d.release(f)
	surplus := d.surplus()
	d.mu.Unlock()
	d.close(surplus)
}

// release ends a use: the last one makes the descriptor idle, or a part of the surplus. mu is held.
func (d *descriptors) release(f *descriptor) {
	f.users--
	if f.err != nil && !f.dropped { // it did not open: the next use tries again
		d.forget(f)
	}
	switch {
	case f.users > 0 || f.unsynced:
	case f.dropped:
		d.chain(f)
	default:
		f.linkBehind(&d.idle)
	}
}

// chain puts f, which nobody uses or finds, among those to be closed. mu is held.
func (d *descriptors) chain(f *descriptor) { f.next, d.closing = d.closing, f }

// surplus takes out what is to be closed: the dropped ones and, while there are too many, the idle ones used longest ago. mu is held.
func (d *descriptors) surplus() *descriptor {
	for len(d.open) > d.limit && d.idle.prev != &d.idle {
		f := d.idle.prev
		d.forget(f)
		f.unlink()
		d.chain(f)
	}
	surplus := d.closing
	d.closing = nil
	return surplus
}

// close closes a chain of descriptors that nobody finds any more. Nothing unsynced was written through them: there is nothing left
// to fail.
func (d *descriptors) close(chain *descriptor) {
	for f := chain; f != nil; f = f.next {
		if f.file != nil {
			f.file.close()
			d.table.metrics.Open.Add(-1)
		}
	}
}

// forget takes f out of the books. mu is held.
func (d *descriptors) forget(f *descriptor) {
	delete(d.open, f.key)
	f.dropped = true
	if f.unsynced {
		f.unsynced = false
		d.unsynced--
	}
}

func (f *descriptor) linkBehind(at *descriptor) {
	f.prev, f.next = at, at.next
	f.next.prev, at.next = f, f
}

func (f *descriptor) unlink() {
	if f.next != nil {
		f.prev.next, f.next.prev = f.next, f.prev
		f.next, f.prev = nil, nil
	}
}

// readAt fills b from byte off of a file.
func (d *descriptors) readAt(q *Queue, number int64, b []byte, off int64) error {
	f, err := d.use(q, number)
	if err != nil {
		return err
	}
	defer d.done(f)
	if err := f.file.readAt(b, off); err != nil {
		return fmt.Errorf("consumequeue: %d bytes at %d: %w", len(b), off, err)
	}
	return nil
}

// readNow is readAt if the file is open and the bytes are in memory, else ErrWouldWait.
func (d *descriptors) readNow(q *Queue, number int64, b []byte, off int64) error {
	d.mu.Lock()
	f := d.open[fileKey{q, number}]
	if f == nil || !f.opened {
		d.mu.Unlock()
		return ErrWouldWait
	}
	f.unlink()
	f.users++
	d.mu.Unlock()
	defer d.done(f)
	return f.file.readNow(b, off)
}

// writeAt writes all of b at byte off of a file.
func (d *descriptors) writeAt(q *Queue, number int64, b []byte, off int64) error {
	f, err := d.useToWrite(q, number)
	if err != nil {
		return err
	}
	err = f.file.writeAt(b, off)
	d.written(f)
	if err != nil {
		return fmt.Errorf("consumequeue: %d bytes at %d: %w", len(b), off, err)
	}
	d.table.metrics.Writes.Add(1)
	d.table.metrics.WrittenBytes.Add(int64(len(b)))
	return nil
}

// relieve syncs when so many files wait for it: it costs less for many at once, but none of them can be closed before.
func (d *descriptors) relieve(limit int) error {
	d.mu.Lock()
	crowded := d.unsynced >= max(limit*3/4, 1)
	d.mu.Unlock()
	if !crowded {
		return nil
	}
	return d.sync()
}

func (d *descriptors) useToWrite(q *Queue, number int64) (*descriptor, error) {
	// It holds up whoever puts to or reads from q. With fewer hot queues than MaxOpen it never comes to that, and a flush makes room before.
	if err := d.relieve(d.limit); err != nil {
		return nil, err
	}
	f, err := d.use(q, number)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	if !f.unsynced {
		f.unsynced = true
		d.unsynced++
	}
	d.mu.Unlock()
	return f, nil
}

// written ends a use to write. The write is counted only now: a sync that begins while it is under way has counted one less, and
// leaves the file unsynced.
func (d *descriptors) written(f *descriptor) {
	d.mu.Lock()
	f.writes++
	d.mu.Unlock()
	d.done(f)
}

// sync makes durable what had been written when it began. A failure is final.
func (d *descriptors) sync() error {
	d.mu.Lock()
	if d.failed != nil || d.unsynced == 0 {
		defer d.mu.Unlock()
		return d.failed
	}
	batch := make([]*descriptor, 0, d.unsynced)
	writes := make([]uint64, 0, d.unsynced)
	fds := make([]int, 0, d.unsynced)
	for _, f := range d.open {
		if f.unsynced {
			f.users++
			batch = append(batch, f)
			writes = append(writes, f.writes)
			fds = append(fds, f.file.fd)
		}
	}
	d.mu.Unlock()

	err := d.table.o.Sync.SyncFds(fds)

	d.mu.Lock()
	if err != nil && d.failed == nil {
		d.failed = fmt.Errorf("consumequeue: sync of %d files: %w", len(fds), err)
	}
	err = d.failed
	for i, f := range batch {
		if err == nil && f.unsynced && f.writes == writes[i] {
			f.unsynced = false
			d.unsynced--
		}
		d.release(f)
	}
	surplus := d.surplus()
	d.mu.Unlock()
	d.close(surplus)
	if err == nil {
		d.table.metrics.SyncedFiles.Add(int64(len(batch)))
	}
	return err
}

// drop forgets the descriptors that match chooses, whose files are about to be removed, or need no sync any more. What is in use is
// closed by its last user.
func (d *descriptors) drop(match func(fileKey) bool) {
	d.mu.Lock()
	for key, f := range d.open {
		if !match(key) {
			continue
		}
		d.forget(f)
		f.unlink()
		if f.users == 0 {
			d.chain(f)
		}
	}
	surplus := d.surplus()
	d.mu.Unlock()
	d.close(surplus)
}

// truncate cuts a file to off and fills it up again with a hole, durably, through the descriptor that all else is synced through.
func (d *descriptors) truncate(q *Queue, number, off int64) error {
	f, err := d.use(q, number)
	if err != nil {
		return err
	}
	defer d.done(f)
	if err = f.file.truncate(off); err == nil {
		err = f.file.truncate(d.table.o.FileSize)
	}
	if err == nil {
		err = f.file.sync()
	}
	if err != nil {
		return fmt.Errorf("consumequeue: erase from %d on: %w", off, err)
	}
	return nil
}
