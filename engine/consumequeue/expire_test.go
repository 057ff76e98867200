package consumequeue_test

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
)

// first is the number of the first file of queue T/0 on disk, -1 if there is none, and count how many there are.
func onDisk(t testing.TB, dir string) (first, count int) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "T", "0", "*"))
	check(t, err)
	first = -1
	for n := 1000; n >= 0; n-- {
		if _, err := os.Stat(file(dir, n)); err == nil {
			first = n
		}
	}
	return first, len(names)
}

// removeExpired removes all files that are to be removed.
func removeExpired(t testing.TB, table *consumequeue.Table) {
	t.Helper()
	for more := true; more; {
		var err error
		more, err = table.RemoveExpired()
		check(t, err)
	}
}

// Files whose records are all gone are hidden, then removed; what is left is as before, also after the next start.
func TestExpire(t *testing.T) {
	const entries = 5*perFile + 7
	cases := []struct {
		name        string
		min         int // records before it are gone
		first, left int // files
	}{
		{"nothing gone", 0, 0, 6},
		{"a part of a file", perFile - 1, 0, 6},
		{"just one file", perFile, 1, 5},
		{"a file and one entry", perFile + 1, 1, 5},
		{"all but the last entry", entries - 1, 5, 1},
		{"all", entries, 5, 1},
		{"more than there are", entries + 1000, 5, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := made(t, entries)
			table := open(t, consumequeue.Options{Dir: dir})
			q := table.Get(zero)
			table.SetLogMin(entry(c.min).Offset)
			if got := table.Expire(); got != (c.first > 0) {
				t.Errorf("something to remove: %v", got)
			}
			if first, left := onDisk(t, dir); first != 0 || left != 6 {
				t.Errorf("Expire has removed files: %d from %d on", left, first)
			}
			expect(t, q, c.first*perFile, entries)
			removeExpired(t, table)
			if first, left := onDisk(t, dir); first != c.first || left != c.left {
				t.Errorf("%d files from %d on, want %d from %d on", left, first, c.left, c.first)
			}
			if table.Expire() {
				t.Error("something is left to be removed")
			}
			want := message.QueueOffset(min(c.min, entries))
			if got := q.Min(); got != want {
				t.Errorf("min is %d, want %d", got, want)
			}
			put(t, q, entries, entries+perFile)
			check(t, table.Close())

			table = open(t, consumequeue.Options{Dir: dir})
			defer table.Close()
			q = table.Find([]byte("T"), 0)
			expect(t, q, c.first*perFile, entries+perFile)
		})
	}
}

// A queue whose last file is full, and one with entries in memory only, keep what names their numbering.
func TestExpireKeepsTheLastFile(t *testing.T) {
	dir := made(t, 2*perFile)
	table := open(t, consumequeue.Options{Dir: dir})
	q := table.Get(zero)
	table.SetLogMin(entry(2 * perFile).Offset)
	table.Expire()
	removeExpired(t, table)
	expect(t, q, perFile, 2*perFile)
	if q.Min() != 2*perFile {
		t.Errorf("min is %d", q.Min())
	}
	put(t, q, 2*perFile, 2*perFile+3) // in memory: there is no file for them yet
	table.SetLogMin(entry(2*perFile + 1).Offset)
	table.Expire()
	removeExpired(t, table)
	expect(t, q, perFile, 2*perFile+3)
	check(t, table.Flush())
	table.Expire()
	removeExpired(t, table)
	expect(t, q, 2*perFile, 2*perFile+3)

	memory := table.Get(consumequeue.ID{Topic: "M", QueueID: 1})
	check(t, memory.Put(0, entry(0)))
	table.SetLogMin(entry(1000).Offset)
	table.Expire()
	removeExpired(t, table)
	if memory.First() != 0 || memory.Min() != 1 || memory.Max() != 1 {
		t.Errorf("queue in memory: first %d, min %d, max %d", memory.First(), memory.Min(), memory.Max())
	}
	check(t, table.Close())
	table = open(t, consumequeue.Options{Dir: dir})
	defer table.Close()
	if memory = table.Find([]byte("M"), 1); memory == nil || memory.Max() != 1 {
		t.Error("the queue in memory was not written")
	}
}

// A process that was killed between the two steps, or in the middle of the second, leaves files that the next one removes.
func TestRemovalIsTakenUpAgain(t *testing.T) {
	dir := made(t, 4*perFile+1)
	for n := range 2 {
		check(t, os.Remove(file(dir, n))) // what was removed before the kill
	}
	table := open(t, consumequeue.Options{Dir: dir})
	defer table.Close()
	table.SetLogMin(entry(4 * perFile).Offset)
	if !table.Expire() {
		t.Error("nothing to remove")
	}
	removeExpired(t, table)
	if first, left := onDisk(t, dir); first != 4 || left != 1 {
		t.Errorf("%d files from %d on", left, first)
	}
	check(t, table.Delete("T"))
	table.Expire()
	removeExpired(t, table)
}

// A file that cannot be removed is tried again; until then it is not seen.
func TestRemovalFails(t *testing.T) {
	dir := made(t, 3*perFile+1)
	table := open(t, consumequeue.Options{Dir: dir})
	defer table.Close()
	table.SetLogMin(entry(3 * perFile).Offset)
	table.Expire()
	// A folder that is not empty cannot be removed as a file.
	check(t, os.Rename(file(dir, 1), file(dir, 1)+".aside"))
	check(t, os.MkdirAll(filepath.Join(file(dir, 1), "x"), 0o755))
	if _, err := table.RemoveExpired(); err == nil {
		t.Fatal("no error")
	}
	expect(t, table.Get(zero), 3*perFile, 3*perFile+1)
	check(t, os.RemoveAll(file(dir, 1)))
	if !table.Expire() {
		t.Error("nothing left to remove")
	}
	removeExpired(t, table)
	if first, _ := onDisk(t, dir); first != 3 {
		t.Errorf("the first file is %d", first)
	}
}

// Entries that come below First again, as when a store is rebuilt, find their files made anew, also those that waited to be removed.
func TestPutBelowExpired(t *testing.T) {
	dir := made(t, 4*perFile)
	table := open(t, consumequeue.Options{Dir: dir})
	defer table.Close()
	q := table.Get(zero)
	table.SetLogMin(entry(3 * perFile).Offset)
	table.Expire()
	put(t, q, perFile, perFile+1)
	if q.First() != perFile {
		t.Fatalf("first is %d", q.First())
	}
	removeExpired(t, table)
	if first, left := onDisk(t, dir); first != 1 || left != 3 {
		t.Errorf("%d files from %d on", left, first)
	}
	var entries [2]consumequeue.Entry
	if n, err := q.Read(perFile, entries[:]); n != 2 || err != nil || entries[0] != entry(perFile) || !entries[1].Filler() {
		t.Errorf("read %d, %v, %v", n, entries, err)
	}
}

// Who reads and searches while files go gets right entries or none, and never a minimum that is too high.
func TestReadersWhileFilesGo(t *testing.T) {
	const entries = 40 * perFile
	dir := made(t, entries)
	table := open(t, consumequeue.Options{Dir: dir, MaxOpen: 4})
	defer table.Close()
	q := table.Get(zero)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for i := range 3 {
		readers.Go(func() {
			var some [70]consumequeue.Entry
			for at := i; ; at = (at + 37) % entries {
				select {
				case <-stop:
					return
				default:
				}
				low := q.Min()
				if high := q.Min(); high < low || high > entries-1 {
					t.Errorf("min went from %d to %d", low, high)
					return
				}
				n, err := q.Read(message.QueueOffset(at), some[:])
				if err != nil {
					t.Error(err)
					return
				}
				for j, e := range some[:n] {
					if e != entry(at+j) {
						t.Errorf("entry %d is %+v", at+j, e)
						return
					}
				}
				target := message.Offset((entries - 1) * 100)
				found, err := q.Search(func(e consumequeue.Entry) bool { return e.Offset < target })
				if err != nil || found != entries-1 {
					t.Errorf("search found %d, %v", found, err)
					return
				}
			}
		})
	}
	for n := perFile / 2; n < entries; n += perFile {
		table.SetLogMin(entry(n).Offset)
		if table.Expire() {
			removeExpired(t, table)
		}
	}
	close(stop)
	readers.Wait()
	expect(t, q, 39*perFile, entries)
}

// Each call removes the files of one queue, so that there may be pauses and other rounds in between.
func TestRemovalGoesQueueByQueue(t *testing.T) {
	dir := t.TempDir()
	table := open(t, consumequeue.Options{Dir: dir})
	defer table.Close()
	const queues = 5
	for id := range int32(queues) {
		q := table.Get(consumequeue.ID{Topic: "T", QueueID: id})
		put(t, q, 0, (int(id)+1)*perFile+1) // the last file of each stays
	}
	check(t, table.Flush())
	table.SetLogMin(entry(10 * perFile).Offset)
	if !table.Expire() {
		t.Fatal("nothing to remove")
	}
	for left := queues; left > 0; left-- {
		more, err := table.RemoveExpired()
		check(t, err)
		if more != (left > 1) {
			t.Errorf("with %d queues left there is more: %v", left, more)
		}
		full := 0
		for id := range queues {
			names, err := filepath.Glob(filepath.Join(dir, "T", strconv.Itoa(id), "*"))
			check(t, err)
			switch len(names) {
			case id + 2:
				full++
			case 1:
			default:
				t.Errorf("queue %d has %d files left, want all or one", id, len(names))
			}
		}
		if full != left-1 {
			t.Errorf("%d queues have all their files, want %d", full, left-1)
		}
		check(t, table.Flush()) // nobody is locked out
	}
	if more, err := table.RemoveExpired(); more || err != nil {
		t.Errorf("at the end: %v, %v", more, err)
	}
}
