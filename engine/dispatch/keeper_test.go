package dispatch_test

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ringmq/engine/checkpoint"
	"ringmq/engine/consumequeue"
	"ringmq/engine/dispatch"
	"ringmq/engine/message"
)

// keptStore is what a Keeper keeps: positions set by the test, and a note of what happened in which order.
type keptStore struct {
	mu       sync.Mutex
	table    *consumequeue.Table
	flushed  message.Offset
	end      message.Offset
	position dispatch.Position
	happened []string
	flushErr error
}

func (k *keptStore) note(what string) { k.happened = append(k.happened, what) }

func (k *keptStore) Flushed() message.Offset {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.flushed
}

func (k *keptStore) FlushLog() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.note("log")
	k.flushed = k.end
	return nil
}

func (k *keptStore) Position() dispatch.Position {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.position
}

func (k *keptStore) Range(fn func(*consumequeue.Queue) bool) { k.table.Range(fn) }

func (k *keptStore) Flush() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.note("queues")
	if k.flushErr != nil {
		return k.flushErr
	}
	return k.table.Flush()
}

func (k *keptStore) set(flushed, end message.Offset, p dispatch.Position) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.flushed, k.end, k.position = flushed, end, p
}

func (k *keptStore) take() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := k.happened
	k.happened = nil
	return list
}

func keeperOf(k *keptStore, dir string) *dispatch.Keeper {
	return dispatch.NewKeeper(dispatch.KeeperOptions{
		Log: k, FlushLog: k.FlushLog, Queues: k, Position: k.Position, SegmentSize: segmentSize,
		Settings: func() dispatch.Settings {
			return dispatch.Settings{IntervalMS: 1000, ThoroughIntervalMS: 60_000, LeastPages: 2}
		},
		MarkPath: filepath.Join(dir, "mark"), CheckpointPath: filepath.Join(dir, "checkpoint"),
		Checkpoint: checkpoint.Checkpoint{IndexTimeMS: 77},
		Now:        func() int64 { return time.Now().UnixMilli() },
		Logger:     slog.New(slog.DiscardHandler),
	})
}

func readMark(t testing.TB, dir string) checkpoint.Mark {
	t.Helper()
	m, ok, err := checkpoint.LoadMark(filepath.Join(dir, "mark"))
	if err != nil || !ok {
		t.Fatalf("mark: %v, %v", ok, err)
	}
	return m
}

func at(dispatched, last message.Offset, entries int64) dispatch.Position {
	return dispatch.Position{Dispatched: dispatched, Last: last, LastStoreTimeMS: int64(last) + 1, Entries: entries}
}

// The mark never says more than is on the device, whoever is ahead; and each interval does what it is for.
func TestKeeper(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		table := openTable(t, filepath.Join(dir, "queues"))
		k := &keptStore{table: table, position: dispatch.Position{Last: -1}}
		keeper := keeperOf(k, dir)
		if err := keeper.Start(); err != nil {
			t.Fatal(err)
		}
		if m := readMark(t, dir); m.Last != -1 || m.Clean || m.Flushed != 0 {
			t.Errorf("first mark %+v", m)
		}
		k.take()

		// Little is dirty: nothing is flushed, and in the same segment no mark is due.
		k.set(500, 1000, at(400, 300, 10))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := k.take(); len(got) != 0 || readMark(t, dir).Flushed != 0 {
			t.Errorf("little dirt: %v, mark %+v", got, readMark(t, dir))
		}

		// The log was flushed thoroughly: only its part of the mark moves.
		keeper.LogFlushed(500)
		synctest.Wait()
		if m := readMark(t, dir); m.Flushed != 500 || m.Dispatched != 0 || m.Last != 300 || m.LastStoreTimeMS != 301 {
			t.Errorf("after a thorough flush: mark %+v", m)
		}

		// A new segment has been reached.
		k.set(segmentSize+1, segmentSize+500, at(segmentSize-10, segmentSize-100, 20))
		time.Sleep(time.Second)
		synctest.Wait()
		if m := readMark(t, dir); m.Flushed != segmentSize+1 || m.Dispatched != 0 || m.Last != segmentSize-100 {
			t.Errorf("after a roll: mark %+v", m)
		}

		// Two pages of entries: the queues are flushed, but so few bytes of log are no reason for a mark.
		if err := table.Get(consumequeue.ID{Topic: "T"}).Put(0, consumequeue.Entry{Offset: 300, Size: 100}); err != nil {
			t.Fatal(err)
		}
		k.set(segmentSize+1, segmentSize+500, at(segmentSize-5, segmentSize-100, 500))
		time.Sleep(time.Second)
		synctest.Wait()
		if got := k.take(); !slices.Equal(got, []string{"queues"}) || readMark(t, dir).Dispatched != 0 {
			t.Errorf("two dirty pages: %v, mark %+v", got, readMark(t, dir))
		}

		// 40 MiB of log: dispatch is ahead of the device, so the mark says what the device has, and names a record before that.
		k.set(40<<20, 50<<20, at(45<<20, 45<<20-100, 1000))
		time.Sleep(time.Second)
		synctest.Wait()
		m := readMark(t, dir)
		if m.Flushed != 40<<20 || m.Dispatched != 40<<20 || m.Last != segmentSize-100 || len(m.Queues) != 1 || m.Queues[0].Max != 1 {
			t.Errorf("under load: mark %+v", m)
		}

		// The thorough interval: log first, then queues, then mark and checkpoint.
		k.take()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := k.take(); !slices.Equal(got, []string{"log", "queues"}) {
			t.Errorf("thorough: %v", got)
		}
		if m := readMark(t, dir); m.Flushed != 50<<20 || m.Dispatched != 45<<20 || m.Last != 45<<20-100 {
			t.Errorf("thorough: mark %+v", m)
		}
		c, err := checkpoint.Load(filepath.Join(dir, "checkpoint"))
		want := checkpoint.Checkpoint{
			LogTimeMS: 45<<20 - 99, QueueTimeMS: 45<<20 - 99, IndexTimeMS: 77, Confirmed: 45<<20 - 100, QueueOffset: 45 << 20,
		}
		if err != nil || c != want {
			t.Errorf("checkpoint %+v, %v, want %+v", c, err, want)
		}

		// Idle: the next thorough interval finds what it knows.
		k.set(50<<20, 50<<20, at(50<<20, 50<<20-100, 1100))
		time.Sleep(time.Minute)
		synctest.Wait()
		k.take()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := k.take(); len(got) != 0 {
			t.Errorf("idle: %v", got)
		}

		if err := keeper.Close(true); err != nil {
			t.Fatal(err)
		}
		if got := k.take(); !slices.Equal(got, []string{"log", "queues"}) {
			t.Errorf("close: %v", got)
		}
		if m := readMark(t, dir); !m.Clean || m.Flushed != 50<<20 || m.Dispatched != 50<<20 {
			t.Errorf("close: mark %+v", m)
		}
	})
}

// When the queues cannot be flushed, neither mark nor checkpoint say that they are.
func TestKeeperClaimsNothingAfterAFailure(t *testing.T) {
	dir := t.TempDir()
	k := &keptStore{table: openTable(t, filepath.Join(dir, "queues")), position: dispatch.Position{Last: -1}}
	keeper := keeperOf(k, dir)
	if err := keeper.Start(); err != nil {
		t.Fatal(err)
	}
	k.set(100, 100, at(100, 50, 10))
	k.flushErr = errors.New("broken disk")
	if err := keeper.Close(true); !errors.Is(err, k.flushErr) {
		t.Errorf("close: %v", err)
	}
	if m := readMark(t, dir); m.Clean || m.Dispatched != 0 {
		t.Errorf("mark %+v", m)
	}
	if c, err := checkpoint.Load(filepath.Join(dir, "checkpoint")); err != nil || c.QueueOffset != 0 {
		t.Errorf("checkpoint %+v, %v", c, err)
	}
}

// A keeper that is not to end cleanly leaves the mark as it was.
func TestKeeperClosedUncleanly(t *testing.T) {
	dir := t.TempDir()
	k := &keptStore{table: openTable(t, filepath.Join(dir, "queues")), position: dispatch.Position{Last: -1}}
	keeper := keeperOf(k, dir)
	if err := keeper.Start(); err != nil {
		t.Fatal(err)
	}
	before := fmt.Sprintf("%+v", readMark(t, dir))
	k.set(100, 100, at(100, 50, 10))
	if err := keeper.Close(false); err != nil {
		t.Fatal(err)
	}
	if after := fmt.Sprintf("%+v", readMark(t, dir)); after != before {
		t.Errorf("mark %s, was %s", after, before)
	}
}
