package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"ringmq/engine/commitlog"
	"ringmq/engine/consumequeue"
	"ringmq/engine/flush"
	"ringmq/engine/message"
)

// maxTopic is the longest name of a folder.
const maxTopic = 255

// keepRecords is how large an encoding buffer stays with a request that is used again.
const keepRecords = 256 << 10

// PutRequest is one send, single or batch, pooled by the caller: it is the store's from Put until Done is called, and then, with
// everything in it, the caller's again. It must not be copied after its first Put, so that its buffers are used again.
type PutRequest struct {
	Message message.Message   // single message, or what all items of a batch share
	Batch   []message.Message // if not nil: the items; Message is unused but for Topic and QueueID
	NoWait  bool              // WAIT=false: answered at appended
	Done    Putter

	store   *Store
	records []byte // what is appended, encoded outside the lock
	wait    flush.Wait
	next    *PutRequest // in the overflow
	result  PutResult

	waitsSinceMS int64 // in the overflow: Store.elapsedMS

	waits         atomic.Int32 // positions not yet reached
	flushErr      error
	replicaStatus PutStatus
	replicaErr    error
}

// Held is how many bytes the request keeps for the next put.
func (p *PutRequest) Held() int { return cap(p.records) }

// Putter is called exactly once for each Put, from the caller's or a service's goroutine, under no lock; it must not block.
type Putter interface {
	PutDone(p *PutRequest, r *PutResult)
}

// PutStatus says what became of a put. Each has a response code of the protocol, given beside it.
type PutStatus uint8

const (
	PutOK              PutStatus = iota
	FlushTimeout                 // 10: stored, not promised
	ReplicaUnavailable           // 11: stored, not promised
	ReplicaTimeout               // 12: stored, not promised
	Illegal                      // 13: a size or a field; not stored
	Unavailable                  // 14: latched, disk full, closed; not stored
	Busy                         // 2: too much waits already, or p has waited too long, or no room in the transient pool; not stored
)

// PutResult is part of its request: it is valid while PutDone runs, and after that until the request is put again.
type PutResult struct {
	Status      PutStatus
	Err         error // text for the caller when Status is not PutOK
	Offset      message.Offset
	Offsets     []message.Offset    // of a batch: each record's
	QueueOffset message.QueueOffset // of the first
	StoreTimeMS int64
}

// outcome tells Put who answers.
type outcome uint8

const (
	answerNow   outcome = iota // p.result is complete: Put answers
	answerLater                // a service answers, maybe already has: p must not be touched any more
)

// Put stores one message or one batch, all of it or nothing, and calls p.Done. It never blocks and allocates nothing once the
// request's buffers have grown. Puts of one goroutine are stored in their order.
func (s *Store) Put(p *PutRequest) {
	s.life.RLock()
	who := s.put(p)
	s.life.RUnlock()
	if who == answerNow {
		p.finish()
	}
}

func (s *Store) put(p *PutRequest) outcome {
	p.store = s
	p.flushErr, p.replicaErr, p.replicaStatus = nil, nil, PutOK
	if s.closed {
		return p.refuse(Unavailable, ErrClosed)
	}
	if err := s.unavailable(); err != nil {
		return p.refuse(Unavailable, err)
	}
	if err := s.encode(p); err != nil {
		return p.refuse(Illegal, err)
	}
	if s.overflow.active.Load() == 0 {
		who, err := s.append(p)
		if !errors.Is(err, commitlog.ErrBusy) {
			return who
		}
		if errors.Is(err, commitlog.ErrPoolFull) && s.failsFast() {
			s.flusher.Hurry()
			return p.refuse(Busy, errPoolFull)
		}
	}
	if !s.overflow.add(p) {
		return p.refuse(Busy, errTooMany)
	}
	return answerLater
}

// append puts p's records into the log. Only ErrBusy comes back as an error: nothing has happened then.
func (s *Store) append(p *PutRequest) (outcome, error) {
	immediate := s.immediate(p)
	queue := s.queues.Get(consumequeue.ID{Topic: p.Message.Topic, QueueID: p.Message.QueueID})
	bytes, count := len(p.records), max(len(p.Batch), 1)
	p.wait.DeadlineMS = 0
	if s.options.SyncFlush && !immediate {
		p.wait.DeadlineMS = s.elapsedMS() + s.options.Flush().SyncFlushTimeoutMS
	}
	_, err := s.log.Append(p.records, &queue.Next, (*placing)(p))
	if errors.Is(err, commitlog.ErrBusy) {
		return answerNow, err
	}
	if err != nil {
		return p.refuse(Unavailable, s.refusal(err)), nil
	}
	// From here on p may be answered, and used again, by others; but not when the answer is ours.
	s.metrics.Puts.Add(int64(count))
	s.metrics.PutBytes.Add(int64(bytes))
	s.flusher.Wake()
	if immediate {
		return answerNow, nil
	}
	return answerLater, nil
}

// refusal is the text for senders. A full disk, which passes, is told with its path and how full it is.
func (s *Store) refusal(err error) error {
	if !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("engine: the store takes no messages: %w", err)
	}
	used, _ := s.options.DiskUsage(s.options.LogDir)
	return fmt.Errorf("%w: %s is %.1f %% full: %w", errDiskFull, s.options.LogDir, used*100, err)
}

// immediate: answered at appended.
func (s *Store) immediate(p *PutRequest) bool {
	return p.NoWait || s.options.AnswersAppended() && s.options.Replicator == nil
}

// placing is the PutRequest as the log sees it.
type placing PutRequest

// Placed runs under the put lock, in the order of the log. What it adds to a queue last may be answered before it returns.
func (w *placing) Placed(a commitlog.Appended) {
	p := (*PutRequest)(w)
	s := p.store
	p.result = PutResult{Offset: a.Start, QueueOffset: a.QueueOffset, StoreTimeMS: a.StoreTimeMS, Offsets: p.result.Offsets[:0]}
	if p.Batch != nil {
		for rest, at := p.records, a.Start; len(rest) > 0; {
			size := message.Size(rest)
			p.result.Offsets = append(p.result.Offsets, at) // encode has made room
			rest, at = rest[size:], at+message.Offset(size)
		}
	}
	if s.immediate(p) {
		return
	}
	p.wait.End, p.wait.Waiter = a.End, (*flushing)(p)
	replicator := s.options.Replicator
	if replicator != nil && !s.options.TransientPool {
		p.waits.Store(2)
	} else {
		p.waits.Store(1)
	}
	switch {
	case s.options.SyncFlush:
		s.flusher.Flushed.Add(&p.wait)
	case !s.options.TransientPool: // with it, only for replicas
		s.flusher.Committed.Add(&p.wait)
	}
	if replicator != nil {
		replicator.Await(a.End, p)
	}
}

// flushing is the PutRequest as the flush service sees it.
type flushing PutRequest

// Reached runs under no lock, exactly once.
func (w *flushing) Reached(err error) {
	p := (*PutRequest)(w)
	p.flushErr = err
	p.reached()
}

// Replicated is the answer of a Replicator: enough replicas have the put, or the status says why it is not promised.
func (p *PutRequest) Replicated(status PutStatus, err error) {
	p.replicaStatus, p.replicaErr = status, err
	p.reached()
}

// reached answers when all positions that the policy names have been passed. As in the original, what the replicas say wins.
func (p *PutRequest) reached() {
	left := p.waits.Add(-1)
	if left < 0 {
		panic("BUG: engine: a put was answered more often than it waited")
	}
	if left > 0 {
		return
	}
	if p.flushErr != nil {
		p.result.Status, p.result.Err = FlushTimeout, p.flushErr
	}
	if p.replicaStatus != PutOK {
		p.result.Status, p.result.Err = p.replicaStatus, p.replicaErr
	}
	p.finish()
}

func (p *PutRequest) refuse(status PutStatus, err error) outcome {
	p.result = PutResult{Status: status, Err: err, Offset: -1, QueueOffset: -1, Offsets: p.result.Offsets[:0]}
	return answerNow
}

func (p *PutRequest) finish() {
	if p.result.Status != PutOK {
		p.store.metrics.PutsFailed.Add(1)
	}
	p.Done.PutDone(p, &p.result)
}

// encode makes the records, outside the put lock. Errors name the field, its size and what is allowed.
func (s *Store) encode(p *PutRequest) error {
	if cap(p.records) > keepRecords {
		p.records = nil // a rare large message does not keep its buffer for ever
	}
	p.records = p.records[:0]
	if p.Message.QueueID < 0 {
		return fmt.Errorf("engine: queue id is %d, must not be negative", p.Message.QueueID)
	}
	if err := checkTopic(p.Message.Topic); err != nil {
		return err
	}
	if p.Batch == nil {
		return s.encodeOne(p, &p.Message)
	}
	if len(p.Batch) == 0 {
		return errors.New("engine: the batch is empty, at least one message is needed")
	}
	for i := range p.Batch {
		m := &p.Batch[i]
		if m.Topic != p.Message.Topic || m.QueueID != p.Message.QueueID {
			return fmt.Errorf("engine: item %d of the batch goes to %q, queue %d; all must go to %q, queue %d",
				i, m.Topic, m.QueueID, p.Message.Topic, p.Message.QueueID)
		}
		if err := s.encodeOne(p, m); err != nil {
			return fmt.Errorf("engine: item %d of the batch: %w", i, err)
		}
	}
	p.result.Offsets = slices.Grow(p.result.Offsets[:0], len(p.Batch))
	return nil
}

// checkTopic keeps out names that cannot be a folder's, for a queue has one. What else a topic must be is the broker's rule.
func checkTopic(topic string) error {
	if len(topic) == 0 || len(topic) > maxTopic {
		return fmt.Errorf("engine: topic has %d bytes, allowed are 1 to %d", len(topic), maxTopic)
	}
	if topic == "." || topic == ".." || strings.ContainsAny(topic, "/\x00") {
		return fmt.Errorf("engine: topic %q cannot name a folder", topic)
	}
	return nil
}

func (s *Store) encodeOne(p *PutRequest, m *message.Message) error {
	if limit := s.limits.Load().MaxMessageSize; len(m.Body) > limit {
		return fmt.Errorf("engine: body has %d bytes, maxMessageSize allows %d", len(m.Body), limit)
	}
	records, err := message.AppendRecord(p.records, m)
	p.records = records
	if err != nil {
		return err
	}
	if room := s.log.MaxAppend(); len(p.records) > room {
		return fmt.Errorf("engine: %d bytes of records, one send may have %d: mappedFileSizeCommitLog is %d, %s is %d",
			len(p.records), room, s.options.SegmentSize, s.options.poolKey(), s.options.PoolSize)
	}
	return nil
}
