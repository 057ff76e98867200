package engine

import (
	"errors"
	"fmt"

	"ringmq/engine/commitlog"
)

// minPoolSize is the smallest pool; one below it would hold few messages of an ordinary size.
const minPoolSize = 64 * kib

// poolKey names what makes the size of the pool.
func (o *Options) poolKey() string {
	if o.TransientPool {
		return "transientStorePoolSize x mappedFileSizeCommitLog"
	}
	return "ringmq.poolSize"
}

// AnswersAppended says that a put without replicas is answered as soon as it is appended, by who has put it: with a mapped append what is
// appended is in the page cache, so committed, at once; with the transient pool that is what was asked for.
func (o *Options) AnswersAppended() bool {
	return !o.SyncFlush && (o.MappedAppend || o.TransientPool)
}

// checkPool sees to it that the pool can be had. All of it will be locked in memory: a quarter of that is left to everything else.
func (o *Options) checkPool() error {
	if !o.TransientPool {
		if o.PoolSize < minPoolSize || o.PoolSize > 64*gib {
			return fmt.Errorf("engine: ringmq.poolSize is %d, allowed are %d to %d", o.PoolSize, minPoolSize, 64*gib)
		}
		return nil
	}
	if o.SyncFlush || o.MappedAppend {
		return errors.New("engine: transientStorePoolEnable is true, allowed is that only with flushDiskType=ASYNC_FLUSH and ringmq.appendPath=pool")
	}
	memory := o.Memory()
	least := (minPoolSize + o.SegmentSize - 1) / o.SegmentSize
	most := memory / 4 * 3 / o.SegmentSize
	if n := int64(o.TransientBuffers); n < least || n > most {
		return fmt.Errorf("engine: transientStorePoolSize is %d, allowed are %d to %d buffers of %d bytes (mappedFileSizeCommitLog) "+
			"with %d bytes of memory, of which the pool may take three quarters", n, least, most, o.SegmentSize, memory)
	}
	return nil
}

// failsFast says whether a put is refused instead of waiting for room in the pool.
func (s *Store) failsFast() bool { return s.options.TransientPool && s.options.Flush().FailFast }

// awaitRoom waits until n bytes can be appended, as far as puts may wait; else it is ErrPoolFull.
func (s *Store) awaitRoom(n int) error {
	if !s.failsFast() {
		return s.log.Room(n)
	}
	err := s.log.RoomBesidePool(n)
	if errors.Is(err, commitlog.ErrPoolFull) {
		s.flusher.Hurry() // nobody waits, so nobody asks for it
	}
	return err
}

// PoolRoom is how many bytes may be appended before the committer has to write, and how many the pool has; 0 without one.
func (s *Store) PoolRoom() (room, size int64) { return s.log.PoolRoom() }

// poolLocked tells how the locking of a large pool goes on, and how it ended.
func (s *Store) poolLocked(bytes int64, err error) {
	switch size := s.options.PoolSize; {
	case err != nil:
		s.options.Logger.Warn("the pool's memory cannot be locked, the store works with it unlocked; allow it by ulimit -l or CAP_IPC_LOCK",
			"setting", s.options.poolKey(), "bytes", size, "locked", bytes, "error", err)
	case bytes >= size:
		s.options.Logger.Info("the pool's memory is locked", "bytes", bytes)
	case bytes-s.poolTold >= size/8:
		s.poolTold = bytes
		s.options.Logger.Info("locking the pool's memory", "locked", bytes, "of", size)
	}
}
