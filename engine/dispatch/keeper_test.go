package dispatch_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
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
	flushing chan struct{} // Flush waits for it if it is not nil
	takes    time.Duration // and so long

	limit    message.Offset
	limitErr error
}

func (k *keptStore) note(what string) { k.happened = append(k.happened, what) }

func (k *keptStore) Flushed() message.Offset {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.flushed
}

func (k *keptStore) Reached() message.Offset {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.end
}

func (k *keptStore) SetLimit(limit message.Offset) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.limit, k.limitErr = limit, nil
}

func (k *keptStore) LimitFailed(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.limitErr = err
}

func (k *keptStore) limited() (message.Offset, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.limit, k.limitErr
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
	if k.flushing != nil {
		<-k.flushing
	}
	time.Sleep(k.takes)
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
	return dispatch.NewKeeper(optionsOf(k, dir))
}

func optionsOf(k *keptStore, dir string) dispatch.KeeperOptions {
	return dispatch.KeeperOptions{
		Log: k, FlushLog: k.FlushLog, Queues: k, Position: k.Position, SegmentSize: segmentSize,
		Settings: func() dispatch.Settings {
			return dispatch.Settings{IntervalMS: 1000, ThoroughIntervalMS: 60_000, LeastPages: 2}
		},
		MarkPath: filepath.Join(dir, "mark"), CheckpointPath: filepath.Join(dir, "checkpoint"),
		Checkpoint: checkpoint.Checkpoint{IndexTimeMS: 77},
		Now:        func() int64 { return time.Now().UnixMilli() },
		Logger:     slog.New(slog.DiscardHandler),
	}
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

// A segment may go when a mark on the device has outlived it: its records have durable entries, and the record that names the mark is another's.
func TestKeeperOutlives(t *testing.T) {
	dir := t.TempDir()
	k := &keptStore{table: openTable(t, filepath.Join(dir, "queues")), position: dispatch.Position{Last: -1}}
	keeper := keeperOf(k, dir)
	if err := keeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer keeper.Close(false)
	if got := keeper.Outlived(); got > 0 {
		t.Errorf("an empty log: %d", got)
	}
	k.set(100, 2000, at(1500, 1400, 10)) // flushed, appended, dispatched
	if got := keeper.Outlived(); got > 0 {
		t.Errorf("before a mark: %d", got)
	}
	k.take()
	if err := keeper.Keep(); err != nil {
		t.Fatal(err)
	}
	if got := k.take(); !slices.Equal(got, []string{"log", "queues"}) {
		t.Errorf("kept %v", got)
	}
	if m := readMark(t, dir); m.Dispatched != 1500 || m.Last != 1400 || keeper.Outlived() != 1400 {
		t.Errorf("mark %+v, outlived %d", m, keeper.Outlived())
	}
	k.set(3000, 3000, at(3000, 2900, 20))
	k.flushErr = errors.New("broken disk")
	if err := keeper.Keep(); !errors.Is(err, k.flushErr) || keeper.Outlived() != 1400 {
		t.Errorf("%v, outlived %d", err, keeper.Outlived())
	}
}

// The settings of the queues' flush are followed at once, also by an interval that is under way.
func TestKeeperSettingsChangeLive(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		k := &keptStore{table: openTable(t, filepath.Join(dir, "queues")), position: dispatch.Position{Last: -1}}
		settings := dispatch.Settings{IntervalMS: 3_600_000, ThoroughIntervalMS: 1 << 40, LeastPages: 0}
		var mu sync.Mutex
		o := optionsOf(k, dir)
		o.Settings = func() dispatch.Settings { mu.Lock(); defer mu.Unlock(); return settings }
		keeper := dispatch.NewKeeper(o)
		if err := keeper.Start(); err != nil {
			t.Fatal(err)
		}
		k.take()
		change := func(change func()) {
			mu.Lock()
			change()
			mu.Unlock()
			keeper.SettingsChanged()
		}
		entries := int64(0)
		expect := func(what string, after time.Duration, want ...string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := k.take(); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		put := func() {
			entries++
			k.set(100, 100, at(100, 50, entries))
		}
		put()
		expect("in an hour", 10*time.Minute)
		change(func() { settings.IntervalMS = 1_200_000 })
		expect("in ten minutes", 10*time.Minute-time.Millisecond)
		expect("after the shorter interval", time.Millisecond, "queues")
		change(func() { settings.IntervalMS, settings.LeastPages = 1000, 1 })
		put()
		expect("less than a page", time.Minute)
		change(func() { settings.LeastPages = 0 })
		expect("any entry", time.Second, "queues")
		change(func() { settings.LeastPages = 1 })
		put()
		change(func() { settings.ThoroughIntervalMS = 5000 })
		expect("thorough", time.Second, "log", "queues")
		if err := keeper.Close(false); err != nil {
			t.Error(err)
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

// The log may grow up to what a mark that is on the device says, and the limit is raised also while a round waits for the device.
func TestKeeperRaisesTheLimit(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		k := &keptStore{table: openTable(t, filepath.Join(dir, "queues")), position: dispatch.Position{Last: -1}}
		k.set(1000, 1000, at(1000, 900, 0))
		keeper := keeperOf(k, dir)
		if err := keeper.Start(); err != nil {
			t.Fatal(err)
		}
		check := func(want message.Offset, fails bool) {
			t.Helper()
			synctest.Wait()
			if limit, err := k.limited(); limit != want || (err != nil) != fails || readMark(t, dir).Limit != want {
				t.Errorf("limit %d, %v, that of the mark %d; want %d, failing %v", limit, err, readMark(t, dir).Limit, want, fails)
			}
		}
		check(1000+16<<20, false)

		k.flushing = make(chan struct{})
		k.set(1000, 10<<20, at(1000, 900, 5000)) // enough entries for a flush, which hangs
		time.Sleep(time.Second)
		keeper.LimitNear()
		check(26<<20, false)

		// A log that grows fast gets more ahead.
		k.set(1000, 400<<20+1000, at(1000, 900, 5000))
		keeper.LimitNear()
		check(450<<20+1000, false)
		k.set(1000, 4<<30, at(1000, 900, 5000))
		keeper.LimitNear()
		check(4<<30+128<<20, false)
		close(k.flushing)

		// A mark that cannot be saved is tried again each round.
		obstacle := filepath.Join(dir, "mark.tmp")
		if err := os.Mkdir(obstacle, 0o755); err != nil {
			t.Fatal(err)
		}
		k.set(1000, 4<<30+100<<20, at(1000, 900, 5000))
		keeper.LimitNear()
		check(4<<30+128<<20, true)
		if err := os.Remove(obstacle); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		check(4<<30+228<<20, false)

		k.set(4<<30+100<<20, 4<<30+100<<20, at(4<<30+100<<20, 900, 5000))
		if err := keeper.Close(true); err != nil {
			t.Fatal(err)
		}
		check(4<<30+100<<20, false)
	})
}

// A clock that is set back does not stop the thorough rounds.
func TestKeeperClockSetBack(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		k := &keptStore{table: openTable(t, filepath.Join(dir, "queues")), position: dispatch.Position{Last: -1}}
		var back atomic.Int64
		o := optionsOf(k, dir)
		o.Now = func() int64 { return time.Now().UnixMilli() - back.Load() }
		keeper := dispatch.NewKeeper(o)
		if err := keeper.Start(); err != nil {
			t.Fatal(err)
		}
		k.take()
		back.Store(24 * 3600 * 1000)
		k.set(100, 100, at(100, 50, 1))
		time.Sleep(time.Second)
		synctest.Wait()
		if got := k.take(); !slices.Equal(got, []string{"log", "queues"}) {
			t.Errorf("a second after the clock was set back: %v", got)
		}
		if err := keeper.Close(false); err != nil {
			t.Fatal(err)
		}
	})
}

// Behind a flush that took long, as one of very many queues does, the next one waits; but not when a start after a kill would have a lot to walk.
func TestKeeperRestsAfterALongFlush(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		k := &keptStore{table: openTable(t, filepath.Join(dir, "queues")), position: dispatch.Position{Last: -1}, takes: 2 * time.Second}
		keeper := keeperOf(k, dir)
		if err := keeper.Start(); err != nil { // its own flush takes 2 s, too
			t.Fatal(err)
		}
		k.take()
		flushed := func(what string, d time.Duration, want ...string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got := k.take(); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		k.set(1000, 1000, at(1000, 900, 1000))
		flushed("too early", 7900*time.Millisecond)
		flushed("after four times as long, and as long as it takes", 2200*time.Millisecond, "queues")
		k.set(2000, 2000, at(2000, 1900, 2000))
		flushed("too early again", 7*time.Second)
		k.set(600<<20, 600<<20, at(600<<20, 600<<20-100, 3000))
		flushed("a lot to walk", 3*time.Second, "queues")
		if m := readMark(t, dir); m.Dispatched != 600<<20 {
			t.Errorf("mark %+v", m)
		}
		if err := keeper.Close(false); err != nil {
			t.Fatal(err)
		}
	})
}
