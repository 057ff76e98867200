// Package commitlog is the log itself: append under the put lock, writing the pool out, scan, cut.
//
// A Log has four positions, which only grow once it is started:
//
//	Min <= Flushed <= Committed <= End
//
// End (appended) is moved by Append under the put lock, Committed by the one committer that calls WriteOut, Flushed by the
// one flusher that calls SetFlushed. Each stands at the boundary of a record or segment. Bytes below Committed are read
// from the mapped segment, bytes above it from the pool.
//
// The order of a life: Open (repairs the files), Scan, Cut, Start, then Append and the rest until Close. What Open and Cut
// alter on disk is altered at once, so the abort file must stand before Open.
//
// Locks: the put lock covers Append and nothing that waits. No callback runs under it but Placer.Placed and Options.LimitNear.
package commitlog

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"ringmq/engine/message"
	"ringmq/engine/segment"
)

const (
	// blockSize is the unit in which the pool is written out: page cache and devices know nothing smaller.
	blockSize = 4096

	defaultPoolSize = 32 << 20
)

// Log is the commit log. Positions only grow, but for Cut. Writers: Append under the put lock, WriteOut by one committer.
type Log struct {
	options  Options
	logger   *slog.Logger
	set      *segment.Set  // may hold one segment ahead of End, all zero
	pool     *segment.Pool // nil with MappedAppend
	preparer *segment.Preparer
	metrics  Metrics

	// The committer's: pieces of the write under construction, and what its last block is filled up with. Bytes of the pool
	// behind the end may be those of an earlier lap and must never reach a file.
	pieces [][]byte
	zeros  [blockSize]byte

	end       atomic.Int64 // written under mu
	committed atomic.Int64 // written by WriteOut, with MappedAppend by Append
	flushed   atomic.Int64 // written by SetFlushed

	latch   atomic.Pointer[error]
	waiting atomic.Int32 // callers of Room that may be waiting on room
	failing atomic.Bool  // the last attempt to make a segment failed, and was told

	reached atomic.Int64 // what a limit is asked for, see Reached; written under mu

	mu          sync.Mutex // the put lock; guards what follows
	room        sync.Cond  // on mu: room in the pool, a higher limit, latch, close
	limit       int64      // nothing is appended beyond it
	limitNear   int64      // a higher one is asked for when End passes it
	limitAsked  bool       // and was asked for
	limitErr    error      // why there is none
	started     bool
	closed      bool
	segmentEnd  int64         // end of the segment that End stands in; End may be equal to it
	current     *segment.File // that segment
	entered     bool          // nothing was appended to it yet, and the one behind it not asked for
	triedMS     int64         // when the one behind it was asked for last
	storeTimeMS int64         // of the last record
	blank       []byte        // end record under construction
}

// Options of a Log. Storage and SegmentSize are required.
type Options struct {
	Storage            segment.Storage
	SegmentSize        int64  // mappedFileSizeCommitLog
	MappedAppend       bool   // appendPath=mmap: copy straight into a writable mapping; appended is committed
	PoolSize           int64  // bytes of the pool otherwise; 0 is 32 MiB
	PoolKey            string // names PoolSize in errors; "" is ringmq.poolSize
	LockPool           bool
	PoolLocked         func(bytes int64, err error) // progress of locking the pool; may be nil
	ZeroAhead          bool                         // write zeros into the next segment ahead of time
	ZeroBytesPerSecond int64                        // bound of that; 0 is 256 MiB/s
	Now                func() int64                 // ms
	RoomWanted         func()                       // somebody waits for room in the pool: write out; called under the put lock, must not block; may be nil
	LimitNear          func()                       // a higher limit is needed soon, see SetLimit; called under the put lock, must not block; may be nil
	Segments           *segment.Metrics             // of files, pool and preparer; nil: none
	Logger             *slog.Logger                 // nil: says nothing
}

// Appended tells where records stand.
type Appended struct {
	Start, End  message.Offset
	QueueOffset message.QueueOffset // of the first record
	StoreTimeMS int64
}

var (
	// ErrBusy is returned when the next segment is not ready, or the limit is reached: call Room, then Append again.
	ErrBusy = errors.New("commitlog: no room yet")
	// ErrPoolFull is the ErrBusy, which it wraps, of a pool without room.
	ErrPoolFull = fmt.Errorf("%w: the pool is full", ErrBusy)
	// ErrClosed is returned by Append and Room before Start and after Close.
	ErrClosed = errors.New("commitlog: closed")
	// ErrTooLarge is wrapped by errors about records that no segment or pool of this size can take.
	ErrTooLarge = errors.New("commitlog: record too large")
	// ErrLatched is wrapped by what Append returns after Latch, beside the cause.
	ErrLatched = errors.New("commitlog: no appends after a failed write or flush until a restart")
	// ErrInUse is wrapped by RemoveFirst when the oldest segment is still needed.
	ErrInUse = errors.New("commitlog: segment in use")
)

// Placer is told, under the put lock and in the order of the log, where its records stand: the place to join a queue that is
// ordered by position. End is published after it returns, so no position passes a record before its wait has joined. It
// must not block, allocate or call the log.
type Placer interface{ Placed(a Appended) }

// Open repairs what an interrupted allocation left behind and loads the segments. Nothing may be appended before Start.
func Open(o Options) (*Log, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	l := &Log{options: o, logger: o.Logger, limit: math.MaxInt64, limitNear: math.MaxInt64}
	l.room.L = &l.mu
	if l.logger == nil {
		l.logger = slog.New(slog.DiscardHandler)
	}
	if err := repair(o.Storage, o.SegmentSize, l.logger); err != nil {
		return nil, err
	}
	set, err := segment.OpenSet(segment.SetOptions{Size: o.SegmentSize, Storage: o.Storage, Metrics: o.Segments})
	if err != nil {
		return nil, fmt.Errorf("commitlog: open: %w", err)
	}
	l.set = set
	for _, gap := range set.Gaps() { // also one that no scan comes by, for it lies before the place where recovery begins
		l.logger.Error("commitlog: segments are missing, messages of them are lost", "from", gap.From, "to", gap.To)
	}
	return l, nil
}

func (o *Options) validate() error {
	if o.Storage == nil || o.Now == nil {
		return errors.New("commitlog: options without Storage or Now")
	}
	if o.SegmentSize < blockSize {
		return fmt.Errorf("commitlog: mappedFileSizeCommitLog=%d, at least %d is needed", o.SegmentSize, blockSize)
	}
	if o.PoolSize == 0 {
		o.PoolSize = defaultPoolSize
	}
	if o.PoolKey == "" {
		o.PoolKey = "ringmq.poolSize"
	}
	if o.PoolSize < 2*blockSize {
		return fmt.Errorf("commitlog: %s=%d, at least %d is needed", o.PoolKey, o.PoolSize, 2*blockSize)
	}
	return nil
}

// Start declares end to be the end of everything: appended, committed and flushed. It makes the segment of end if it is
// missing and allocates it if it is sparse, so that no write into it can find the disk full; the next one is made in the
// background once something is appended. Behind end there must be only zeros, see Cut.
func (l *Log) Start(end message.Offset) error {
	current, err := l.segmentAt(int64(end))
	if err != nil {
		return err
	}
	for _, f := range l.set.Files() {
		if f.End() <= current.Base() {
			continue
		}
		// Segments of a Java broker are sparse, and so are those of a restored copy.
		if err := l.options.Storage.Resize(f.Name(), f.Size()); err != nil {
			return fmt.Errorf("commitlog: allocate segment %s: %w", f.Name(), err)
		}
	}
	if err := l.startPool(current, int64(end)); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.started {
		panic("BUG: commitlog: started twice")
	}
	l.started = true
	l.end.Store(int64(end))
	l.reached.Store(int64(end))
	l.committed.Store(int64(end))
	l.flushed.Store(int64(end))
	l.preparer = segment.NewPreparer(segment.PreparerOptions{
		Storage: l.options.Storage, Size: l.options.SegmentSize,
		Zero: l.options.ZeroAhead, ZeroBytesPerSecond: l.options.ZeroBytesPerSecond,
		Failed: l.prepareFailed, Metrics: l.options.Segments,
	})
	l.enterLocked(current)
	return nil
}

// segmentAt is the segment that the next byte at end goes into; it is made if the log ends exactly at a boundary. It is only
// allocated, not zeroed: the caller waits for it.
func (l *Log) segmentAt(end int64) (*segment.File, error) {
	if f := l.set.Find(end); f != nil {
		return f, nil
	}
	last := l.set.Last()
	if end%l.options.SegmentSize != 0 || last != nil && last.End() != end {
		return nil, fmt.Errorf("commitlog: start at %d: no segment covers it and none of %d bytes can begin there",
			end, l.options.SegmentSize)
	}
	b, err := l.options.Storage.Create(segment.Name(end), l.options.SegmentSize)
	if err != nil {
		return nil, fmt.Errorf("commitlog: make segment %s: %w", segment.Name(end), err)
	}
	f := segment.NewFile(end, b)
	l.set.Add(f)
	return f, nil
}

// startPool makes the pool and puts into it what the block of end holds already, for that block is written again as a whole.
func (l *Log) startPool(current *segment.File, end int64) error {
	if l.options.MappedAppend {
		return nil
	}
	pool, err := segment.NewPool(segment.PoolOptions{
		Size: l.options.PoolSize, Lock: l.options.LockPool, Locked: l.options.PoolLocked, Metrics: l.options.Segments,
	})
	if err != nil {
		return fmt.Errorf("commitlog: make pool: %w", err)
	}
	l.pool = pool
	return fillPool(pool, current, blockStart(current, end), end)
}

// fillPool begins pool at from, with the bytes of f up to end.
func fillPool(pool *segment.Pool, f *segment.File, from, end int64) (err error) {
	defer segment.CatchFault(&err, "commitlog: read segment "+f.Name(), debug.SetPanicOnFault(true))
	pool.Start(from)
	if from < end {
		pool.Put(from, f.Bytes()[from-f.Base():end-f.Base()])
	}
	return nil
}

// blockStart is the position of the block of f that contains at. Blocks count from the start of the file.
func blockStart(f *segment.File, at int64) int64 {
	return at - (at-f.Base())%blockSize
}

// Min is the first byte of the first segment, 0 if there is none.
func (l *Log) Min() message.Offset {
	if f := l.set.First(); f != nil {
		return message.Offset(f.Base())
	}
	return 0
}

// End is the first free byte: everything before it is appended.
func (l *Log) End() message.Offset { return message.Offset(l.end.Load()) }

// Committed is the end of what the page cache or the device has been given.
func (l *Log) Committed() message.Offset { return message.Offset(l.committed.Load()) }

// Flushed is the end of what the device has.
func (l *Log) Flushed() message.Offset { return message.Offset(l.flushed.Load()) }

// PoolRoom is how many bytes can be appended before the committer has to write something out, and how many there are; 0 without a pool.
func (l *Log) PoolRoom() (room, size int64) {
	if l.pool == nil {
		return 0, 0
	}
	return max(l.pool.RoomEnd()-l.end.Load(), 0), l.pool.Size()
}

// Segments is the set of files. The last one may be a segment ahead of End, all zero. It belongs to the log: others read.
func (l *Log) Segments() *segment.Set { return l.set }

// Metrics are the counters of this log.
func (l *Log) Metrics() *Metrics { return &l.metrics }

// RaiseStoreTime makes no later record carry an earlier store time than ms. Scan does the same with what it sees.
func (l *Log) RaiseStoreTime(ms int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.storeTimeMS = max(l.storeTimeMS, ms)
}

// Latch refuses every later append with err (wrapped); the first one stays. Readers go on.
func (l *Log) Latch(err error) {
	wrapped := fmt.Errorf("%w: %w", ErrLatched, err)
	if l.latch.CompareAndSwap(nil, &wrapped) {
		l.wakeRoom()
	}
}

// Latched returns the error of Latch, wrapped, or nil.
func (l *Log) Latched() error {
	if p := l.latch.Load(); p != nil {
		return *p
	}
	return nil
}

// RemoveFirst removes the oldest segment, durably. One that is not flushed to its last byte, so above all the one that is
// appended to, stays: that is ErrInUse. Views of the removed segment stay valid.
func (l *Log) RemoveFirst() error {
	first := l.set.First()
	if first == nil {
		return fmt.Errorf("%w: there is none", ErrInUse)
	}
	if first.End() > l.flushed.Load() || l.appendedTo(first) {
		return fmt.Errorf("%w: %s ends at %d, flushed are %d", ErrInUse, first.Name(), first.End(), l.flushed.Load())
	}
	return l.set.RemoveFirst()
}

// appendedTo: End may stand exactly behind a segment without having entered the next, which then may not exist yet.
func (l *Log) appendedTo(f *segment.File) bool { return f.End() >= l.end.Load() }

// Close ends appends, wakes those in Room and lets the files go; views stay valid until they are released. It writes
// nothing: whoever wants to keep what was appended has flushed before, and the committer has ended.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.room.Broadcast()
	l.mu.Unlock()

	var errs []error
	if l.preparer != nil {
		errs = append(errs, l.preparer.Close())
	}
	errs = append(errs, l.set.Close())
	if l.pool != nil {
		errs = append(errs, l.pool.Close())
	}
	return errors.Join(errs...)
}
