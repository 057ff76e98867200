package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ringmq/engine/checkpoint"
	"ringmq/engine/index"
)

// Small files larger than this are not read: no broker writes such.
const (
	maxCheckpoint = 1 << 20
	maxMark       = 256 << 20
)

// State is what a store's small files tell.
type State struct {
	Abort bool // the last stop was not complete, or there has been none yet
	Lock  checkpoint.Holder

	HasCheckpoint   bool
	Checkpoint      checkpoint.Checkpoint
	CheckpointError error // why it, or a value of it, is not believed

	HasMark   bool // there is one that can be read
	Mark      checkpoint.Mark
	MarkError error

	HasIndexed   bool // ringmq has kept how far its key files go
	Indexed      index.Known
	IndexedError error

	Config []ConfigFile
}

// ConfigFile is one file of config/.
type ConfigFile struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

func (s *State) any() bool {
	return s.Abort || s.HasCheckpoint || s.CheckpointError != nil || s.HasMark || s.MarkError != nil || len(s.Config) > 0 || s.Lock != (checkpoint.Holder{})
}

// InUse tells whether a broker had the store open when it was looked at.
func (s *State) InUse() bool { return s.Lock.InUse }

// Unclean tells whether what an unclean stop leaves is to be expected, which is so of a store in use too.
func (s *State) Unclean() bool { return s.Abort || s.InUse() }

func (s *Store) readState() (err error) {
	st := &s.State
	if st.Lock, err = checkpoint.LookAt(filepath.Join(s.dir, "lock")); err != nil {
		return err
	}
	if st.Abort, err = checkpoint.HasAbort(filepath.Join(s.dir, "abort")); err != nil {
		return err
	}
	path := filepath.Join(s.dir, "checkpoint")
	if st.HasCheckpoint, st.CheckpointError = plain(path, maxCheckpoint); st.HasCheckpoint {
		st.Checkpoint, st.CheckpointError = checkpoint.Load(path)
	}
	path = filepath.Join(s.dir, "ringmq", "mark")
	if st.HasMark, st.MarkError = plain(path, maxMark); st.HasMark {
		st.Mark, st.HasMark, st.MarkError = checkpoint.LoadMark(path)
	}
	path = filepath.Join(s.dir, "ringmq", "indexed")
	if st.HasIndexed, st.IndexedError = plain(path, maxCheckpoint); st.HasIndexed {
		st.Indexed, st.HasIndexed, st.IndexedError = index.LoadKnown(path)
	}
	entries, err := readDir(filepath.Join(s.dir, "config"))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() && !strings.HasSuffix(entry.Name(), ".tmp") {
			st.Config = append(st.Config, ConfigFile{entry.Name(), info.Size()})
		}
	}
	return nil
}

// plain tells whether path is a file that is worth reading.
func plain(path string, limit int64) (bool, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("inspect: %w", err)
	case !info.Mode().IsRegular():
		return false, fmt.Errorf("inspect: %s is no plain file", path)
	case info.Size() > limit:
		return false, fmt.Errorf("inspect: %s has %d bytes, at most %d are read", path, info.Size(), limit)
	}
	return true, nil
}
