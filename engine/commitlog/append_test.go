package commitlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"ringmq/engine/message"
	"ringmq/engine/segment/memstore"
)

func TestAppendStamps(t *testing.T) {
	t.Parallel()
	clock := new(manualClock)
	o := testOptions(mem())
	o.Now = clock.now
	l := started(t, o)
	l.RaiseStoreTime(50)
	next := message.QueueOffset(7)
	batch := append(record(t, 0, 200), record(t, 1, 300)...)
	f := func(ms int64, recs []byte, want Appended, wantNext message.QueueOffset) {
		t.Helper()
		clock.ms.Store(ms)
		got, err := l.Append(recs, &next, nil)
		if err != nil || got != want || next != wantNext {
			t.Errorf("got %+v, %v, next %d, want %+v, next %d", got, err, next, want, wantNext)
		}
		if l.End() != want.End {
			t.Errorf("end: got %d, want %d", l.End(), want.End)
		}
	}
	f(10, record(t, 0, 100), Appended{0, 100, 7, 50}, 8)
	f(60, record(t, 1, 100), Appended{100, 200, 8, 60}, 9)
	f(55, batch, Appended{200, 700, 9, 60}, 11)
	f(70, withSysFlag(t, 100, message.SysFlagPrepared), Appended{700, 800, 0, 70}, 11)
	f(70, withSysFlag(t, 100, message.SysFlagRollback), Appended{800, 900, 0, 70}, 11)
	f(70, withSysFlag(t, 100, message.SysFlagCommit), Appended{900, 1000, 11, 70}, 12)
	// One that has no number between two that have.
	mixed := append(append(record(t, 0, 100), withSysFlag(t, 100, message.SysFlagPrepared)...), record(t, 1, 100)...)
	f(70, mixed, Appended{1000, 1300, 12, 70}, 14)

	writeOut(t, l)
	got, _, end := scan(t, l, 0)
	want := []message.QueueOffset{7, 8, 9, 10, 0, 0, 11, 12, 0, 13}
	for i, r := range got {
		if i >= len(want) || r.queueAt != want[i] {
			t.Fatalf("record %d at %d: queue offset %d, want %v", i, r.at, r.queueAt, want)
		}
	}
	if len(got) != len(want) || end != 1300 {
		t.Errorf("got %d records up to %d, want %d up to 1300", len(got), end, len(want))
	}
}

// placer notes End as it is when Placed runs.
type placer struct {
	log    *Log
	placed []Appended
	ends   []message.Offset
}

func (p *placer) Placed(a Appended) {
	p.placed = append(p.placed, a)
	p.ends = append(p.ends, p.log.End())
}

// TestPlacedBeforePublished: no committer can pass a position before its wait has joined.
func TestPlacedBeforePublished(t *testing.T) {
	t.Parallel()
	l := started(t, testOptions(mem()))
	p := &placer{log: l}
	var next message.QueueOffset
	for i := range 3 {
		if _, err := l.Append(record(t, i, 100), &next, p); err != nil {
			t.Fatal(err)
		}
	}
	for i, a := range p.placed {
		if a.Start != message.Offset(i*100) || p.ends[i] != a.Start {
			t.Errorf("record %d placed at %d while End was %d", i, a.Start, p.ends[i])
		}
	}
}

// TestRollGolden compares the end of a segment with bytes written by hand.
func TestRollGolden(t *testing.T) {
	t.Parallel()
	f := func(first, second int, wantRest int) {
		t.Helper()
		storage := mem()
		l := started(t, testOptions(storage))
		var next message.QueueOffset
		put(t, l, record(t, 0, first), &next)
		a := put(t, l, record(t, 1, second), &next)
		writeOut(t, l)
		if wantRest == 0 {
			if a.Start != message.Offset(first) {
				t.Errorf("%d+%d: second record at %d, want it in the first segment", first, second, a.Start)
			}
			return
		}
		if a.Start != testSegment || l.Committed() != a.End {
			t.Errorf("%d+%d: second record at %d, committed %d", first, second, a.Start, l.Committed())
		}
		want := make([]byte, wantRest)
		binary.BigEndian.PutUint32(want, uint32(wantRest))
		copy(want[4:], "\xcb\xd4\x31\x94")
		if got := storage.Live("00000000000000000000")[first:]; !bytes.Equal(got, want) {
			t.Errorf("%d+%d: end of segment is % x..., want % x...", first, second, got[:8], want[:8])
		}
	}
	f(8000, 9000, testSegment-8000)
	f(testSegment-8, 200, 8)            // exactly an end record remains
	f(testSegment-9, 200, 9)            //
	f(testSegment-300, 300-8, 0)        // record and 8 bytes just fit
	f(testSegment-300, 300-7, 300)      // and just do not
	f(testSegment-5000, 5000+100, 5000) // the rest is longer than a block
}

// TestBatchStaysTogether: all records of a batch go to the next segment when the last would not fit.
func TestBatchStaysTogether(t *testing.T) {
	t.Parallel()
	l := started(t, testOptions(mem()))
	var next message.QueueOffset
	put(t, l, record(t, 0, testSegment-1000), &next)
	a := put(t, l, append(record(t, 1, 500), record(t, 2, 493)...), &next)
	if a.Start != testSegment || a.End != testSegment+993 || next != 3 {
		t.Errorf("got %+v, next %d", a, next)
	}
}

// TestNoLeftovers goes round a small pool many times: what a file holds is records, end records and zeros, never a byte of
// an earlier lap, also between the end of a write and the end of its block.
func TestNoLeftovers(t *testing.T) {
	t.Parallel()
	storage := mem()
	l := started(t, testOptions(storage))
	var next message.QueueOffset
	want := make(map[int64][]byte) // by base
	at := func(pos message.Offset) []byte {
		base := int64(pos) / testSegment * testSegment
		if want[base] == nil {
			want[base] = make([]byte, testSegment)
		}
		return want[base][int64(pos)-base:]
	}
	end := message.Offset(0)
	for i := range 200 {
		rec := record(t, i, 150+i*131%3000)
		a := put(t, l, rec, &next)
		if a.Start != end { // rolled
			message.AppendBlank(at(end)[:0], int(testSegment-int64(end)%testSegment))
		}
		copy(at(a.Start), rec)
		end = a.End
		if i%3 == 0 {
			writeOut(t, l)
			name := l.Segments().Find(int64(end)).Name()
			if got := storage.Live(name); !bytes.Equal(got, want[int64(end)/testSegment*testSegment]) {
				t.Fatalf("after record %d the file %s differs", i, name)
			}
		}
	}
	writeOut(t, l)
	for _, f := range l.Segments().Files() {
		if w := want[f.Base()]; w != nil && !bytes.Equal(f.Bytes(), w) {
			t.Errorf("segment %s differs", f.Name())
		}
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	f := func(pool int64, mapped bool, size int, want string) {
		t.Helper()
		o := testOptions(mem())
		o.PoolSize, o.MappedAppend = pool, mapped
		l := started(t, o)
		var next message.QueueOffset
		_, err := l.Append(record(t, 0, size), &next, nil)
		roomErr := l.Room(size)
		if want == "" {
			if err != nil || roomErr != nil {
				t.Errorf("%d bytes: %v, %v", size, err, roomErr)
			}
			return
		}
		for _, err := range []error{err, roomErr} {
			if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), want) {
				t.Errorf("%d bytes: got %v, want one with %q", size, err, want)
			}
		}
		if next != 0 || l.End() != 0 {
			t.Errorf("%d bytes: refused, yet next is %d and end %d", size, next, l.End())
		}
	}
	f(testPool, false, testSegment-8, "")
	f(testPool, false, testSegment-7, "mappedFileSizeCommitLog=16384")
	f(testPool, true, testSegment-7, "mappedFileSizeCommitLog=16384")
	f(8<<10, false, 4<<10-8, "")
	f(8<<10, false, 4<<10-7, "ringmq.poolSize=8192")
	f(8<<10, true, 4<<10-7, "")
}

// TestLargestAppends: whatever stands in the pool, the largest append finds its room once it is written out.
func TestLargestAppends(t *testing.T) {
	t.Parallel()
	o := testOptions(mem())
	o.PoolSize = 8 << 10
	l := started(t, o)
	var next message.QueueOffset
	for i := range 100 {
		put(t, l, record(t, i, 100+i), &next)
		put(t, l, record(t, i, l.MaxAppend()), &next)
	}
}

func TestWrongCallersPanic(t *testing.T) {
	t.Parallel()
	l := started(t, testOptions(mem()))
	f := func(name string, do func()) {
		t.Helper()
		defer func() {
			if r := recover(); r == nil || !strings.HasPrefix(r.(string), "BUG: ") {
				t.Errorf("%s: got panic %v", name, r)
			}
		}()
		do()
	}
	var next message.QueueOffset
	f("no record", func() { l.Append(nil, &next, nil) })
	f("cut record", func() { l.Append(record(t, 0, 200)[:199], &next, nil) })
	f("bytes behind", func() { l.Append(append(record(t, 0, 200), 1), &next, nil) })
	f("zeros", func() { l.Append(make([]byte, 200), &next, nil) })
	f("flushed beyond committed", func() { l.SetFlushed(1) })
	f("started twice", func() { l.Start(0) })
	if _, err := l.Append(record(t, 0, 200), &next, nil); err != nil {
		t.Error(err) // no lock is held
	}
}

// TestRoom: an append into a full pool is refused, and whoever waits goes on when the committer has made room.
func TestRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := testOptions(mem())
		o.PoolSize = 8 << 10
		l := started(t, o)
		var next message.QueueOffset
		for i := range 4 {
			put(t, l, record(t, i, 2000), &next)
		}
		if _, err := l.Append(record(t, 4, 2000), &next, nil); !errors.Is(err, ErrBusy) {
			t.Fatalf("got %v, want %v", err, ErrBusy)
		}
		var done sync.WaitGroup
		for range 3 {
			done.Go(func() {
				if err := l.Room(2000); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if l.Metrics().Waits.Load() != 3 || next != 4 {
			t.Errorf("%d are waiting, want 3", l.Metrics().Waits.Load())
		}
		writeOut(t, l)
		done.Wait()
		put(t, l, record(t, 4, 2000), &next)
	})
}

// TestRoomEnds: latch and close wake those who wait.
func TestRoomEnds(t *testing.T) {
	t.Parallel()
	f := func(end func(l *Log), want error) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			o := testOptions(mem())
			o.PoolSize = 8 << 10
			l := started(t, o)
			var next message.QueueOffset
			put(t, l, record(t, 0, 4000), &next)
			put(t, l, record(t, 1, 4000), &next)
			got := make(chan error)
			go func() { got <- l.Room(4000) }()
			synctest.Wait()
			end(l)
			if err := <-got; !errors.Is(err, want) {
				t.Errorf("Room: got %v, want %v", err, want)
			}
			if _, err := l.Append(record(t, 1, 100), &next, nil); !errors.Is(err, want) {
				t.Errorf("Append: got %v, want %v", err, want)
			}
		})
	}
	broken := errors.New("broken")
	f(func(l *Log) { l.Latch(broken); l.Latch(errors.New("later")) }, broken)
	f(func(l *Log) { l.Latch(broken) }, ErrLatched)
	f(func(l *Log) { l.Close() }, ErrClosed)
}

// TestDiskFull: appends that need a segment which cannot be made are refused with the reason, the others go on, and it opens
// again by itself when there is space.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		storage := mem()
		o := testOptions(storage)
		clock := new(manualClock)
		o.Now = clock.now
		full := &memstore.Fault{Op: memstore.OpCreate, Name: "00000000000000016384", Always: true, Err: syscall.ENOSPC}
		storage.Inject(full)
		l := started(t, o)
		var next message.QueueOffset
		put(t, l, record(t, 0, 10000), &next)
		synctest.Wait()
		refused := func(err error) {
			t.Helper()
			if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), full.Name) || errors.Is(err, ErrLatched) {
				t.Errorf("got %v, want one with the reason and the segment", err)
			}
		}
		_, err := l.Append(record(t, 1, 10000), &next, nil)
		refused(err)
		refused(l.Room(10000))
		if storage.Count(memstore.OpCreate) != 2 {
			t.Errorf("%d attempts within a second, want 1", storage.Count(memstore.OpCreate)-1)
		}
		put(t, l, record(t, 1, 1000), &next) // needs none

		clock.ms.Add(retryMS) // one attempt more, still no space
		if _, err := l.Append(record(t, 2, 10000), &next, nil); !errors.Is(err, ErrBusy) {
			t.Errorf("got %v, want %v", err, ErrBusy)
		}
		refused(l.Room(10000))

		storage.Heal()
		clock.ms.Add(retryMS)
		a := put(t, l, record(t, 2, 10000), &next)
		if a.Start != testSegment || next != 3 {
			t.Errorf("got %+v, next %d", a, next)
		}
	})
}

// TestDiskFullWithTheClockSetBack: the next attempt does not wait until the clock is where it was.
func TestDiskFullWithTheClockSetBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		storage := mem()
		o := testOptions(storage)
		clock := new(manualClock)
		clock.ms.Store(1 << 40)
		o.Now = clock.now
		storage.Inject(&memstore.Fault{Op: memstore.OpCreate, Name: "00000000000000016384", Err: syscall.ENOSPC})
		l := started(t, o)
		var next message.QueueOffset
		put(t, l, record(t, 0, 10000), &next)
		synctest.Wait()
		if _, err := l.Append(record(t, 1, 10000), &next, nil); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("got %v", err)
		}
		clock.ms.Store(1000)
		if a := put(t, l, record(t, 1, 10000), &next); a.Start != testSegment {
			t.Errorf("got %+v", a)
		}
	})
}

// TestFirstAppendAsksForTheNextSegment: a log that was just started makes none, so that its owner is ready sooner.
func TestFirstAppendAsksForTheNextSegment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		storage := mem()
		l := started(t, testOptions(storage))
		synctest.Wait()
		if n := storage.Count(memstore.OpCreate); n != 1 {
			t.Errorf("%d segments were made by the start, want 1", n)
		}
		var next message.QueueOffset
		for i := range 2 {
			put(t, l, record(t, i, 1000), &next)
			synctest.Wait()
			if n := storage.Count(memstore.OpCreate); n != 2 {
				t.Errorf("%d segments were made, want 2", n)
			}
		}
	})
}

// TestSlowPreparer: the roll waits in Room, not under the lock, until the next segment is there.
func TestSlowPreparer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		storage := mem()
		hold := make(chan struct{})
		storage.Inject(&memstore.Fault{Op: memstore.OpCreate, Name: "00000000000000016384", Hold: hold})
		l := started(t, testOptions(storage))
		var next message.QueueOffset
		put(t, l, record(t, 0, 10000), &next)
		if _, err := l.Append(record(t, 1, 10000), &next, nil); !errors.Is(err, ErrBusy) {
			t.Fatalf("got %v, want %v", err, ErrBusy)
		}
		got := make(chan error)
		go func() { got <- l.Room(10000) }()
		synctest.Wait()
		put(t, l, record(t, 1, 1000), &next) // the lock is free
		close(hold)
		if err := <-got; err != nil {
			t.Error(err)
		}
		if a, err := l.Append(record(t, 2, 10000), &next, nil); err != nil || a.Start != testSegment {
			t.Errorf("got %+v, %v", a, err)
		}
	})
}

func TestWriteFailureLatches(t *testing.T) {
	t.Parallel()
	storage := mem()
	l := started(t, testOptions(storage))
	var next message.QueueOffset
	put(t, l, record(t, 0, 1000), &next)
	flush(t, l)
	put(t, l, record(t, 1, 1000), &next)
	storage.Inject(&memstore.Fault{Op: memstore.OpWrite, Err: syscall.EIO, Short: 1500})
	at, err := l.WriteOut()
	if at != 1000 || !errors.Is(err, syscall.EIO) || l.Committed() != 1000 {
		t.Errorf("got %d, %v, committed %d", at, err, l.Committed())
	}
	// Only this write was broken; nothing is written ever after.
	writes := storage.Count(memstore.OpWrite)
	if _, err := l.WriteOut(); !errors.Is(err, syscall.EIO) || storage.Count(memstore.OpWrite) != writes {
		t.Errorf("second WriteOut: %v, %d writes", err, storage.Count(memstore.OpWrite)-writes)
	}
	if _, err := l.Append(record(t, 2, 1000), &next, nil); !errors.Is(err, syscall.EIO) || !errors.Is(err, ErrLatched) || next != 2 {
		t.Errorf("append: %v, next %d", err, next)
	}
	if v, ok := l.View(1000, 1000); !ok || len(v.Bytes) != 1000 {
		t.Error("what was appended cannot be read any more")
	} else {
		v.Release()
	}
}

// TestStartInsideBlock: the block of the end is written again as a whole, with what it held.
func TestStartInsideBlock(t *testing.T) {
	t.Parallel()
	storage, placed := filled(t, 1, 1001)
	before := storage.Live("00000000000000000000")
	end := placed[len(placed)-1].End
	l := open(t, testOptions(storage))
	if err := l.Start(end); err != nil {
		t.Fatal(err)
	}
	var next message.QueueOffset
	rec := record(t, 99, 100)
	if a := put(t, l, rec, &next); a.Start != end {
		t.Errorf("at %d, want %d", a.Start, end)
	}
	writeOut(t, l)
	copy(before[end:], rec)
	if got := storage.Live("00000000000000000000"); !bytes.Equal(got, before) {
		t.Error("the bytes before the end have changed")
	}
}

// TestMappedAppend: appended is committed, and roll and restart work the same.
func TestMappedAppend(t *testing.T) {
	t.Parallel()
	storage := mem()
	o := testOptions(storage)
	o.MappedAppend = true
	l := started(t, o)
	var next message.QueueOffset
	for i := range 40 {
		a := put(t, l, record(t, i, 1500), &next)
		if l.Committed() != a.End || l.End() != a.End {
			t.Fatalf("committed %d, end %d, want %d", l.Committed(), l.End(), a.End)
		}
		v, ok := l.View(a.Start, 1500)
		if !ok || message.Size(v.Bytes) != 1500 {
			t.Fatalf("record %d cannot be read", i)
		}
		v.Release()
	}
	end := l.End()
	if at := writeOut(t, l); at != end || storage.Count(memstore.OpWrite) != 0 {
		t.Errorf("WriteOut: %d, %d writes", at, storage.Count(memstore.OpWrite))
	}
	files := l.Unsynced(end, nil)
	if len(files) != 4 || !files[3].Dirty() {
		t.Errorf("%d files to sync, want 4 dirty ones", len(files))
	}
	flush(t, l)
	if files := l.Unsynced(end, nil); len(files) != 0 {
		t.Errorf("%d files to sync after the flush", len(files))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, o)
	if got, damage, to := scan(t, again, 0); len(got) != 40 || len(damage) != 0 || to != end {
		t.Errorf("%d records, damage %v, end %d, want 40, none, %d", len(got), damage, to, end)
	}
}

// TestAppendAllocatesNothing goes over many rolls with a committer beside it. The rest of a roll is its own: a file, a slot in
// the set; on average that is nothing.
func TestAppendAllocatesNothing(t *testing.T) {
	o := testOptions(mem())
	o.SegmentSize, o.PoolSize = 1<<20, 4<<20
	l := started(t, o)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				if _, err := l.WriteOut(); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	var next message.QueueOffset
	rec := record(t, 0, 1024)
	allocs := testing.AllocsPerRun(20000, func() {
		for {
			_, err := l.Append(rec, &next, nil)
			if err == nil {
				return
			}
			if !errors.Is(err, ErrBusy) || l.Room(len(rec)) != nil {
				t.Error(err)
				return
			}
		}
	})
	close(stop)
	<-done
	if allocs != 0 || l.Metrics().Rolls.Load() < 15 {
		t.Errorf("%v allocations per append, %d rolls", allocs, l.Metrics().Rolls.Load())
	}
}

// TestStartErrors: a start where nothing can be appended is refused.
func TestStartErrors(t *testing.T) {
	t.Parallel()
	f := func(storage *memstore.Storage, end message.Offset, want error) {
		t.Helper()
		l := open(t, testOptions(storage))
		if err := l.Start(end); err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("start at %d: got %v, want %v", end, err, want)
		}
		var next message.QueueOffset
		if _, err := l.Append(record(t, 0, 100), &next, nil); err != ErrClosed {
			t.Errorf("append without start: %v", err)
		}
	}
	one, _ := filled(t, 1, 1000)
	f(one, 5*testSegment, nil)
	f(mem(), 100, nil)
	full := mem()
	full.Inject(&memstore.Fault{Op: memstore.OpCreate, Err: syscall.ENOSPC})
	f(full, 0, syscall.ENOSPC)
	sparse, _ := filled(t, 1, 1000)
	sparse.Inject(&memstore.Fault{Op: memstore.OpResize, Err: syscall.ENOSPC})
	f(sparse, 1000, syscall.ENOSPC)

	o := testOptions(mem())
	o.SegmentSize = 4095
	if _, err := Open(o); err == nil || !strings.Contains(err.Error(), "mappedFileSizeCommitLog=4095") {
		t.Errorf("got %v", err)
	}
	o = testOptions(mem())
	o.PoolSize = 4096
	if _, err := Open(o); err == nil || !strings.Contains(err.Error(), "ringmq.poolSize=4096") {
		t.Errorf("got %v", err)
	}
	if _, err := Open(Options{SegmentSize: testSegment, Now: func() int64 { return 0 }}); err == nil {
		t.Error("no storage, yet no error")
	}
	broken := mem()
	broken.Inject(&memstore.Fault{Op: memstore.OpList, Err: os.ErrPermission})
	if _, err := Open(testOptions(broken)); !errors.Is(err, os.ErrPermission) {
		t.Errorf("got %v", err)
	}
}
