package consumequeue_test

import (
	"bytes"
	"os"
	"testing"

	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
)

func TestCut(t *testing.T) {
	t.Parallel()
	f := func(flushed, total int, end message.Offset, want int) {
		t.Helper()
		dir := t.TempDir()
		table := open(t, consumequeue.Options{Dir: dir})
		q := table.Get(zero)
		put(t, q, 0, flushed)
		check(t, table.Flush())
		put(t, q, flushed, total)
		q.Min()
		dropped, err := table.Cut(end)
		if err != nil || dropped != total-want {
			t.Fatalf("cut at %d of %d: dropped %d, %v, want %d", end, total, dropped, err, total-want)
		}
		expect(t, q, 0, want)
		if q.Min() != 0 || want == 0 && q.LastOffset() != 0 || dropped > 0 && q.Next != message.QueueOffset(want) {
			t.Errorf("min %d, last %d, next %d", q.Min(), q.LastOffset(), q.Next)
		}
		// Opened without a flush or a close, as after a kill: nothing comes back, also when the queue grows.
		if dropped > 0 {
			again := open(t, consumequeue.Options{Dir: dir})
			expect(t, again.Get(zero), 0, want)
			check(t, again.Close())
			for n := want/perFile + 1; n < 6; n++ {
				if want%perFile == 0 && n == want/perFile+1 {
					continue
				}
				if _, err := os.Stat(file(dir, n)); err == nil {
					t.Errorf("file %d is still there", n)
				}
			}
		}
		put(t, q, want, want+2)
		check(t, table.Close())
		table = open(t, consumequeue.Options{Dir: dir})
		expect(t, table.Get(zero), 0, want+2)
		check(t, table.Close())
	}
	f(120, 120, 12000, 120)
	f(120, 120, 11999, 119) // a record that is cut in half is no record
	f(120, 120, 11900, 119)
	f(120, 120, 11801, 118)
	f(120, 120, 10000, 100)
	f(120, 120, 9900, 99)
	f(120, 120, 5000, 50)
	f(120, 120, 100, 1)
	f(120, 120, 0, 0)
	f(60, 130, 12000, 120)
	f(60, 130, 5500, 55)
	f(0, 130, 200, 2)
	f(0, 10, 0, 0)
	f(150, 160, 15000, 150)
}

// An entry that has rotted does not take the good ones behind it along.
func TestCutBesideRot(t *testing.T) {
	t.Parallel()
	for rotten := range 99 {
		dir := t.TempDir()
		table := open(t, consumequeue.Options{Dir: dir})
		put(t, table.Get(zero), 0, 120)
		check(t, table.Close())
		overwrite(t, file(dir, rotten/perFile), int64(rotten%perFile)*consumequeue.EntrySize,
			consumequeue.AppendEntry(nil, consumequeue.Entry{Offset: 1 << 60, Size: 100}))
		table = open(t, consumequeue.Options{Dir: dir})
		if dropped, err := table.Cut(10000); err != nil || dropped != 20 || table.Get(zero).Max() != 100 {
			t.Errorf("rot at %d: dropped %d, max %d, %v, want the 20 behind the end", rotten, dropped, table.Get(zero).Max(), err)
		}
		check(t, table.Close())
	}
}

// A queue whose entries are all dropped keeps the numbers it had.
func TestCutKeepsTheNumbering(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	table := open(t, consumequeue.Options{Dir: dir})
	q := table.Get(zero)
	put(t, q, 120, 230)
	check(t, table.Flush())
	if dropped, err := table.Cut(0); err != nil || dropped != 110 { // the fillers stay
		t.Fatalf("dropped %d, %v", dropped, err)
	}
	if q.First() != 100 || q.Max() != 120 || q.Min() != 120 || q.LastOffset() != 0 {
		t.Errorf("first %d, max %d, min %d", q.First(), q.Max(), q.Min())
	}
	check(t, table.Close())
	table = open(t, consumequeue.Options{Dir: dir})
	q = table.Get(zero)
	if q.First() != 100 || q.Max() != 120 || q.Next != 120 {
		t.Errorf("opened: first %d, max %d, next %d", q.First(), q.Max(), q.Next)
	}
	put(t, q, 120, 130)
	if q.Min() != 120 || q.Max() != 130 {
		t.Errorf("min %d, max %d", q.Min(), q.Max())
	}
	check(t, table.Close())

	// Also without fillers: the first file stays, empty.
	dir = made(t, 120)
	check(t, os.Remove(file(dir, 0)))
	table = open(t, consumequeue.Options{Dir: dir})
	_, err := table.Cut(0)
	check(t, err)
	check(t, table.Close())
	table = open(t, consumequeue.Options{Dir: dir})
	q = table.Get(zero)
	expect(t, q, 50, 50)
	put(t, q, 50, 60)
	expect(t, q, 50, 60)
	check(t, table.Close())
}

// Missing first files are made anew when their entries are put again.
func TestMissingFirstFilesAreRebuilt(t *testing.T) {
	t.Parallel()
	dir := made(t, 220)
	check(t, os.Remove(file(dir, 0)))
	check(t, os.Remove(file(dir, 1)))
	var l logged
	table := open(t, consumequeue.Options{Dir: dir, Logger: l.logger()})
	q := table.Get(zero)
	expect(t, q, 100, 220)
	check(t, q.Put(10, entry(10)))
	if q.First() != 0 || q.Min() != 10 {
		t.Errorf("first %d, min %d", q.First(), q.Min())
	}
	l.expectLines(t, "missing files of a consume queue were made anew")
	put(t, q, 0, 220)
	expect(t, q, 0, 220)
	check(t, table.Close())
	table = open(t, consumequeue.Options{Dir: dir})
	expect(t, table.Get(zero), 0, 220)
	check(t, table.Close())
	b, err := os.ReadFile(file(dir, 1))
	if want := consumequeue.AppendEntry(nil, entry(50)); err != nil || !bytes.HasPrefix(b, want) {
		t.Errorf("file 1 begins with %x, %v", b[:20], err)
	}
}
