package consumequeue

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"ringmq/engine/message"
	"ringmq/internal/durable"
)

const defaultMaxOpen = 1024

// Options of a Table.
type Options struct {
	Dir      string       // store/consumequeue
	FileSize int64        // mappedFileSizeConsumeQueue, a multiple of 20 (see RoundFileSize)
	MaxOpen  int          // descriptors kept open, default 1024; reads under way may need a few more
	Sync     Syncer       // nil: fdatasync of one after the other
	Logger   *slog.Logger // nil: none
	Metrics  *Metrics     // nil: none

	// Known, when it is set, is a number below which all entries of a queue are known to be durable, 0 if none are: the search for
	// the queue's end begins there, which makes Open quick.
	Known func(ID) message.QueueOffset
	// Clean says that we had the files last and stopped cleanly: nothing stands behind the entries that are Known, so it is not looked for.
	Clean bool
}

func (o Options) withDefaults() (Options, error) {
	if o.FileSize <= 0 || o.FileSize%EntrySize != 0 {
		return o, fmt.Errorf("consumequeue: mappedFileSizeConsumeQueue is %d, must be a multiple of %d above 0", o.FileSize, EntrySize)
	}
	if o.MaxOpen <= 0 {
		o.MaxOpen = defaultMaxOpen
	}
	if o.Sync == nil {
		o.Sync = plainSyncer{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = new(Metrics)
	}
	if o.Known == nil {
		o.Known = func(ID) message.QueueOffset { return 0 }
	}
	return o, nil
}

// plainSyncer is what Options has without a ring.
type plainSyncer struct{}

// SyncFds flushes one file after the other and stops at the first that fails.
func (plainSyncer) SyncFds(fds []int) error {
	for _, fd := range fds {
		err := unix.Fdatasync(fd)
		for errors.Is(err, unix.EINTR) {
			err = unix.Fdatasync(fd)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Table is all queues of a store.
type Table struct {
	o       Options
	metrics *Metrics
	files   *descriptors
	tails   *tailPool
	chunks  sync.Pool // of *chunk
	logMin  atomic.Int64
	closed  atomic.Bool

	mu     sync.RWMutex // topics, and the maps in it
	topics map[string]map[int32]*Queue
	count  int

	dirtyMu   sync.Mutex
	dirty     []*Queue // with a tail; each once (Queue.queued)
	unsettled []*Queue // whose folders' entries are to be made durable

	flushMu      sync.Mutex // one Flush, Cut, Delete or Close at a time
	failed       error      // flushMu: a sync of folders failed, for good
	expired      []*Queue   // flushMu: with files to be removed
	flushedBytes int64      // flushMu: of Metrics.WrittenBytes, up to the last flush
}

// Open loads the queues and puts right what a crash can have left; each repair is logged in one line. It refuses files of another
// size than configured.
func Open(o Options) (*Table, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	t := &Table{
		o: o, metrics: o.Metrics, tails: newTailPool(), topics: make(map[string]map[int32]*Queue),
		chunks: sync.Pool{New: func() any { return new(chunk) }},
	}
	t.files = newDescriptors(t, o.MaxOpen)
	if err := durable.MkdirAll(o.Dir); err != nil {
		return nil, err
	}
	if err := t.load(); err != nil {
		return nil, err
	}
	return t, nil
}

// Find returns a queue, nil if absent. It does not allocate.
func (t *Table) Find(topic []byte, id int32) *Queue {
	t.mu.RLock()
	q := t.topics[string(topic)][id]
	t.mu.RUnlock()
	return q
}

// Get returns a queue, made if absent, in memory until its first entry. A name that cannot be a folder's is refused by Put.
func (t *Table) Get(id ID) *Queue {
	t.mu.RLock()
	q := t.topics[id.Topic][id.QueueID]
	t.mu.RUnlock()
	if q != nil {
		return q
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if q := t.topics[id.Topic][id.QueueID]; q != nil {
		return q
	}
	q = newQueue(t, id)
	t.addLocked(q)
	return q
}

func (t *Table) addLocked(q *Queue) {
	queues := t.topics[q.ID.Topic]
	if queues == nil {
		queues = make(map[int32]*Queue)
		t.topics[q.ID.Topic] = queues
	}
	queues[q.ID.QueueID] = q
	t.count++
}

// Range calls fn for each queue there is now, in no order, until it returns false. fn may call the table.
func (t *Table) Range(fn func(*Queue) bool) {
	for _, q := range t.all() {
		if !fn(q) {
			return
		}
	}
}

func (t *Table) all() []*Queue {
	t.mu.RLock()
	defer t.mu.RUnlock()
	all := make([]*Queue, 0, t.count)
	for _, queues := range t.topics {
		for _, q := range queues {
			all = append(all, q)
		}
	}
	return all
}

// Len is the number of queues.
func (t *Table) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.count
}

// SetLogMin tells where the log begins now; each queue's Min follows when it is asked for.
func (t *Table) SetLogMin(min message.Offset) { t.logMin.Store(int64(min)) }

// repaired logs what was put right.
func (t *Table) repaired(what string, args ...any) {
	t.metrics.Repairs.Add(1)
	t.o.Logger.Warn(what, args...)
}

// Delete removes the queues of a topic and their files, durably. While it runs, and for whoever still holds one of the queues
// afterwards, Put says ErrDeleted. After an error it is to be called again.
func (t *Table) Delete(topic string) error {
	if err := checkID(ID{Topic: topic}); err != nil {
		return err
	}
	t.flushMu.Lock()
	defer t.flushMu.Unlock()
	if t.closed.Load() {
		return ErrClosed
	}
	for _, q := range t.all() {
		if q.ID.Topic == topic {
			q.delete()
		}
	}
	if err := os.RemoveAll(t.topicDir(topic)); err != nil {
		return fmt.Errorf("consumequeue: delete topic %q: %w", topic, err)
	}
	if err := durable.SyncDir(t.o.Dir); err != nil {
		return err
	}
	t.dirtyMu.Lock()
	t.unsettled = slices.DeleteFunc(t.unsettled, func(q *Queue) bool { return q.ID.Topic == topic })
	t.dirtyMu.Unlock()
	t.mu.Lock() // last, so that nobody makes the topic anew while its folder goes
	defer t.mu.Unlock()
	t.count -= len(t.topics[topic])
	delete(t.topics, topic)
	return nil
}

// delete makes the queue refuse changes and forgets its files.
func (q *Queue) delete() {
	q.mu.Lock()
	q.deleted = true
	q.mu.Unlock()
	q.table.files.drop(func(key fileKey) bool { return key.queue == q })
}

// Close flushes and closes all files. Readers and who puts must be gone.
func (t *Table) Close() error {
	if t.closed.Swap(true) {
		return ErrClosed
	}
	t.flushMu.Lock()
	defer t.flushMu.Unlock()
	err := t.flush()
	t.files.drop(func(fileKey) bool { return true })
	return err
}
