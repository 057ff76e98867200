package segment

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	// copyPiece bounds the stretch that a reader of the pool holds the appender off from at a time: some microseconds.
	copyPiece = 64 << 10
	// maxGuard bounds how near to the appender a reader may come from behind, see View.
	maxGuard = 4 << 20
)

// Pool is the ring of anonymous, mlock'd memory that producers copy into. Position off lives at off % Size. One appender at
// a time (the put lock) calls Put and Zero; the committer reads Pieces; it alone moves Free forward. Anybody may View.
//
// Three positions rule the ring, with start <= freed <= claimed <= freed+Size:
//
//	claimed  the appender has written up to here, or is about to. Stored by the appender alone, before it copies.
//	freed    bytes before it may be overwritten; moved by the committer. They stay readable until that happens, so the pool
//	         also serves the recent past: the last Size bytes, less what is being overwritten.
//	limit    the appender may write up to here: Size above freed, or above the first byte that a reader is copying now.
//
// How readers and the appender keep out of each other's way without a lock in the append: a reader pins the position that it
// copies from, which lowers limit, and then looks at claimed. The appender raises claimed, and then looks at limit. Both are
// atomics in one total order, so at least one of the two sees the other. A reader who finds its bytes claimed gives up: they
// are overwritten, and since they were freed, they are in the file. An appender that finds limit below its claim waits until
// the copy is over. That wait is what must not happen in practice: a reader pins one piece of copyPiece bytes at a time, and
// of freed bytes only those which the appender is more than a guard away from. The appender would have to run a guard ahead,
// megabytes, in the time of one 64 KiB memmove. Bytes that are not freed are never refused and, unless the pool is full to
// the brim, never near the appender.
type Pool struct {
	memory  []byte
	size    int64
	guard   int64
	metrics *Metrics

	claimed atomic.Int64
	freed   atomic.Int64 // written under mu
	limit   atomic.Int64 // written under mu

	mu       sync.Mutex // readers, the committer, and an appender that meets a reader
	unpinned sync.Cond  // some reader has ended its copy
	pins     []int64    // positions that readers copy from; noPin in unused places
	pinned   int        // how many
	start    int64      // first position that was ever put
	closed   bool

	buffers buffers
	locker  locker // of memory
}

const noPin = int64(-1)

// PoolOptions are the options of NewPool.
type PoolOptions struct {
	Size    int64                        // rounded up to whole pages; need not divide the size of a segment
	Lock    bool                         // mlock in the background in slices of at most 64 MiB
	Locked  func(bytes int64, err error) // progress, may be nil: bytes locked so far; a last time with the error that ended it
	Metrics *Metrics                     // may be nil
}

// NewPool maps the memory. Positions begin at Start.
func NewPool(o PoolOptions) (*Pool, error) {
	if o.Size <= 0 {
		return nil, fmt.Errorf("segment: pool size %d: must be above 0", o.Size)
	}
	page := int64(os.Getpagesize())
	size := (o.Size + page - 1) / page * page
	memory, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("segment: map pool of %d bytes: %w", size, err)
	}
	_ = unix.Madvise(memory, unix.MADV_HUGEPAGE) // only faster; a kernel without it says EINVAL
	p := &Pool{memory: memory, size: size, guard: min(size/8, maxGuard), metrics: o.Metrics.orNew()}
	p.unpinned.L = &p.mu
	p.limit.Store(size)
	if o.Lock {
		p.locker.start(memory, o.Locked, p.metrics)
	}
	return p, nil
}

// Size is the number of bytes of the ring.
func (p *Pool) Size() int64 { return p.size }

// Start makes off the position of the next Put; everything before it is free and cannot be viewed. Nothing else may be
// going on but readers, whose views fail.
func (p *Pool) Start(off int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.pinned > 0 {
		p.unpinned.Wait()
	}
	p.start = off
	p.freed.Store(off)
	p.claimed.Store(off)
	p.relimit()
}

// Room says whether bytes up to end may be put. Only Free gives room.
func (p *Pool) Room(end int64) bool { return end <= p.RoomEnd() }

// RoomEnd is the position up to which bytes may be put.
func (p *Pool) RoomEnd() int64 { return p.freed.Load() + p.size }

// Put copies b to position off. The caller is the appender and has asked Room.
func (p *Pool) Put(off int64, b []byte) {
	p.claim(off, int64(len(b)))
	n := copy(p.memory[off%p.size:], b)
	copy(p.memory, b[n:])
}

// Zero puts n zeros at position off, as Put does.
func (p *Pool) Zero(off int64, n int64) {
	p.claim(off, n)
	at := off % p.size
	first := min(n, p.size-at)
	clear(p.memory[at : at+first])
	clear(p.memory[:n-first])
}

// claim makes [off, off+n) the appender's.
func (p *Pool) claim(off, n int64) {
	end, claimed := off+n, p.claimed.Load()
	if freed := p.freed.Load(); off < freed || off > claimed || n < 0 {
		panic(fmt.Sprintf("BUG: segment: put of %d bytes at %d, must begin in [%d, %d]", n, off, freed, claimed))
	}
	if end > claimed {
		p.claimed.Store(end)
	}
	if end > p.limit.Load() {
		p.awaitReaders(off, end)
	}
}

// awaitReaders ends when no reader copies what a claim up to end overwrites.
func (p *Pool) awaitReaders(off, end int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if freed := p.freed.Load(); p.closed || end > freed+p.size {
		panic(fmt.Sprintf("BUG: segment: put of [%d, %d) into pool of %d bytes freed up to %d", off, end, p.size, freed))
	}
	if end <= p.limit.Load() {
		return
	}
	p.metrics.PoolReaderWaits.Add(1)
	for end > p.limit.Load() {
		p.unpinned.Wait()
	}
}

// Pieces appends the bytes of [from, to) to dst, in at most two slices. They must be put and not freed. Bytes behind the last
// Put are the leftover of an earlier lap: who writes whole blocks fills up the last one itself.
func (p *Pool) Pieces(from, to int64, dst [][]byte) [][]byte {
	if freed, claimed := p.freed.Load(), p.claimed.Load(); from < freed || to < from || to > claimed {
		panic(fmt.Sprintf("BUG: segment: pieces of [%d, %d), must be in [%d, %d]", from, to, freed, claimed))
	}
	if from == to {
		return dst
	}
	at, n := from%p.size, to-from
	if first := p.size - at; n > first {
		return append(dst, p.memory[at:p.size:p.size], p.memory[:n-first:n-first])
	}
	return append(dst, p.memory[at:at+n:at+n])
}

// Free says that bytes before off may be overwritten. Until they are they can be viewed.
func (p *Pool) Free(off int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if freed, claimed := p.freed.Load(), p.claimed.Load(); off < freed || off > claimed {
		panic(fmt.Sprintf("BUG: segment: free up to %d, must be in [%d, %d]", off, freed, claimed))
	}
	p.freed.Store(off)
	p.relimit()
}

// relimit computes limit anew. mu is held.
func (p *Pool) relimit() {
	oldest := p.freed.Load()
	if p.pinned > 0 {
		for _, pin := range p.pins {
			if pin != noPin && pin < oldest {
				oldest = pin
			}
		}
	}
	// Stored only if it changes, so that readers of the tail leave the appender's cache line alone.
	if limit := oldest + p.size; limit != p.limit.Load() {
		p.limit.Store(limit)
	}
}

// View copies [from, from+n), all of which the caller knows to have been put; false when it was overwritten meanwhile or
// soon will be, or was never put. Bytes that are not freed are always found.
func (p *Pool) View(from int64, n int) (View, bool) {
	if n <= 0 || int64(n) > p.size || from+int64(n) > p.claimed.Load() {
		return View{}, false
	}
	buf := p.buffers.get(n)
	for done := 0; done < n; {
		piece := min(n-done, copyPiece)
		if !p.copyOut(buf.bytes[done:done+piece], from+int64(done)) {
			buf.free()
			p.metrics.PoolViewMisses.Add(1)
			return View{}, false
		}
		done += piece
	}
	p.metrics.PoolViews.Add(1)
	v := View{Bytes: buf.bytes[:n:n], copy: buf}
	v.check.armed()
	return v, true
}

// copyOut copies one piece while it is pinned.
func (p *Pool) copyOut(dst []byte, from int64) bool {
	place, ok := p.pin(from)
	if !ok {
		return false
	}
	n := copy(dst, p.memory[from%p.size:])
	copy(dst[n:], p.memory)
	p.unpin(place)
	return true
}

// pin keeps the appender from overwriting bytes at or above from, until unpin of the place returned.
func (p *Pool) pin(from int64) (place int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// The first look spares the appender a limit lowered in vain, which it would have to wait out.
	if p.closed || from < p.start || p.overwritten(from) {
		return 0, false
	}
	place = p.takePlace(from)
	p.relimit()
	// The second look decides: with the limit lowered, the appender cannot have come nearer without being seen here.
	if p.overwritten(from) {
		p.dropPin(place)
		return 0, false
	}
	return place, true
}

// overwritten says whether the appender has claimed the place of from, or is less than the guard away from it although it
// is freed. mu is held.
func (p *Pool) overwritten(from int64) bool {
	oldest := p.claimed.Load() - p.size
	if from < p.freed.Load() {
		oldest += p.guard
	}
	return from < oldest
}

func (p *Pool) takePlace(from int64) int {
	p.pinned++
	for i, pin := range p.pins {
		if pin == noPin {
			p.pins[i] = from
			return i
		}
	}
	p.pins = append(p.pins, from) // as many places as ever copied at the same time
	return len(p.pins) - 1
}

func (p *Pool) unpin(place int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropPin(place)
}

func (p *Pool) dropPin(place int) {
	p.pins[place] = noPin
	p.pinned--
	p.relimit()
	p.unpinned.Broadcast()
}

// Close gives the memory back once no reader copies from it. Views already made stay valid; later ones are false. The
// appender and the committer must have ended.
func (p *Pool) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	for p.pinned > 0 {
		p.unpinned.Wait()
	}
	p.limit.Store(0) // a late Put runs into awaitReaders, not into unmapped memory
	p.mu.Unlock()
	p.locker.stop()
	memory := p.memory
	p.memory = nil
	if err := unix.Munmap(memory); err != nil {
		return fmt.Errorf("segment: unmap pool: %w", err)
	}
	return nil
}
