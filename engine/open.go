package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ringmq/engine/checkpoint"
	"ringmq/engine/commitlog"
	"ringmq/engine/consumequeue"
	"ringmq/engine/dispatch"
	"ringmq/engine/flush"
	"ringmq/engine/index"
	"ringmq/engine/message"
	"ringmq/engine/retention"
	"ringmq/engine/scrub"
	"ringmq/engine/seal"
	"ringmq/engine/segment"
	"ringmq/internal/durable"
	"ringmq/uring"
)

// Store is an open store. All methods may be called by any number of goroutines.
type Store struct {
	options Options
	paths   paths
	delays  dispatch.Delays
	began   time.Time // of Open: deadlines are counted from it, whatever happens to the clock

	lock       *checkpoint.Lock
	ring       *uring.Queue // flushes several segments at once, as at a roll
	queueRing  *uring.Queue // flushes queue files: hundreds at a time, which a sync flush must not wait behind
	log        *commitlog.Log
	queues     *consumequeue.Table
	flusher    *flush.Service
	dispatcher *dispatch.Dispatcher
	keeper     *dispatch.Keeper
	index      *index.Index // nil: there is none in this run
	keys       catchUp
	overflow   overflow
	disk       diskGuard
	cleaner    *retention.Cleaner
	scrubber   *scrub.Scrubber

	// life is held for reading by whoever uses the store and for writing by Close, so that nothing begins after it.
	life   sync.RWMutex
	closed bool // guarded by life

	everything bool            // Repair: all of the log is walked over, and no queue is taken for complete
	sealed     []seal.File     // of Open
	mark       checkpoint.Mark // of Open: Last is -1 when there is none that can be believed
	recovery   Recovery
	metrics    Metrics
	limits     atomic.Pointer[Limits]
	damageTold atomic.Int64   // ns: when damage was last told
	poolTold   int64          // bytes of the pool that were told to be locked; of who locks it
	recent     message.Offset // so many bytes before the end of the log are taken to be in memory

	segmentMetrics segment.Metrics
	queueMetrics   consumequeue.Metrics
	indexMetrics   index.Metrics
	scrubMetrics   scrub.Metrics
}

// paths are the names of RocketMQ, and below ringmq/ those of our own, which a Java broker ignores.
type paths struct{ queues, index, checkpoint, abort, lock, config, own, mark, indexed, damaged, cut, seals string }

func pathsOf(dir string) paths {
	own := filepath.Join(dir, "ringmq")
	return paths{
		queues:     filepath.Join(dir, "consumequeue"),
		index:      filepath.Join(dir, "index"),
		checkpoint: filepath.Join(dir, "checkpoint"),
		abort:      filepath.Join(dir, "abort"),
		lock:       filepath.Join(dir, "lock"),
		config:     filepath.Join(dir, "config"),
		own:        own,
		mark:       filepath.Join(own, "mark"),
		indexed:    filepath.Join(own, "indexed"),
		damaged:    filepath.Join(own, "damaged"),
		cut:        filepath.Join(own, "cut"),
		seals:      filepath.Join(own, "seals"),
	}
}

// Open recovers the store in a folder, which is made if need be, and starts it. It does not return before every message of the log has
// its queue entry.
func Open(o Options) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := newStore(o)
	s.recent = recentBytes
	if asked := o.QueueFileSize; asked != 0 && asked != s.options.QueueFileSize {
		s.options.Logger.Warn("mappedFileSizeConsumeQueue is no multiple of an entry, rounded up", "asked", asked, "used", s.options.QueueFileSize)
	}
	s.limits.Store(&Limits{MaxMessageSize: s.options.MaxMessageSize, DiskWarningRatio: s.options.DiskWarningRatio, PutWaitMS: s.options.PutWaitMS})
	s.keys = newCatchUp()
	if err := s.open(); err != nil {
		return nil, err
	}
	return s, nil
}

// newStore is a store that has touched nothing yet, of valid options.
func newStore(o Options) *Store {
	s := &Store{options: o.withDefaults(), began: time.Now()}
	s.limitOpenQueues()
	s.paths = pathsOf(s.options.Dir)
	s.delays, _ = dispatch.ParseDelays(s.options.DelayLevels) // Validate has
	return s
}

// open goes through the phases. Until recovery begins nothing has been changed that a Java broker would mind, so a store that was left
// cleanly is left so again when one of the phases before fails; and likewise when recovery is complete and only the check for
// undeliverable messages fails.
func (s *Store) open() error {
	phases := []struct {
		name string
		run  func() error
		left bool // when it fails the store is as complete as before
	}{
		{"folders and lock", s.acquire, false},
		{"load commit log", s.loadLog, true},
		{"load consume queues", s.loadQueues, true},
		{"recover", s.recover, false},
		{"look for undeliverable messages", s.refusePending, true},
		{"start services", s.start, false},
	}
	for _, phase := range phases {
		if err := s.phase(phase.name, phase.run); err != nil {
			return errors.Join(err, s.abandon(phase.left && s.recovery.Clean))
		}
	}
	return nil
}

// abandon gives back what open had taken before it failed.
func (s *Store) abandon(clearAbort bool) error {
	err := s.letGo()
	if clearAbort {
		err = errors.Join(err, checkpoint.ClearAbort(s.paths.abort))
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Release())
	}
	return err
}

// letGo gives back the files of a store that was not started.
func (s *Store) letGo() error {
	var errs []error
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	if s.queues != nil {
		errs = append(errs, s.queues.Close())
	}
	if s.index != nil {
		errs = append(errs, s.index.Close())
	}
	for _, ring := range []*uring.Queue{s.ring, s.queueRing} {
		if ring != nil {
			errs = append(errs, ring.Close())
		}
	}
	return errors.Join(errs...)
}

// acquire takes the lock and sets the abort file, before anything of the store is touched.
func (s *Store) acquire() error {
	if err := s.takeLock(); err != nil {
		return err
	}
	return s.prepare()
}

func (s *Store) takeLock() error {
	if err := durable.MkdirAll(s.options.Dir); err != nil {
		return fmt.Errorf("engine: storePathRootDir: %w", err)
	}
	if err := refuseForeign(s.options.Dir, s.options.LogDir); err != nil {
		return err
	}
	lock, err := checkpoint.Acquire(s.paths.lock)
	if err != nil {
		return err
	}
	s.lock = lock
	return nil
}

// prepare makes the folders and sets the abort file, before anything of the store is touched. The lock is held.
func (s *Store) prepare() error {
	for _, dir := range []string{s.options.LogDir, s.paths.queues, s.paths.own} {
		if err := durable.MkdirAll(dir); err != nil {
			return err
		}
	}
	aborted, err := checkpoint.HasAbort(s.paths.abort)
	if err != nil {
		return err
	}
	s.recovery.Clean = !aborted
	if err := checkpoint.SetAbort(s.paths.abort); err != nil {
		return err
	}
	s.ring = uring.Open(uring.Options{Off: !s.options.Ring, Log: s.options.Logger})
	s.queueRing = uring.Open(uring.Options{Off: !s.options.Ring, Log: s.options.Logger})
	return nil
}

// refuseForeign knows the stores that keep their messages, or their queues, in other forms. Opening one would look like an empty store.
func refuseForeign(dir, logDir string) error {
	for _, place := range []string{dir, logDir} {
		entries, err := os.ReadDir(place)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("engine: %w", err)
		}
		for _, entry := range entries {
			name := entry.Name()
			switch {
			case strings.HasPrefix(name, "dledger-"):
				return fmt.Errorf("%w: %s is of a DLedger group (enableDLegerCommitLog)", ErrForeign, filepath.Join(place, name))
			case name == "consumequeue_rocksdb":
				return fmt.Errorf("%w: %s is of storeType=defaultRocksDB", ErrForeign, filepath.Join(place, name))
			}
		}
	}
	rocks := filepath.Join(dir, "consumequeue", "CURRENT")
	if _, err := os.Lstat(rocks); err == nil {
		return fmt.Errorf("%w: %s is of storeType=defaultRocksDB", ErrForeign, rocks)
	}
	return nil
}

// start lets the services run. What was recovered is on the device by then.
func (s *Store) start() error {
	o := &s.options
	s.scrubber = s.newScrubber()
	s.flusher = flush.New(flush.Options{
		Log: s.log, Syncer: s.syncer(), Sync: o.SyncFlush, Settings: o.Flush, Now: s.elapsedMS,
		Transient: o.TransientPool, SegmentSize: o.SegmentSize,
		Released: o.Released,
		Advanced: func() { s.dispatcher.Wake(); s.scrubber.Advanced() },
		Thorough: func(flushed message.Offset) { s.keeper.LogFlushed(flushed) },
		Failed:   s.failed,
	})
	follow := dispatch.Options{
		Log: s.log, SegmentSize: o.SegmentSize, Entries: &dispatch.Entries{Queues: s.queues, Delays: s.delays, Logger: o.Logger},
		Readable: s.readable, Arrivals: o.Arrivals, Failed: s.log.Latch, Logger: o.Logger,
	}
	if s.index != nil {
		follow.Keys, follow.KeysBehind = s.index, s.keysBehind
	}
	s.dispatcher = dispatch.New(follow)
	previous, err := checkpoint.Load(s.paths.checkpoint)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		o.Logger.Warn("the checkpoint was not usable; it is not needed", "error", err)
	}
	keep := dispatch.KeeperOptions{
		Log: s.log, FlushLog: s.flusher.FlushAll, Queues: s.queues, Position: s.dispatcher.Position, Settings: o.QueueFlush,
		SegmentSize: o.SegmentSize, MarkPath: s.paths.mark, CheckpointPath: s.paths.checkpoint, Checkpoint: previous,
		Now: o.Now, Logger: o.Logger,
	}
	if s.index != nil {
		keep.Index = s.index
	}
	s.keeper = dispatch.NewKeeper(keep)
	s.dispatcher.Start(s.recovery.position)
	if err := s.keeper.Start(); err != nil {
		s.dispatcher.Close()
		return err
	}
	if err := s.lock.Claim(); err != nil { // behind the first mark: before it, what another broker did is not known to the next start
		s.dispatcher.Close()
		return errors.Join(err, s.keeper.Close(false))
	}
	s.flusher.Start()
	s.keys.start(s)
	s.overflow.start(s)
	s.disk = diskGuard{dir: o.LogDir, ratio: func() float64 { return s.limits.Load().DiskWarningRatio }, usage: o.DiskUsage, report: s.diskChanged}
	s.disk.start()
	s.cleaner = retention.New(retention.Options{
		Store: expiring{s}, Settings: s.retentionSettings, Now: o.Now, Logger: o.Logger,
	})
	s.cleaner.Start()
	s.scrubber.Start()
	return nil
}

// phase runs one step of Open, keeps how long it took and logs it.
func (s *Store) phase(name string, run func() error) error {
	start := time.Now()
	err := run()
	took := time.Since(start)
	s.recovery.Phases = append(s.recovery.Phases, Phase{Name: name, Took: took})
	if err != nil {
		return err
	}
	s.options.Logger.Info("store: "+name, "took", took.Round(time.Microsecond))
	return nil
}

// elapsedMS is the time since Open. Unlike that of day it never jumps.
func (s *Store) elapsedMS() int64 { return time.Since(s.began).Milliseconds() }

func (s *Store) diskChanged(err error) {
	if err == nil {
		s.options.Logger.Info("the disk has room again, messages are taken")
		return
	}
	s.options.Logger.Error("messages are refused until the disk has room", "error", err)
}

func (s *Store) failed(err error) {
	s.options.Logger.Error("a flush has failed: the store takes no more messages until it is opened again; reads go on", "error", err)
}
