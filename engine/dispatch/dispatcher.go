// Package dispatch follows the log: every record that became readable gets its entry in a consume queue, and those who wait for
// it are told. It also keeps what was dispatched durable: queues, checkpoint and mark. Queues can always be built again from the
// log, so a failure here costs time, never a message.
package dispatch

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
	"ringmq/engine/segment"
)

const (
	// publishBytes is how far the dispatcher goes before it publishes its position within one segment.
	publishBytes = 1 << 20
	// retryAfter is the pause before an entry is tried again that could not be written: the disk may be full.
	retryAfter = time.Second
)

// Log is what the dispatcher reads; *commitlog.Log satisfies it.
type Log interface {
	View(from message.Offset, n int) (segment.View, bool)
}

// Arrivals is told, by the dispatcher, that queue entries became readable. It must not block.
type Arrivals interface {
	Arrived(q *consumequeue.Queue, tagsCode int64, max message.QueueOffset)
}

// Keys is the index of keys; *index.Index satisfies it.
type Keys interface {
	Put(r *message.Record) bool   // false: it is behind, or cannot be written, and has to catch up
	Pass(from, to message.Offset) // no record stands there
}

// Options of a Dispatcher. All but Arrivals and Keys are needed.
type Options struct {
	Log         Log
	SegmentSize int64
	Entries     *Entries
	Readable    func() message.Offset // end of what consumers may see; always the end of a record
	Arrivals    Arrivals              // may be nil
	Keys        Keys                  // may be nil
	// KeysBehind is told that Keys missed the record at an offset. True: everything before it has been put meanwhile, so that it is to be put again.
	KeysBehind func(at message.Offset) bool
	Failed     func(error) // what is readable is not whole: the store must latch
	Logger     *slog.Logger
}

// Position is how far a dispatcher has come.
type Position struct {
	Dispatched      message.Offset // every record before it has its entry
	Last            message.Offset // the last record before it, -1 if there was none
	LastStoreTimeMS int64
	Entries         int64 // put since Start
}

// Dispatcher is one goroutine between Start and Close.
type Dispatcher struct {
	o    Options
	wake chan struct{}
	stop chan struct{}
	done chan struct{}

	at   Position       // of the goroutine alone
	rec  message.Record // of the goroutine alone: reused, so that no record allocates
	dead bool           // of the goroutine alone: Failed was called

	dispatched atomic.Int64
	mu         sync.Mutex
	published  Position // guarded by mu
}

// New makes a dispatcher; Start lets it run.
func New(o Options) *Dispatcher {
	return &Dispatcher{o: o, wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
}

// Start begins behind from.
func (d *Dispatcher) Start(from Position) {
	d.at = from
	d.publish()
	go d.run()
	d.Wake()
}

// Wake says that the readable position has moved. It never blocks.
func (d *Dispatcher) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Dispatched is the position alone, for hot paths.
func (d *Dispatcher) Dispatched() message.Offset { return message.Offset(d.dispatched.Load()) }

// Position is consistent in itself.
func (d *Dispatcher) Position() Position {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.published
}

// Close dispatches what is readable and ends the goroutine. It does not try again what cannot be written.
func (d *Dispatcher) Close() {
	close(d.stop)
	<-d.done
}

func (d *Dispatcher) run() {
	defer close(d.done)
	for stopping := false; ; {
		if err := d.drain(); err != nil {
			d.o.Logger.Error("an entry cannot be written into its consume queue; trying again", "error", err, "at", d.at.Dispatched)
			if stopping || !d.pause() {
				return
			}
			continue
		}
		if stopping {
			return
		}
		select {
		case <-d.wake:
		case <-d.stop:
			stopping = true
		}
	}
}

// pause waits before another try; false when the dispatcher is to end.
func (d *Dispatcher) pause() bool {
	timer := time.NewTimer(retryAfter)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-d.stop:
		return false
	}
}

// drain goes up to what is readable. It returns an error of the queues; damage in the log ends the dispatcher's work for good.
func (d *Dispatcher) drain() error {
	for !d.dead {
		at, readable := d.at.Dispatched, d.o.Readable()
		if at >= readable {
			return nil
		}
		segmentEnd := at - at%message.Offset(d.o.SegmentSize) + message.Offset(d.o.SegmentSize)
		if err := d.stretch(at, min(readable, segmentEnd)); err != nil {
			return err
		}
	}
	return nil
}

// stretch dispatches [at, end), which lies in one segment.
func (d *Dispatcher) stretch(at, end message.Offset) error {
	view, ok := d.o.Log.View(at, int(end-at))
	if !ok {
		d.damaged(at, fmt.Errorf("the log has no bytes here"))
		return nil
	}
	defer view.Release()
	defer d.publish()
	unreadable, err := d.records(view.Bytes, at, end)
	if unreadable != nil {
		d.damaged(d.at.Dispatched, unreadable)
		return nil
	}
	return err
}

// records dispatches b, the bytes at at, which may break off before end. unreadable tells of bytes that the device cannot read again after
// the page cache has let them go.
func (d *Dispatcher) records(b []byte, at, end message.Offset) (unreadable, err error) {
	defer segment.CatchFault(&unreadable, "dispatch", debug.SetPanicOnFault(true))
	whole := len(b) == int(end-at)
	for rest, last := b, at; len(rest) > 0; {
		kind, err := message.Check(rest, d.at.Dispatched, &d.rec)
		switch {
		case kind == message.Blank:
			if d.o.Keys != nil {
				d.o.Keys.Pass(d.at.Dispatched, d.at.Dispatched+message.Offset(len(rest)))
			}
			d.at.Dispatched += message.Offset(len(rest))
			return nil, nil
		case kind != message.Whole && !whole && d.at.Dispatched > at:
			return nil, nil // the view broke off in a record: the next one begins with it
		case kind != message.Whole:
			if err == nil {
				err = fmt.Errorf("nothing is written here")
			}
			d.damaged(d.at.Dispatched, err)
			return nil, nil
		}
		if err := d.record(&d.rec); err != nil {
			return nil, err
		}
		rest = rest[d.rec.Size:]
		if d.at.Dispatched-last >= publishBytes {
			d.publish()
			last = d.at.Dispatched
		}
	}
	return nil, nil
}

func (d *Dispatcher) record(r *message.Record) error {
	q, entry, err := d.o.Entries.Put(r)
	if err != nil {
		return err
	}
	if d.o.Keys != nil && !d.o.Keys.Put(r) && d.o.KeysBehind(r.Offset) {
		d.o.Keys.Put(r)
	}
	d.at.Dispatched = r.Offset + message.Offset(r.Size)
	d.at.Last, d.at.LastStoreTimeMS = r.Offset, r.StoreTime
	if q == nil {
		return nil
	}
	d.at.Entries++
	if d.o.Arrivals != nil {
		d.o.Arrivals.Arrived(q, entry.TagsCode, q.Max())
	}
	return nil
}

func (d *Dispatcher) publish() {
	d.mu.Lock()
	d.published = d.at
	d.mu.Unlock()
	d.dispatched.Store(int64(d.at.Dispatched))
}

// damaged ends the work: bytes that were written by this process and are below the readable position are not what was written.
func (d *Dispatcher) damaged(at message.Offset, err error) {
	d.dead = true
	err = fmt.Errorf("dispatch: the log is damaged at %d, below the readable position: %w", at, err)
	d.o.Logger.Error("the commit log is damaged; the store takes no more messages until it is opened again", "error", err, "offset", at)
	d.o.Failed(err)
}
