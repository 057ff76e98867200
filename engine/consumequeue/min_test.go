package consumequeue_test

import (
	"testing"

	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
)

// The minimum of a queue whose records are all above the log's, or all below, is known without a file. Of others it is searched, and not by
// those who must not wait.
func TestMinIsSearchedOnceAndNotByLoops(t *testing.T) {
	const entries = 3*perFile + 5
	dir := made(t, entries)
	var metrics consumequeue.Metrics
	table := open(t, consumequeue.Options{Dir: dir, Metrics: &metrics})
	defer table.Close()
	q := table.Get(zero)
	expect := func(what string, want int, known bool, opens int64) {
		t.Helper()
		before := metrics.Opens.Load()
		got, ok := q.MinNow()
		if ok != known || ok && got != message.QueueOffset(want) {
			t.Errorf("%s: min is %d, known %v; want %d, %v", what, got, ok, want, known)
		}
		if known {
			if got := q.Min(); got != message.QueueOffset(want) {
				t.Errorf("%s: min is %d, want %d", what, got, want)
			}
		}
		if n := metrics.Opens.Load() - before; n != opens {
			t.Errorf("%s: %d files were opened, want %d", what, n, opens)
		}
	}
	table.SetLogMin(entry(perFile + 3).Offset)
	expect("after a start", 0, false, 0)
	table.RefreshMins()
	expect("searched", perFile+3, true, 0)
	table.SetLogMin(entry(perFile+3).Offset - 1)
	expect("a minimum that went back", perFile+3, true, 0) // the files are open, and in memory
	table.SetLogMin(entry(perFile + 3).Offset)
	expect("the same record is the first", perFile+3, true, 0)
	table.SetLogMin(entry(entries).Offset)
	expect("all gone", entries, true, 0)
	check(t, q.Put(entries, entry(entries)))
	expect("one more, at the minimum", entries, true, 0)
	table.SetLogMin(entry(entries + 1).Offset)
	expect("and it is gone, too", entries+1, true, 0)

	other := open(t, consumequeue.Options{Dir: made(t, entries), Metrics: &metrics})
	defer other.Close()
	q = other.Get(zero)
	other.SetLogMin(entry(entries + 100).Offset)
	expect("all gone at the start", entries, true, 0)
	check(t, q.Put(entries, entry(entries+100)))
	other.SetLogMin(entry(entries + 100).Offset)
	expect("the first that is there again", entries, true, 0)
}
