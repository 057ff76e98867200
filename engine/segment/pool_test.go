package segment_test

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"ringmq/engine/segment"
)

func newPool(t testing.TB, size int64) *segment.Pool {
	t.Helper()
	p, err := segment.NewPool(segment.PoolOptions{Size: size})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// pattern is the byte that the tests put at a position: other ones in every lap of a small pool.
func pattern(off int64) byte { return byte(off*131 + off>>8*7 + off>>16) }

func patterned(from int64, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = pattern(from + int64(i))
	}
	return b
}

func TestPoolRoundsSizeUp(t *testing.T) {
	t.Parallel()
	if got := newPool(t, 1).Size(); got != 4096 {
		t.Errorf("size %d, want 4096", got)
	}
	for _, size := range []int64{0, -1} {
		if _, err := segment.NewPool(segment.PoolOptions{Size: size}); err == nil {
			t.Errorf("size %d: no error", size)
		}
	}
}

func TestPoolWrap(t *testing.T) {
	t.Parallel()
	p := newPool(t, 4096)
	const start = 10*4096 - 3
	p.Start(start)
	p.Put(start, []byte("abcdef"))
	pieces := p.Pieces(start, start+6, nil)
	if len(pieces) != 2 || string(pieces[0]) != "abc" || string(pieces[1]) != "def" {
		t.Errorf("pieces %q", pieces)
	}
	if pieces = p.Pieces(start+3, start+6, pieces[:1]); len(pieces) != 2 || string(pieces[1]) != "def" {
		t.Errorf("pieces behind the wrap %q", pieces)
	}
	if pieces = p.Pieces(start+6, start+6, nil); len(pieces) != 0 {
		t.Errorf("no pieces are %q", pieces)
	}
	v, ok := p.View(start+1, 4)
	if !ok || string(v.Bytes) != "bcde" {
		t.Errorf("view %q, %v", v.Bytes, ok)
	}
	v.Release()
	p.Put(start+2, []byte("XY")) // not freed: the appender may stamp what it has put
	p.Zero(start+6, 2)
	p.Zero(start+1, 1)
	if got := bytes.Join(p.Pieces(start, start+8, nil), nil); string(got) != "a\x00XYef\x00\x00" {
		t.Errorf("pool has %q", got)
	}
}

func TestPoolRoom(t *testing.T) {
	t.Parallel()
	p := newPool(t, 4096)
	p.Start(1000)
	f := func(end int64, want bool) {
		t.Helper()
		if got := p.Room(end); got != want {
			t.Errorf("Room(%d) = %v, want %v", end, got, want)
		}
	}
	f(5096, true)
	f(5097, false)
	p.Zero(1000, 4096)
	f(5097, false)
	p.Free(1500)
	f(5596, true)
	f(5597, false)
}

func TestPoolBugs(t *testing.T) {
	t.Parallel()
	p := newPool(t, 4096)
	p.Start(100)
	p.Put(100, make([]byte, 50))
	mustBug(t, "put of 1 bytes at 99", func() { p.Put(99, []byte{1}) })
	mustBug(t, "free up to 99", func() { p.Free(99) })
	mustBug(t, "free up to 151", func() { p.Free(151) })
	mustBug(t, "pieces of [99, 100)", func() { p.Pieces(99, 100, nil) })
	mustBug(t, "pieces of [100, 151)", func() { p.Pieces(100, 151, nil) })
	mustBug(t, "pieces of [101, 100)", func() { p.Pieces(101, 100, nil) })
	mustBug(t, "put of 1 bytes at 152", func() { newPoolAt(t, 151).Put(152, []byte{1}) })
	mustBug(t, "into pool of 4096 bytes", func() { newPoolAt(t, 100).Zero(100, 4097) })
}

func newPoolAt(t *testing.T, start int64) *segment.Pool {
	p := newPool(t, 4096)
	p.Start(start)
	return p
}

func TestPoolViewBounds(t *testing.T) {
	t.Parallel()
	p := newPool(t, 8192)
	p.Start(100)
	p.Put(100, patterned(100, 8192))
	f := func(from int64, n int, want bool) {
		t.Helper()
		v, ok := p.View(from, n)
		defer v.Release()
		if ok != want || ok && !bytes.Equal(v.Bytes, patterned(from, n)) {
			t.Errorf("View(%d, %d) = %v, want %v", from, n, ok, want)
		}
	}
	f(100, 8192, true) // not freed: always, up to the last byte of a full pool
	f(99, 1, false)
	f(100, 8193, false)
	f(8291, 1, true)
	f(8292, 1, false)
	f(100, 0, false)
	f(100, -1, false)
	p.Free(100 + 8192)
	f(1124, 100, true) // freed, and further from the appender than the guard of 1024
	f(1123, 100, false)
	p.Start(9000)
	f(8291, 1, false) // what was before Start is gone
}

// TestPoolMatchesModel runs random puts and frees and compares every view with a plain slice of all that was put.
func TestPoolMatchesModel(t *testing.T) {
	t.Parallel()
	const size, guard = 4 * 4096, 2048
	rng := rand.New(rand.NewPCG(5, 6))
	p := newPool(t, size)
	start := rng.Int64N(1 << 40)
	p.Start(start)
	var model []byte // from start on
	end, freed := start, start
	for range 5000 {
		switch n := rng.Int64N(3000) + 1; rng.IntN(4) {
		case 0:
			if !p.Room(end + n) {
				if end+n <= freed+size {
					t.Fatalf("no room for [%d, %d), freed %d", end, end+n, freed)
				}
				break
			}
			p.Zero(end, n)
			model = append(model, make([]byte, n)...)
			end += n
		case 1:
			if !p.Room(end + n) {
				break
			}
			p.Put(end, patterned(end, int(n)))
			model = append(model, patterned(end, int(n))...)
			end += n
		case 2:
			freed += rng.Int64N(end - freed + 1)
			p.Free(freed)
		}
		from := max(start, end-size-1000) + rng.Int64N(size)
		n := rng.Int64N(5000) + 1
		v, ok := p.View(from, int(n))
		must := from+n <= end && (from >= freed || from >= end-size+guard) && from >= start
		if must && !ok || ok && !bytes.Equal(v.Bytes, model[from-start:from-start+n]) {
			t.Fatalf("View(%d, %d) = %v with end %d, freed %d", from, n, ok, end, freed)
		}
		v.Release()
		if got := bytes.Join(p.Pieces(freed, end, nil), nil); !bytes.Equal(got, model[freed-start:]) {
			t.Fatalf("pieces of [%d, %d) differ", freed, end)
		}
	}
}

// TestPoolConcurrent has everybody at work: what a view shows must always be right, however near the appender is.
func TestPoolConcurrent(t *testing.T) {
	t.Parallel()
	const size, laps, chunk = 256 << 10, 60, 3000
	p := newPool(t, size)
	all := patterned(0, size*laps+chunk) // what is at each position
	var end, committed atomic.Int64      // published as the log does it: after the copy
	var appender, committer, readers sync.WaitGroup
	var stop atomic.Bool
	appender.Go(func() {
		for at := int64(0); at < size*laps; {
			if !p.Room(at + chunk) {
				continue
			}
			p.Put(at, all[at:at+chunk])
			at += chunk
			end.Store(at)
		}
	})
	committer.Go(func() {
		for !stop.Load() {
			from, to := committed.Load(), end.Load()
			for _, piece := range p.Pieces(from, to, nil) {
				if !bytes.Equal(piece, all[from:from+int64(len(piece))]) {
					t.Errorf("piece of %d bytes at %d is wrong", len(piece), from)
				}
				from += int64(len(piece))
			}
			if v, ok := p.View(committed.Load(), int(min(to-committed.Load(), 1000))); !ok && to > committed.Load() {
				t.Errorf("bytes at %d are not freed and not found", committed.Load())
			} else {
				v.Release()
			}
			committed.Store(to)
			p.Free(to)
		}
	})
	var found, missed atomic.Int64
	for i := range 3 {
		readers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			for !stop.Load() {
				e := end.Load()
				from := max(0, e-rng.Int64N(size))
				n := min(rng.Int64N(100_000)+1, e-from)
				v, ok := p.View(from, int(n))
				if ok && !bytes.Equal(v.Bytes, all[from:from+n]) {
					t.Errorf("view of [%d, %d) is wrong", from, from+n)
				}
				v.Release()
				if ok {
					found.Add(1)
				} else {
					missed.Add(1)
				}
			}
		})
	}
	appender.Wait()
	stop.Store(true)
	committer.Wait()
	readers.Wait()
	// Where the scheduler lets every reader come too late, the newest bytes are still there now that nothing overwrites them.
	last := end.Load()
	v, ok := p.View(last-1000, 1000)
	if ok && !bytes.Equal(v.Bytes, all[last-1000:last]) {
		t.Error("the view of the last bytes is wrong")
	}
	if v.Release(); ok {
		found.Add(1)
	}
	if found.Load() == 0 {
		t.Error("no reader ever found anything")
	}
	t.Logf("%d views, %d of bytes overwritten", found.Load(), missed.Load())
}

func TestPoolClose(t *testing.T) {
	t.Parallel()
	p := newPool(t, 4096)
	p.Put(0, []byte("abc"))
	v, ok := p.View(0, 3)
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if !ok || string(v.Bytes) != "abc" {
		t.Errorf("view after Close %q", v.Bytes)
	}
	v.Release()
	if _, ok := p.View(0, 3); ok {
		t.Error("View of a closed pool")
	}
	mustBug(t, "put of", func() { p.Put(3, []byte{1}) })
}

func TestPoolLock(t *testing.T) {
	t.Parallel()
	const size = 130 << 20 // three slices
	type report struct {
		bytes int64
		err   error
	}
	reports := make(chan report, 4)
	p, err := segment.NewPool(segment.PoolOptions{Size: size, Lock: true,
		Locked: func(bytes int64, err error) { reports <- report{bytes, err} }})
	if err != nil {
		t.Fatal(err)
	}
	p.Put(0, []byte("works while it is locked"))
	last := int64(0)
	for last < size {
		r := <-reports
		if r.err != nil {
			t.Logf("memory cannot be locked here: %v", r.err)
			break
		}
		if r.bytes <= last || r.bytes-last > 64<<20 {
			t.Errorf("locked up to %d, then up to %d", last, r.bytes)
		}
		last = r.bytes
	}
	if v, ok := p.View(0, 5); !ok || string(v.Bytes) != "works" {
		t.Errorf("view %q, %v", v.Bytes, ok)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}
