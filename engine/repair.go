package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"ringmq/engine/checkpoint"
	"ringmq/engine/consumequeue"
	"ringmq/engine/dispatch"
	"ringmq/engine/message"
	"ringmq/internal/durable"
)

// Repairs is what Repair does besides what every opening does.
type Repairs struct {
	Queues    []consumequeue.ID // whose files are moved away and made anew of the log
	KeepIndex bool              // the key files are right: they are left as they are
	NewIndex  bool              // the key files are moved away and made anew of the log
}

// Repair makes what is derived from the log of a store, that nobody has open, go with the log, and cuts the log's torn end. It recovers as
// Open does, but walks over all of the log whatever the mark says, and starts no service: nothing expires, no segment is made. What it
// moves away is kept below ringmq/cut. Messages that wait for a service which is not built stay where they are.
//
// plan is asked under the store's lock, before anything is changed but that the lock file is there; after an error of it, or false,
// nothing is. If Repair is stopped halfway the abort file is there, and it may be done again.
func Repair(o Options, plan func() (Repairs, bool, error)) (r Recovery, err error) {
	if err := o.Validate(); err != nil {
		return Recovery{}, err
	}
	s := newStore(o)
	s.everything = true
	if err := s.takeLock(); err != nil {
		return Recovery{}, err
	}
	defer func() { err = errors.Join(err, s.lock.Release()) }()
	repairs, wanted, err := plan()
	if err != nil || !wanted {
		return Recovery{}, err
	}
	if repairs.KeepIndex {
		s.options.NoIndex = true
	}
	for _, step := range []func() error{
		s.prepare,
		func() error { return s.moveAside(&repairs) },
		s.loadLog, s.loadQueues, s.recoverFiles, s.keepRepaired,
	} {
		if err := step(); err != nil {
			return s.recovery, errors.Join(err, s.letGo())
		}
	}
	if err := s.letGo(); err != nil {
		return s.recovery, err
	}
	return s.recovery, checkpoint.ClearAbort(s.paths.abort)
}

// moveAside keeps below ringmq/cut what is to be made anew. Everything of it is derived: when the store is opened with only a part moved,
// recovery builds that part.
func (s *Store) moveAside(repairs *Repairs) error {
	for _, id := range repairs.Queues {
		folder := filepath.Join(id.Topic, strconv.Itoa(int(id.QueueID)))
		if err := moveTo(filepath.Join(s.paths.queues, folder), filepath.Join(s.paths.cut, "consumequeue", folder)); err != nil {
			return err
		}
	}
	if !repairs.NewIndex {
		return nil
	}
	if err := durable.Remove(s.paths.indexed); err != nil { // first: it must not speak of files that are not there
		return err
	}
	return moveTo(s.paths.index, filepath.Join(s.paths.cut, "index"))
}

// moveTo renames a folder durably; to gets a suffix if there is one of that name. A folder that is not there is moved already.
func moveTo(from, to string) error {
	if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	parent := filepath.Dir(to)
	if err := durable.MkdirAll(parent); err != nil {
		return fmt.Errorf("engine: repair: %w", err)
	}
	free := to
	for i := 1; ; i++ {
		if _, err := os.Lstat(free); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return fmt.Errorf("engine: repair: %w", err)
		}
		free = fmt.Sprintf("%s.%d", to, i)
	}
	err := os.Rename(from, free)
	if err == nil {
		err = durable.SyncDir(parent)
	}
	if err == nil {
		err = durable.SyncDir(filepath.Dir(from))
	}
	if err != nil {
		return fmt.Errorf("engine: repair: %w", err)
	}
	return nil
}

// keepRepaired saves mark and checkpoint as a clean stop does.
func (s *Store) keepRepaired() error {
	previous, err := checkpoint.Load(s.paths.checkpoint)
	if err != nil {
		previous = checkpoint.Checkpoint{} // what it says beside the error is not to outlive the repair
	}
	if previous.IndexTimeMS > s.recovery.position.LastStoreTimeMS {
		previous.IndexTimeMS = 0
	}
	log := recoveredLog{end: s.recovery.End}
	keep := dispatch.KeeperOptions{
		Log: &log, FlushLog: func() error { return nil }, Queues: s.queues,
		Position: func() dispatch.Position { return s.recovery.position }, Settings: s.options.QueueFlush,
		SegmentSize: s.options.SegmentSize, MarkPath: s.paths.mark, CheckpointPath: s.paths.checkpoint, Checkpoint: previous,
		Now: s.options.Now, Logger: s.options.Logger,
	}
	if s.index != nil {
		keep.Index = s.index
	}
	if err := dispatch.NewKeeper(keep).Close(true); err != nil {
		return err
	}
	return log.failed
}

// recoveredLog is a log that nothing is appended to: recovery has flushed all of it.
type recoveredLog struct {
	end    message.Offset
	failed error
}

func (l *recoveredLog) Flushed() message.Offset { return l.end }
func (l *recoveredLog) Reached() message.Offset { return l.end }
func (l *recoveredLog) SetLimit(message.Offset) {}
func (l *recoveredLog) LimitFailed(err error)   { l.failed = err }
