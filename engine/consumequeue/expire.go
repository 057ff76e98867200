package consumequeue

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"ringmq/internal/durable"
)

// Files of a queue go in two steps, so that no start can take a file that is missing for one that was lost: Expire raises First above them,
// and RemoveExpired removes them when a mark on the device tells of that First. Readers see nothing of either: what is below First is
// below Min as well.

// Expire raises First of every queue above the files whose entries are all below Min. The last file of a queue stays, for its name keeps the
// numbering. It tells whether there is something to be removed.
func (t *Table) Expire() bool {
	logMin := t.logMin.Load()
	if logMin == 0 {
		return false
	}
	var expired []*Queue
	for _, q := range t.all() {
		q.Min()
		if q.expire(logMin) {
			expired = append(expired, q)
		}
	}
	t.flushMu.Lock()
	defer t.flushMu.Unlock()
	t.expired = expired
	return len(expired) > 0
}

func (q *Queue) expire(logMin int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return false
	}
	perFile := q.table.o.FileSize / EntrySize
	if q.minFor.Load() == logMin { // otherwise the search failed, or entries have changed since
		first := min(q.min.Load()/perFile, q.endFile-1) * perFile
		if first > q.first.Load() {
			q.first.Store(first)
		}
	}
	return q.onDisk < q.first.Load()/perFile
}

// RemoveExpired removes the files below First of one queue that Expire has found, durably, and tells whether more queues have some. After an
// error it is to be called again.
func (t *Table) RemoveExpired() (more bool, err error) {
	t.flushMu.Lock()
	defer t.flushMu.Unlock()
	if t.closed.Load() {
		return false, ErrClosed
	}
	for n := len(t.expired); n > 0; n = len(t.expired) {
		count, err := t.expired[n-1].removeAllExpired()
		if err != nil {
			return true, err
		}
		t.expired = t.expired[:n-1]
		if count > 0 { // else it was deleted, or grew downwards meanwhile
			break
		}
	}
	return len(t.expired) > 0, nil
}

func (q *Queue) removeAllExpired() (count int, err error) {
	for {
		removed, err := q.removeExpired()
		if err != nil || !removed {
			return count, err
		}
		count++
	}
}

// removeExpired removes the first file of the queue, if it is below First. Each removal is durable before the next, so that a power cut leaves no
// gap between files: whatever stands behind one would be taken for worthless.
func (q *Queue) removeExpired() (bool, error) {
	t := q.table
	number, err := q.unlinkExpired()
	if number < 0 || err != nil {
		return false, err
	}
	t.files.drop(func(key fileKey) bool { return key == fileKey{q, number} })
	if err := durable.SyncDir(t.queueDir(q.ID)); err != nil {
		return false, err
	}
	t.metrics.RemovedFiles.Add(1)
	return true, nil
}

// unlinkExpired returns the number of the file that it unlinked, -1 if there was none.
func (q *Queue) unlinkExpired() (int64, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	number := q.onDisk
	if q.deleted || number >= q.first.Load()*EntrySize/q.table.o.FileSize {
		return -1, nil
	}
	if err := os.Remove(q.table.path(q.ID, number)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return -1, fmt.Errorf("consumequeue: %w", err)
	}
	q.onDisk = number + 1
	return number, nil
}
