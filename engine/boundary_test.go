package engine_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ringmq/engine"
	"ringmq/engine/checkpoint"
	"ringmq/engine/consumequeue"
	"ringmq/engine/flush"
	"ringmq/engine/message"
	"ringmq/engine/segment"
	"ringmq/engine/segment/memstore"
)

// wayIn is how messages get into the log and when they are answered.
type wayIn struct{ sync, mapped bool }

func (w wayIn) String() string { return fmt.Sprintf("sync=%v,mapped=%v", w.sync, w.mapped) }

func waysIn() []wayIn { return []wayIn{{false, false}, {false, true}, {true, false}, {true, true}} }

func (w wayIn) options(dir string, disk *memstore.Storage) engine.Options {
	o := small(dir)
	o.Ring, o.SyncFlush, o.MappedAppend = false, w.sync, w.mapped
	o.Storage = func(string) (segment.Storage, error) { return disk, nil }
	return o
}

// placed is a message of a store and where it stands.
type placed struct {
	at    message.Offset
	queue int32
	body  string
	ms    int64
}

// unflushed is what a power cut finds: the small files as they were, and every page of the log, the last segments of which are not on the
// device yet.
type unflushed struct {
	options engine.Options
	pages   map[string][]byte
	list    []placed
}

// fiveUnflushed is such a store with five segments. Its mark is to be written.
func fiveUnflushed(t *testing.T, way wayIn) *unflushed {
	t.Helper()
	disk := memstore.New()
	u := &unflushed{options: way.options(filepath.Join(t.TempDir(), "cut"), disk), pages: map[string][]byte{}}
	s := open(t, way.options(t.TempDir(), disk))
	for i := range 5 * 26 {
		m := placed{queue: int32(i % 3), body: fmt.Sprint(i, strings.Repeat(".", 2300))}
		r := put(t, s, m.queue, m.body)
		m.at, m.ms = r.Offset, r.StoreTimeMS
		u.list = append(u.list, m)
	}
	settle(t, s)
	copyTree(t, s.Options().Dir, u.options.Dir)
	infos, err := disk.List()
	mustBe(t, err, nil)
	for _, info := range infos {
		u.pages[info.Name] = disk.Live(info.Name)
	}
	if end := s.Positions().End; end < 4*message.Offset(u.options.SegmentSize) {
		t.Fatalf("BUG: the log ends at %d", end)
	}
	return u
}

// within is the first record of a segment, or the n-th behind it.
func (u *unflushed) within(segmentNumber, n int) int {
	base := message.Offset(segmentNumber) * message.Offset(u.options.SegmentSize)
	return n + slices.IndexFunc(u.list, func(m placed) bool { return m.at >= base })
}

// cut returns the store after the power has gone and the device has everything but the page in which a record begins, and maybe has one
// byte of another wrong. first is the record that the log ends with, if no damage is told.
func (u *unflushed) cut(t *testing.T, mark *checkpoint.Mark, torn, rotten int) (o engine.Options, first int) {
	t.Helper()
	o = u.options
	o.Dir = filepath.Join(t.TempDir(), "store")
	copyTree(t, u.options.Dir, o.Dir)
	mustBe(t, mark.Save(filepath.Join(o.Dir, "ringmq", "mark")), nil)
	disk, size := memstore.New(), message.Offset(o.SegmentSize)
	page := u.list[torn].at &^ (memstore.PageSize - 1)
	for name, b := range u.pages {
		b = slices.Clone(b)
		base, _ := segment.ParseName(name)
		if page/size*size == message.Offset(base) {
			clear(b[page%size:][:memstore.PageSize])
		}
		if rotten >= 0 && u.list[rotten].at/size*size == message.Offset(base) {
			b[u.list[rotten].at%size+200] ^= 4
		}
		disk.Put(name, b)
	}
	o.Storage = func(string) (segment.Storage, error) { return disk, nil }
	for first = torn; first > 0 && u.list[first-1].at >= mark.Flushed && u.list[first].at > page && u.list[first].at%size != 0; first-- {
	}
	return o, first
}

// serves checks that a store has the messages before first, but for one, and nothing else.
func (u *unflushed) serves(t *testing.T, s *engine.Store, first, rotten int) {
	t.Helper()
	if end := s.Recovery().End; end != u.list[first].at {
		t.Errorf("the log ends at %d, want %d; recovery %+v", end, u.list[first].at, s.Recovery())
	}
	for queue := range int32(3) {
		var want []string
		for i, m := range u.list[:first] {
			if m.queue == queue && i != rotten {
				want = append(want, m.body)
			}
		}
		if got := bodies(records(t, s, testTopic, queue)); !slices.Equal(got, want) {
			t.Errorf("queue %d serves %d messages, want %d", queue, len(got), len(want))
		}
	}
	audit(t, s)
}

// What the mark says is flushed is all that counts: the first page that a power cut has lost at or above it is the end of the log, however
// many segments follow that were written and not flushed. It does not matter how much the mark knows: when it was saved the dispatcher may
// not have come to any record, or may have been ahead of the device.
func TestTornEndSegmentsBeforeTheLast(t *testing.T) {
	for _, way := range waysIn() {
		t.Run(way.String(), func(t *testing.T) {
			t.Parallel()
			u := fiveUnflushed(t, way)
			known := func(flushed, last int, dispatched message.Offset) checkpoint.Mark {
				m := checkpoint.Mark{Flushed: u.list[flushed].at, Dispatched: dispatched, Last: -1}
				if last >= 0 {
					m.Last, m.LastStoreTimeMS = u.list[last].at, u.list[last].ms
				}
				return m
			}
			ten, second := u.within(0, 10), u.within(1, 0)
			withQueues := known(ten, -1, u.list[ten].at)
			withQueues.Queues = []checkpoint.QueueMark{{Topic: testTopic, QueueID: 1, Max: 3}}
			marks := []struct {
				name   string
				mark   checkpoint.Mark
				rotten int
			}{
				{"no record, nothing flushed", known(0, -1, 0), -1},
				{"no record, in a segment", known(ten, -1, 0), -1},
				{"no record, in a segment, dispatched", known(ten, -1, u.list[ten].at), -1},
				{"no record, but queues", withQueues, -1},
				{"no record, at a segment", known(second, -1, 0), -1},
				{"no record, in the second segment", known(second+4, -1, 0), -1},
				{"a record", known(ten, ten-1, u.list[ten].at), -1},
				{"the first record", known(ten, 0, 0), -1},
				{"a record, nothing dispatched", known(second+4, ten, 0), -1},
				{"a record that rots", known(ten, ten-3, 0), ten - 3},
			}
			for _, m := range marks {
				flushed := slices.IndexFunc(u.list, func(p placed) bool { return p.at >= m.mark.Flushed })
				for _, torn := range []int{flushed + 2, u.within(1, 6), u.within(2, 0), u.within(2, 13), u.within(3, 9), len(u.list) - 1} {
					if torn < flushed+2 {
						continue // its page has bytes that are flushed
					}
					o, first := u.cut(t, &m.mark, torn, m.rotten)
					s := open(t, o)
					damaged := s.Recovery().Damaged
					if n := len(damaged); n > 1 || (n == 1) != (m.rotten >= 0) || n == 1 && damaged[0].From != u.list[m.rotten].at {
						t.Errorf("%s, torn at %d: damage %+v", m.name, u.list[torn].at, damaged)
					}
					u.serves(t, s, first, m.rotten)
					if t.Failed() {
						t.Fatalf("%s: mark %+v, torn at %d", m.name, m.mark, u.list[torn].at)
					}
					closeStore(t, s)
				}
			}
		})
	}
}

// Below what a mark says is flushed, records that are not whole are damage, and those behind stay, also when the mark names no record.
func TestDamageBelowAMarkWithoutARecord(t *testing.T) {
	t.Parallel()
	u := fiveUnflushed(t, wayIn{})
	flushed, rotten := u.within(2, 5), u.within(0, 7)
	mark := checkpoint.Mark{Flushed: u.list[flushed].at, Last: -1}
	o, first := u.cut(t, &mark, u.within(2, 15), rotten)
	s := open(t, o)
	if d := s.Recovery().Damaged; len(d) != 1 || d[0].From != u.list[rotten].at {
		t.Errorf("damage %+v, want one at %d", d, u.list[rotten].at)
	}
	u.serves(t, s, first, rotten)
}

// A mark that names no record has only the lock file to say that it is of this log; and it is not of one that ends before.
func TestMarkWithoutARecordOfAnotherLog(t *testing.T) {
	t.Parallel()
	u := fiveUnflushed(t, wayIn{})
	for _, lock := range []string{"lockmq", "", "ringmq"} {
		mark := checkpoint.Mark{Flushed: u.list[u.within(0, 5)].at, Last: -1}
		if lock == "ringmq" {
			mark.Flushed = 100 * message.Offset(u.options.SegmentSize)
		}
		torn := u.within(2, 13)
		o, _ := u.cut(t, &mark, torn, -1)
		writeFile(t, filepath.Join(o.Dir, "lock"), []byte(lock))
		s := open(t, o)
		if d := s.Recovery().Damaged; len(d) != 1 || d[0].To <= u.list[torn].at || s.Recovery().End <= u.list[u.within(4, 0)].at {
			t.Errorf("lock file %q: recovery %+v, want damage around %d, and all that follows", lock, s.Recovery(), u.list[torn].at)
		}
		closeStore(t, s)
	}
}

// stuck is who is told of arrivals, and lets the dispatcher hang at the first.
type stuck struct{ release chan struct{} }

func (a *stuck) Arrived(*consumequeue.Queue, int64, message.QueueOffset) { <-a.release }

// The dispatcher has not come past the first record when a mark is saved, and hangs while segments are filled that the device has not got.
func TestPowerCutBeforeTheFirstDispatch(t *testing.T) {
	for _, way := range waysIn() {
		t.Run(way.String(), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				disk, hang := memstore.New(), &stuck{make(chan struct{})}
				o := way.options(dir, disk)
				o.Arrivals = hang
				o.Flush = func() flush.Settings {
					return flush.Settings{FlushIntervalMS: 5, FlushThoroughIntervalMS: 20, SyncFlushTimeoutMS: never, CommitIntervalMS: 1}
				}
				s := open(t, o)
				oneSync, moreSyncs := make(chan struct{}), make(chan struct{})
				free := sync.OnceFunc(func() { close(hang.release); close(moreSyncs) })
				defer free()
				put(t, s, 0, "0")
				time.Sleep(time.Second)
				// What comes while one sync is under way is written, several segments of it, before the next one, which does not end.
				disk.Inject(&memstore.Fault{Op: memstore.OpSync, Nth: 1, Hold: oneSync})
				disk.Inject(&memstore.Fault{Op: memstore.OpSync, Nth: 2, Always: true, Hold: moreSyncs})
				sent, calls := []string{"0"}, []*call(nil)
				for i := range 70 {
					sent = append(sent, fmt.Sprint(i, strings.Repeat(".", 2300)))
					c := newCall()
					c.request.Message = text(testTopic, 0, sent[len(sent)-1], "")
					s.Put(&c.request)
					synctest.Wait()
					calls = append(calls, c)
				}
				close(oneSync)
				time.Sleep(time.Second)
				synctest.Wait()
				mark, ok, err := checkpoint.LoadMark(filepath.Join(dir, "ringmq", "mark"))
				p := s.Positions()
				if !ok || err != nil || mark.Flushed == 0 || mark.Last >= 0 || p.Committed-p.Flushed < 2*message.Offset(o.SegmentSize) {
					t.Fatalf("BUG: mark %+v, %v, %v at positions %+v", mark, ok, err, p)
				}
				for seed := range uint64(12) {
					afterCut(t, o, disk.CrashClone(rand.New(rand.NewPCG(seed, 0)), 80), sent)
				}
				free()
				for _, c := range calls {
					c.wait(t)
				}
				closeStore(t, s)
			})
		})
	}
}

// afterCut checks what a power cut has left: the beginning of what was sent.
func afterCut(t *testing.T, o engine.Options, disk *memstore.Storage, sent []string) {
	t.Helper()
	dir := t.TempDir()
	copyTree(t, o.Dir, dir)
	o.Dir, o.Arrivals = dir, nil
	o.Storage = func(string) (segment.Storage, error) { return disk, nil }
	s := open(t, o)
	defer closeStore(t, s)
	got := served(t, s)
	if len(got) == 0 || len(got) > len(sent) || !slices.Equal(got, sent[:len(got)]) || len(s.Recovery().Damaged) > 0 {
		t.Errorf("serves %d messages, which are not the first that were sent; damage %+v", len(got), s.Recovery().Damaged)
	}
}
