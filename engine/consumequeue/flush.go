package consumequeue

import (
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"ringmq/internal/durable"
)

// dirsOneByOne is the number of folders up to which each is synced by itself. More of them, as when thousands of queues get their first
// entry, are made durable together with everything else on the file system: one commit of its journal instead of one flush of the
// device for each.
const dirsOneByOne = 64

// Flush makes everything that was put before it durable: the tails are written, then the files are synced in batches, then the
// folders of new files. An error of a write (a full disk) may pass, and the next Flush tries again; an error of a sync is final and
// returned by every later Flush, for what the device has is not known any more.
func (t *Table) Flush() error {
	t.flushMu.Lock()
	defer t.flushMu.Unlock()
	if t.closed.Load() {
		return ErrClosed
	}
	return t.flush()
}

// flush is Flush with flushMu held.
func (t *Table) flush() error {
	if t.failed != nil {
		return t.failed
	}
	start, synced := time.Now(), t.metrics.SyncedFiles.Load()
	if err := t.writeTails(); err != nil {
		return err
	}
	// Folders are taken before the files are synced: what a put makes meanwhile is not promised now, and not lost either.
	t.dirtyMu.Lock()
	unsettled := t.unsettled
	t.unsettled = nil
	t.dirtyMu.Unlock()
	written := t.metrics.WrittenBytes.Load()
	if err := t.files.sync(); err != nil {
		t.failed = err
		return err
	}
	if err := t.syncDirs(unsettled); err != nil {
		t.failed = err
		return err
	}
	t.metrics.Flushes.Add(1)
	t.metrics.FlushMicros.Add(time.Since(start).Microseconds())
	t.metrics.FlushFiles.Add(t.metrics.SyncedFiles.Load() - synced)
	t.metrics.FlushSizes.Add(written - t.flushedBytes)
	t.flushedBytes = written
	return nil
}

// writeTails writes out every tail there is. What cannot be written stays queued.
func (t *Table) writeTails() error {
	t.dirtyMu.Lock()
	dirty := t.dirty
	t.dirty = nil
	t.dirtyMu.Unlock()
	for i, q := range dirty {
		// A little before whoever puts would have to, with the queue's lock.
		err := t.files.relieve(t.files.limit * 3 / 4)
		if err == nil {
			err = q.flushTail()
		}
		if err != nil {
			t.dirtyMu.Lock()
			t.dirty = append(t.dirty, dirty[i:]...)
			t.dirtyMu.Unlock()
			return err
		}
	}
	return nil
}

// flushTail writes out the tail and gives its memory back. After an error the queue is still counted as queued.
func (q *Queue) flushTail() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return nil
	}
	if err := q.writeOut(); err != nil {
		return err
	}
	if q.tail != nil {
		q.dropTail()
	}
	q.queued = false
	return nil
}

// syncDirs makes the names of the queues' files durable, and of the folders above.
func (t *Table) syncDirs(queues []*Queue) error {
	if len(queues) == 0 {
		return nil
	}
	dirs := map[string]struct{}{t.o.Dir: {}}
	for _, q := range queues {
		dir := t.queueDir(q.ID)
		dirs[dir] = struct{}{}
		dirs[filepath.Dir(dir)] = struct{}{}
	}
	t.metrics.SyncedDirs.Add(int64(len(dirs)))
	if len(dirs) > dirsOneByOne {
		return syncFileSystem(t.o.Dir)
	}
	for dir := range dirs {
		if err := durable.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// syncFileSystem makes durable what is on the file system of dir. Since Linux 5.8 it tells of failed write-back.
func syncFileSystem(dir string) error {
	f, err := openFile(dir, unix.O_RDONLY)
	if err != nil {
		return fmt.Errorf("consumequeue: %w", err)
	}
	defer f.close()
	if err := unix.Syncfs(f.fd); err != nil {
		return fmt.Errorf("consumequeue: sync the file system of %s: %w", dir, err)
	}
	return nil
}

func (t *Table) addDirty(q *Queue) {
	t.dirtyMu.Lock()
	t.dirty = append(t.dirty, q)
	t.dirtyMu.Unlock()
}

func (t *Table) addUnsettled(q *Queue) {
	t.dirtyMu.Lock()
	t.unsettled = append(t.unsettled, q)
	t.dirtyMu.Unlock()
}
