package engine_test

import (
	"strings"
	"testing"
)

// Counters reach the parts, and one line tells whether the pool's memory is locked.
func TestCounters(t *testing.T) {
	o := small(t.TempDir())
	o.SyncFlush, o.UnlockedPool = true, false
	var book logBook
	o.Logger = book.logger()
	s := open(t, o)
	for range 10 {
		put(t, s, 0, strings.Repeat("x", 20_000)) // rolls
	}
	settle(t, s)
	c := s.Counters()
	flushes, micros := c.Flush.FlushMicros.Counts(func(upTo, count int64) {})
	waits, answered := c.Flush.FlushWaits.Counts(func(upTo, count int64) {})
	if flushes == 0 || flushes != c.Flush.Flushes.Load() || micros == 0 || waits != flushes || answered != 10 {
		t.Errorf("%d flushes took %d µs; %d answered %d waits", flushes, micros, waits, answered)
	}
	if _, bytes := c.Flush.FlushSizes.Counts(func(upTo, count int64) {}); bytes != c.Flush.FlushedBytes.Load() || bytes == 0 {
		t.Errorf("flushes covered %d bytes, counted as %d", c.Flush.FlushedBytes.Load(), bytes)
	}
	if commits, bytes := c.Flush.CommitSizes.Counts(func(upTo, count int64) {}); commits != c.Flush.Commits.Load() || bytes != c.Flush.CommittedBytes.Load() {
		t.Errorf("%d commits of %d bytes, counted as %d of %d", c.Flush.Commits.Load(), c.Flush.CommittedBytes.Load(), commits, bytes)
	}
	if c.Store.Puts.Load() != 10 || c.Log.Rolls.Load() == 0 || c.Segments.Prepared.Load() == 0 || c.Segments.Created.Load() == 0 ||
		c.Segments.Writes.Load() == 0 || c.Queues.Entries.Load() != 10 {
		t.Error("counters of a part stay at 0")
	}
	closeStore(t, s)
	// All entries are durable by now, and so are the keys: each message has a unique one.
	if flushes, bytes := c.Queues.FlushSizes.Counts(func(upTo, count int64) {}); flushes != c.Queues.Flushes.Load() || bytes != 10*20 {
		t.Errorf("%d flushes of queues, counted as %d of %d bytes", c.Queues.Flushes.Load(), flushes, bytes)
	}
	if flushes, bytes := c.Index.FlushSizes.Counts(func(upTo, count int64) {}); flushes != c.Index.Flushes.Load() || bytes < c.Index.WrittenBytes.Load() {
		t.Errorf("%d flushes of the index, counted as %d of %d bytes", c.Index.Flushes.Load(), flushes, bytes)
	}
	// The pool's memory is locked by then, or that was refused.
	if !book.has("the pool's memory is locked") && !book.has("the pool's memory cannot be locked", "error=") {
		t.Errorf("nothing is said of the pool's memory:\n%s", book.String())
	}
}
