package engine

import (
	"errors"

	"ringmq/engine/checkpoint"
	"ringmq/engine/commitlog"
	"ringmq/engine/message"
)

// Close refuses what comes, answers what is under way, makes everything durable and removes the abort file last of all. After an error
// the abort file stays: the next Open recovers. Views that are still held stay valid. A second Close does nothing.
func (s *Store) Close() error {
	s.life.Lock()
	if s.closed {
		s.life.Unlock()
		return nil
	}
	s.closed = true
	s.life.Unlock()

	s.cleaner.Close()
	s.scrubber.Close()
	s.disk.close()
	s.overflow.close()
	// All that was appended is flushed, which answers every wait; the dispatcher then finds all there is; the keeper makes its work durable.
	flushed := s.flusher.FlushAll()
	s.dispatcher.Close()
	s.keys.close() // what it has not caught up with will be next time
	complete := flushed == nil && s.log.Latched() == nil && s.dispatcher.Dispatched() == s.log.End()
	kept := s.keeper.Close(complete)
	if closed := s.flusher.Close(); closed != nil {
		flushed = closed
	}
	err := errors.Join(flushed, kept, s.queues.Close(), s.closeIndex(), s.log.Close(), s.ring.Close(), s.queueRing.Close())
	switch {
	case err != nil:
	case complete:
		err = checkpoint.ClearAbort(s.paths.abort)
	default:
		err = errIncomplete
		if latched := s.log.Latched(); latched != nil {
			err = latched
		}
	}
	return errors.Join(err, s.lock.Release())
}

// Positions are read one after the other, each no later than the ones above it, so that they never contradict each other.
type Positions struct {
	Min, End, Committed, Flushed, Readable, Dispatched message.Offset
}

// Positions says where the store's services are.
func (s *Store) Positions() Positions {
	p := Positions{Dispatched: s.dispatcher.Dispatched()}
	p.Flushed = s.log.Flushed()
	p.Readable = s.readable()
	p.Committed = s.log.Committed()
	p.End = s.log.End()
	p.Min = s.log.Min()
	return p
}

// readable is the end of what consumers may see.
func (s *Store) readable() message.Offset {
	if s.options.SyncFlush {
		return s.log.Flushed()
	}
	return s.log.Committed()
}

// Latched is why the store takes no messages until it is opened again; nil if it does.
func (s *Store) Latched() error { return s.log.Latched() }

// DiskFull is why messages are refused for now; nil if they are not.
func (s *Store) DiskFull() error { return s.disk.err() }

func (s *Store) unavailable() error {
	if err := s.log.Latched(); err != nil {
		return err
	}
	return s.disk.err()
}

// Log is the commit log, for those who copy it elsewhere. It belongs to the store: others read.
func (s *Store) Log() *commitlog.Log { return s.log }

// Options are the options in effect, with the defaults filled in.
func (s *Store) Options() Options { return s.options }
