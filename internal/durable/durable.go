// Package durable changes names and small files so that the change outlives a power cut once the call has returned nil.
//
// A file system keeps three things apart: the bytes of a file, the file's inode, and the directory entry that names it.
// Syncing the file covers the first two; the name is on the device only after the directory has been synced as well.
// Every function here does both, in the order that leaves a reader, after a crash at any point, with either the old state
// or the new one and never with a mixture.
//
// No sync is tried twice: the kernel marks pages clean when their write-back fails, so a second success would prove nothing.
package durable

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"ringmq/internal/mutant"
)

const (
	fileMode = 0o644
	dirMode  = 0o755

	// TempSuffix names the file that WriteFile prepares. It is one fixed name per target, so a crash leaves at most one
	// behind and the next write takes it over; who lists a folder passes over it.
	TempSuffix = ".tmp"
)

// WriteFile replaces the content of path with data in one step: it writes path+".tmp", syncs it, renames it over path and
// syncs the folder. If it fails before the rename the old file is untouched; if the last sync fails, path already shows the
// new content but a power cut may bring the old one back. Calls for the same path must not overlap.
func WriteFile(path string, data []byte) error {
	return WriteFileFrom(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// WriteFileFrom is WriteFile of what write writes.
func WriteFileFrom(path string, write func(w io.Writer) error) error {
	return writeFile(disk{}, path, write)
}

// SyncDir makes the names in dir durable: files and folders created, renamed or removed there so far.
func SyncDir(dir string) error { return disk{}.SyncDir(dir) }

// MkdirAll makes dir and every missing parent, outermost first, and syncs the parent of each before it makes the next. It
// also syncs the parent of the deepest folder that was there already: a process that was killed may have made it without
// living to sync it, and no folder further up can be in that state, since its child would not have been made yet.
func MkdirAll(dir string) error { return mkdirAll(disk{}, filepath.Clean(dir)) }

// SetAside renames a file that is damaged, so that no later write destroys it, and returns its new name: path, ".bad-" and the time.
func SetAside(path string, at time.Time) (string, error) {
	stamp := at.UTC().Format("20060102T150405.000")
	for n := 0; ; n++ {
		aside := path + ".bad-" + stamp
		if n > 0 {
			aside = fmt.Sprintf("%s-%d", aside, n)
		}
		if _, err := os.Lstat(aside); err == nil {
			continue
		}
		if err := os.Rename(path, aside); err != nil {
			return "", fmt.Errorf("durable: keep the damaged %s aside: %w", path, err)
		}
		return aside, SyncDir(filepath.Dir(path))
	}
}

// Remove removes the file or empty folder path. One that is not there is no error; its folder is synced all the same, so
// that a removal cut short before its sync is completed.
func Remove(path string) error { return remove(disk{}, path) }

// fileSystem is what this package asks of the operating system; tests fail it step by step.
type fileSystem interface {
	Create(path string) (file, error)
	Rename(from, to string) error
	Remove(path string) error
	Mkdir(path string) error
	Stat(path string) (os.FileInfo, error)
	SyncDir(path string) error
}

type file interface {
	io.WriteCloser
	Sync() error
}

func writeFile(fs fileSystem, path string, write func(io.Writer) error) error {
	temp := path + TempSuffix
	if err := writeTemp(fs, temp, write); err != nil {
		return fmt.Errorf("durable: write %s: %w", path, err)
	}
	if err := fs.Rename(temp, path); err != nil {
		fs.Remove(temp)
		return fmt.Errorf("durable: write %s: %w", path, err)
	}
	return fs.SyncDir(filepath.Dir(path))
}

// writeTemp leaves a complete, synced file at temp, or none.
func writeTemp(fs fileSystem, temp string, write func(io.Writer) error) error {
	f, err := fs.Create(temp)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		fs.Remove(temp)
	}
	return err
}

func mkdirAll(fs fileSystem, dir string) error {
	parent := filepath.Dir(dir)
	info, err := fs.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return fmt.Errorf("durable: make folder %s: a file of that name is in the way", dir)
	case err == nil && parent == dir: // the root, or "." which the process stands in
		return nil
	case err == nil:
		// Not readable means not ours: whoever made dir there was not an earlier run of this program.
		if err := fs.SyncDir(parent); err != nil && !errors.Is(err, os.ErrPermission) {
			return err
		}
		return nil
	case !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("durable: make folder %s: %w", dir, err)
	}
	if err := mkdirAll(fs, parent); err != nil {
		return err
	}
	if err := fs.Mkdir(dir); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("durable: make folder %s: %w", dir, err)
	}
	return fs.SyncDir(parent)
}

func remove(fs fileSystem, path string) error {
	if err := fs.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("durable: remove %s: %w", path, err)
	}
	return fs.SyncDir(filepath.Dir(path))
}

// disk is the real file system.
type disk struct{}

func (disk) Create(path string) (file, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
}
func (disk) Rename(from, to string) error          { return os.Rename(from, to) }
func (disk) Remove(path string) error              { return os.Remove(path) }
func (disk) Mkdir(path string) error               { return os.Mkdir(path, dirMode) }
func (disk) Stat(path string) (os.FileInfo, error) { return os.Stat(path) }

func (disk) SyncDir(path string) error {
	if mutant.NoDirSync {
		return nil
	}
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("durable: sync folder %s: %w", path, err)
	}
	err = d.Sync()
	if closeErr := d.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("durable: sync folder %s: %w", path, err)
	}
	return nil
}
