package dispatch

import (
	"log/slog"
	"sync"
	"time"

	"ringmq/engine/checkpoint"
	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
)

const (
	pageSize  = 4096
	entrySize = 20

	// markBytes: a mark is saved once this much of the log has been dispatched and flushed since the last one. It bounds what a start
	// after a kill has to walk; each mark costs two journal commits.
	markBytes = 32 << 20

	// The mark's Limit is kept so far ahead of the log: little at first, for it is what a start after a kill reads in vain, and more for a
	// log that grows fast.
	minAhead = 16 << 20
	maxAhead = 128 << 20

	// A flush of very many queues takes seconds, of which the log's own flush gets its share. Behind one the next waits restTimes as long, unless
	// there is so much to walk already for a start after a kill, or the thorough interval is over.
	restTimes = 4
	restBytes = 512 << 20

	// minIntervalMS keeps a setting of 0 from becoming a busy loop.
	minIntervalMS = 10
)

// Settings have the original's names and meaning; read before each round, so they may change while running.
type Settings struct {
	IntervalMS         int64 // flushIntervalConsumeQueue 1000
	ThoroughIntervalMS int64 // flushConsumeQueueThoroughInterval 60000
	LeastPages         int   // flushConsumeQueueLeastPages 2; 0: any entry
}

// KeptLog is what the Keeper asks of the log.
type KeptLog interface {
	Flushed() message.Offset
	Reached() message.Offset       // what a limit has to be above
	SetLimit(limit message.Offset) // it may grow up to there
	LimitFailed(err error)         // there is no higher limit for now
}

// KeptQueues is what the Keeper asks of the queues; *consumequeue.Table satisfies it.
type KeptQueues interface {
	Range(fn func(*consumequeue.Queue) bool)
	Flush() error
}

// KeptIndex is what the Keeper asks of the index of keys; *index.Index satisfies it. Its errors are its own: it costs no mark.
type KeptIndex interface {
	Prepare(thorough bool) (upTo message.Offset, due bool) // writes out; the log has to be on the device up to upTo before Finish
	Finish()
	FullMS() int64
}

// KeeperOptions of a Keeper; all but Index are needed.
type KeeperOptions struct {
	Log            KeptLog
	FlushLog       func() error // everything appended is on the device when it returns nil
	Queues         KeptQueues
	Index          KeptIndex // may be nil
	Position       func() Position
	Settings       func() Settings
	SegmentSize    int64
	MarkPath       string
	CheckpointPath string
	Checkpoint     checkpoint.Checkpoint // as loaded: what ringmq does not keep itself stays
	Now            func() int64          // ms
	Logger         *slog.Logger
}

// Keeper makes what was dispatched durable: the queues' files, then the mark and the checkpoint that tell it. The order is the
// point: the log is on the device before the queues are said to be, and the queues are before the mark says so. A kill between any
// two steps leaves an older mark, which costs a longer walk at the next start.
type Keeper struct {
	o       KeeperOptions
	urgent  chan struct{}
	limit   chan struct{}
	told    chan struct{} // the settings have changed
	stop    chan struct{}
	done    sync.WaitGroup
	started bool

	// saving guards the mark and its file. It is taken after mu, or alone: a limit is raised while a round waits for the device.
	saving      sync.Mutex
	mark        checkpoint.Mark
	limitFailed bool           // the log may be waiting for a limit that could not be saved
	began       message.Offset // where the log ended at Start; it does not change after that

	mu           sync.Mutex // one round at a time
	settled      Position   // the newest position seen whose records are all on the device
	candidate    Position   // one further on, until it is settled
	entries      int64      // of Position.Entries: flushed
	lastThorough int64      // ms
	flushedMS    int64      // when the last flush of the queues ended,
	restMS       int64      // and for how long from then on none is worth its while
}

// NewKeeper makes a keeper that has not written anything yet.
func NewKeeper(o KeeperOptions) *Keeper {
	none := Position{Last: -1}
	return &Keeper{
		o: o, urgent: make(chan struct{}, 1), limit: make(chan struct{}, 1), told: make(chan struct{}, 1), stop: make(chan struct{}),
		mark: checkpoint.Mark{Last: -1}, settled: none, candidate: none,
	}
}

// Start saves a first mark, so that the next start is quick, and lets the keeper run. What was recovered is flushed by then.
func (k *Keeper) Start() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lastThorough = k.o.Now()
	k.began = k.o.Log.Reached()
	if err := k.keep(true, false); err != nil {
		return err
	}
	k.started = true
	k.done.Go(k.run)
	k.done.Go(k.limits)
	return nil
}

// LogFlushed says that the log was flushed thoroughly: the mark is worth saving. It never blocks.
func (k *Keeper) LogFlushed(message.Offset) {
	select {
	case k.urgent <- struct{}{}:
	default:
	}
}

// LimitNear says that the log comes near its limit: a mark with a higher one is saved. It never blocks.
func (k *Keeper) LimitNear() {
	select {
	case k.limit <- struct{}{}:
	default:
	}
}

// SettingsChanged has the settings read anew: a shorter interval does not begin behind the one that is under way. It never blocks.
func (k *Keeper) SettingsChanged() {
	select {
	case k.told <- struct{}{}:
	default:
	}
}

// Close ends the rounds. With clean it then makes everything durable, and the mark says that nothing else is to be expected; nil means
// that this is so.
func (k *Keeper) Close(clean bool) error {
	if k.started {
		close(k.stop)
		k.done.Wait()
		k.started = false
	}
	if !clean {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.o.FlushLog(); err != nil {
		return err
	}
	return k.keep(true, true)
}

// Outlived is a position before which no start needs the log any more: the mark on the device says that the queues have the entries of all
// records before it, and the record that it is known by stands behind it. It only grows.
func (k *Keeper) Outlived() message.Offset {
	mark, _ := k.latest()
	return min(mark.Dispatched, mark.Last)
}

// Keep makes durable what was appended and dispatched before it, and saves a mark that says so. After Start and before Close only.
func (k *Keeper) Keep() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.o.FlushLog(); err != nil {
		return err
	}
	return k.keep(true, false)
}

func (k *Keeper) run() {
	timer := time.NewTimer(k.interval())
	defer timer.Stop()
	begun := time.Now() // of the interval
	for {
		var err error
		select {
		case <-k.stop:
			return
		case <-k.urgent:
			err = k.markLog()
		case <-k.told:
			timer.Reset(time.Until(begun.Add(k.interval())))
		case <-timer.C:
			err = k.round()
			begun = time.Now()
			timer.Reset(k.interval())
		}
		k.report(err)
	}
}

func (k *Keeper) report(err error) {
	if err != nil {
		k.o.Logger.Error("queues, mark or checkpoint could not be kept; a start after a kill will take longer", "error", err)
	}
}

// limits raises the limit when the log asks for it. It has a goroutine of its own, since senders wait for it, and a round may take long.
func (k *Keeper) limits() {
	for {
		select {
		case <-k.limit:
			k.report(k.raiseLimit())
		case <-k.stop:
			return
		}
	}
}

func (k *Keeper) interval() time.Duration {
	return time.Duration(max(k.o.Settings().IntervalMS, minIntervalMS)) * time.Millisecond
}

// round flushes the queues when enough has been put or the thorough interval is over, and saves the mark when the log has reached a
// new segment.
func (k *Keeper) round() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	settings, now := k.o.Settings(), k.o.Now()
	mark, limitFailed := k.latest()
	if limitFailed {
		if err := k.raiseLimit(); err != nil {
			return err
		}
	}
	if since := now - k.lastThorough; since >= settings.ThoroughIntervalMS || since < 0 { // below 0: the clock was set back
		k.lastThorough = now
		if k.o.Position().Dispatched == mark.Dispatched && k.o.Log.Flushed() == mark.Flushed {
			return nil // an idle store stays asleep
		}
		if err := k.o.FlushLog(); err != nil {
			return err
		}
		return k.keep(true, false)
	}
	position := k.o.Position()
	if since := now - k.flushedMS; since >= 0 && since < k.restMS && position.Dispatched-mark.Dispatched < restBytes {
		return k.saveNewSegment(&mark)
	}
	dirty := position.Entries - k.entries
	if dirty > 0 && dirty*entrySize >= int64(settings.LeastPages)*pageSize {
		return k.keep(false, false)
	}
	return k.saveNewSegment(&mark)
}

// saveNewSegment saves how far the log is flushed when that lies in another segment than mark says.
func (k *Keeper) saveNewSegment(mark *checkpoint.Mark) error {
	if segment := k.o.SegmentSize; int64(k.o.Log.Flushed())/segment > int64(mark.Flushed)/segment {
		return k.saveLogMark()
	}
	return nil
}

// keep flushes the queues and then saves the mark (now and then, or always when thorough) and the checkpoint (thorough only).
func (k *Keeper) keep(thorough, clean bool) error {
	// Everything below is read before the flush, the position first: entries put meanwhile may be flushed too, but are not claimed.
	position := k.o.Position()
	flushed := k.o.Log.Flushed()
	last, _ := k.latest()
	due := thorough || min(position.Dispatched, flushed)-last.Dispatched >= markBytes
	k.settle(position, flushed)
	var queues []checkpoint.QueueMark
	if due {
		queues = k.queueMarks()
	}
	if err := k.flushDerived(thorough); err != nil {
		return err // of a sync: the queues will not be claimed to be durable any more in this run
	}
	k.entries = position.Entries
	if !due {
		return nil
	}
	mark := checkpoint.Mark{
		Flushed: flushed, Dispatched: min(position.Dispatched, flushed), Clean: clean, Queues: queues,
		Last: k.settled.Last, LastStoreTimeMS: k.settled.LastStoreTimeMS,
	}
	if err := k.save(mark); err != nil {
		return err
	}
	if !thorough {
		return nil
	}
	return k.saveCheckpoint()
}

// flushDerived flushes the queues and, when that is due, the index: its files are synced in one batch with theirs.
func (k *Keeper) flushDerived(thorough bool) error {
	begun := k.o.Now()
	defer func() {
		k.flushedMS = k.o.Now()
		k.restMS = restTimes * (k.flushedMS - begun)
	}()
	index := k.o.Index
	if index == nil {
		return k.o.Queues.Flush()
	}
	upTo, due := index.Prepare(thorough)
	if due && upTo > k.o.Log.Flushed() {
		if err := k.o.FlushLog(); err != nil {
			return err
		}
	}
	err := k.o.Queues.Flush()
	if due {
		index.Finish()
	}
	return err
}

// markLog saves how far the log is flushed; of the queues the mark goes on to say what it said.
func (k *Keeper) markLog() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.saveLogMark()
}

func (k *Keeper) saveLogMark() error {
	mark, _ := k.latest()
	position, flushed := k.o.Position(), k.o.Log.Flushed()
	if flushed == mark.Flushed {
		return nil
	}
	mark.Flushed = flushed
	k.settle(position, flushed)
	mark.Last, mark.LastStoreTimeMS = k.settled.Last, k.settled.LastStoreTimeMS
	return k.save(mark)
}

// settle remembers the newest position that lies before flushed. Under load dispatch is always a little ahead of the device; so the
// position of one round is kept until the device has come past it.
func (k *Keeper) settle(position Position, flushed message.Offset) {
	switch {
	case position.Dispatched <= flushed:
		k.settled, k.candidate = position, position
	case k.candidate.Dispatched <= flushed:
		k.settled, k.candidate = k.candidate, position
	}
}

// latest is the mark that was saved last, and whether the limit of a later one could not be.
func (k *Keeper) latest() (mark checkpoint.Mark, limitFailed bool) {
	k.saving.Lock()
	defer k.saving.Unlock()
	return k.mark, k.limitFailed
}

func (k *Keeper) save(mark checkpoint.Mark) error {
	k.saving.Lock()
	defer k.saving.Unlock()
	return k.saveLocked(mark)
}

// raiseLimit saves the last mark with a higher limit.
func (k *Keeper) raiseLimit() error {
	k.saving.Lock()
	defer k.saving.Unlock()
	return k.saveLocked(k.mark)
}

// saveLocked saves a mark with a limit that leaves the log room, and only then lets it grow up to there. Behind a clean mark nothing is
// written any more.
func (k *Keeper) saveLocked(mark checkpoint.Mark) error {
	if reached := k.o.Log.Reached(); mark.Clean {
		mark.Limit = reached
	} else {
		ahead := min(max((reached-k.began)/8, minAhead), maxAhead)
		mark.Limit = max(reached+ahead, k.mark.Limit)
	}
	if err := mark.Save(k.o.MarkPath); err != nil {
		k.limitFailed = true
		k.o.Log.LimitFailed(err)
		return err
	}
	k.mark, k.limitFailed = mark, false
	k.o.Log.SetLimit(mark.Limit)
	return nil
}

// saveCheckpoint writes the file of RocketMQ from the mark just saved, so that a Java broker of either version opens the store and
// begins its own recovery at the right place.
func (k *Keeper) saveCheckpoint() error {
	c := k.o.Checkpoint
	mark, _ := k.latest()
	c.LogTimeMS, c.QueueTimeMS = mark.LastStoreTimeMS, mark.LastStoreTimeMS
	if k.o.Index != nil {
		c.IndexTimeMS = k.o.Index.FullMS()
	}
	c.Confirmed, c.QueueOffset = max(mark.Last, 0), mark.Dispatched
	return c.Save(k.o.CheckpointPath)
}

func (k *Keeper) queueMarks() []checkpoint.QueueMark {
	var marks []checkpoint.QueueMark
	k.o.Queues.Range(func(q *consumequeue.Queue) bool {
		if first, end := q.First(), q.Max(); end > first {
			marks = append(marks, checkpoint.QueueMark{Topic: q.ID.Topic, QueueID: q.ID.QueueID, Min: first, Max: end})
		}
		return true
	})
	return marks
}
