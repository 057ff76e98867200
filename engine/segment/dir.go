package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"ringmq/internal/durable"
)

// Dir is a Storage on a directory of a file system.
type Dir struct {
	path string
	o    DirOptions
}

// DirOptions are the options of NewDir.
type DirOptions struct {
	Writable bool     // map files for reading and writing: appends are stores into the mapping
	Sparse   bool     // files are holes until written: derived files that are written by WriteAt only, never by a store
	Metrics  *Metrics // may be nil
}

var _ Storage = (*Dir)(nil)

// NewDir returns the directory at path as a Storage. It is made, durably, if it is missing.
func NewDir(path string, o DirOptions) (*Dir, error) {
	o.Metrics = o.Metrics.orNew()
	if o.Writable && o.Sparse {
		return nil, fmt.Errorf("segment: directory %s: writable mappings of sparse files end in SIGBUS when the disk is full", path)
	}
	if err := durable.MkdirAll(path); err != nil {
		return nil, fmt.Errorf("segment: %w", err)
	}
	return &Dir{path: path, o: o}, nil
}

// Path is the directory.
func (d *Dir) Path() string { return d.path }

func (d *Dir) file(name string) string { return filepath.Join(d.path, name) }

// List returns the plain files sorted by name; directories are not files.
func (d *Dir) List() ([]Info, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, fmt.Errorf("segment: list: %w", err)
	}
	infos := make([]Info, 0, len(entries))
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since ReadDir
		}
		if err != nil {
			return nil, fmt.Errorf("segment: list: %w", err)
		}
		if info.Mode().IsRegular() {
			infos = append(infos, Info{Name: e.Name(), Size: info.Size(), ModTime: info.ModTime()})
		}
	}
	return infos, nil
}

// Settle syncs the directory.
func (d *Dir) Settle() error {
	if err := durable.SyncDir(d.path); err != nil {
		return fmt.Errorf("segment: %w", err)
	}
	return nil
}

// Open maps an existing file.
func (d *Dir) Open(name string, size int64) (Backing, error) {
	path := d.file(name)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("segment: %w", err)
	}
	if err := checkSize(f, size); err != nil {
		return nil, errors.Join(fmt.Errorf("segment: open %s: %w", path, err), f.Close())
	}
	return d.mapped(f, size)
}

func checkSize(f *os.File, size int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() != size {
		return fmt.Errorf("%w: it has %d bytes, expected %d", ErrSize, info.Size(), size)
	}
	return nil
}

// Create makes a file that cannot run out of space later, unless the directory is sparse. What is half made when an error
// comes is removed.
func (d *Dir) Create(name string, size int64) (Backing, error) {
	path := d.file(name)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("segment: create: %w", err)
	}
	b, err := d.fill(f, size)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("segment: create %s of %d bytes: %w", path, size, err), os.Remove(path))
	}
	d.o.Metrics.Created.Add(1)
	return b, nil
}

func (d *Dir) fill(f *os.File, size int64) (Backing, error) {
	err := d.allocate(f, 0, size)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = durable.SyncDir(d.path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return d.mapped(f, size)
}

// allocate makes [from, to) readable as zeros and, unless sparse, backed by blocks of the device.
func (d *Dir) allocate(f *os.File, from, to int64) error {
	if d.o.Sparse {
		return f.Truncate(to)
	}
	for {
		err := unix.Fallocate(int(f.Fd()), 0, from, to-from)
		switch {
		case err == nil:
			return nil
		case err == unix.EINTR:
		case errors.Is(err, unix.EOPNOTSUPP):
			return writeZeros(f, from, to) // the file system cannot reserve: only written blocks are sure
		default:
			return fmt.Errorf("allocate: %w", err)
		}
	}
}

// reserve backs the holes of an existing file with blocks, unless the directory is sparse. What the file holds stays. On a
// file system that cannot reserve the holes stay too.
func (d *Dir) reserve(f *os.File, size int64) error {
	if d.o.Sparse {
		return nil
	}
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, size)
		switch {
		case err == nil || errors.Is(err, unix.EOPNOTSUPP):
			return nil
		case err != unix.EINTR:
			return fmt.Errorf("allocate: %w", err)
		}
	}
}

func writeZeros(f *os.File, from, to int64) error {
	zeros := make([]byte, zeroChunk)
	for from < to {
		n, err := f.WriteAt(zeros[:min(zeroChunk, to-from)], from)
		if err != nil {
			return err
		}
		from += int64(n)
	}
	return nil
}

// Resize gives a file another size, which nobody may have open then. With the size it has it only gets blocks for its holes.
func (d *Dir) Resize(name string, size int64) error {
	path := d.file(name)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("segment: resize: %w", err)
	}
	if err := errors.Join(d.resize(f, size), f.Close()); err != nil {
		return fmt.Errorf("segment: resize %s to %d bytes: %w", path, size, err)
	}
	return nil
}

func (d *Dir) resize(f *os.File, size int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	switch {
	case size < info.Size():
		err = f.Truncate(size)
	case size > info.Size():
		err = d.allocate(f, info.Size(), size)
	default:
		err = d.reserve(f, size)
	}
	if err != nil {
		return err
	}
	return f.Sync()
}

// Remove removes a file; it is not an error if it is gone already, so that a failed Remove can be done again.
func (d *Dir) Remove(name string) error {
	if err := durable.Remove(d.file(name)); err != nil {
		return fmt.Errorf("segment: %w", err)
	}
	return nil
}

// MoveTo renames a file to path, whose directory is made if it is missing.
func (d *Dir) MoveTo(name, path string) error {
	if err := durable.MkdirAll(filepath.Dir(path)); err != nil {
		return fmt.Errorf("segment: %w", err)
	}
	from := d.file(name)
	if err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE); err != nil {
		return fmt.Errorf("segment: move %s to %s: %w", from, path, err)
	}
	if err := errors.Join(durable.SyncDir(filepath.Dir(path)), durable.SyncDir(d.path)); err != nil {
		return fmt.Errorf("segment: move %s to %s: %w", from, path, err)
	}
	return nil
}
