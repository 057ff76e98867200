// Package memstore is a segment.Storage in memory for tests: every file has a live array, which is what processes see, and
// a durable one, which is what the device has. CrashClone makes the directory that a power cut could leave behind, and Inject
// makes operations fail, stop half way, or hang until they are let go.
//
// What it promises is what we ask of a disk, and no more: only Sync makes bytes durable; until then the kernel may write any
// page back at any time, in any order; pages whose write-back failed are not written by a later Sync.
package memstore

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"ringmq/engine/segment"
)

// PageSize is the unit that the kernel writes back and a power cut keeps or loses.
const PageSize = 4096

// Storage is one directory. All methods may be called concurrently.
type Storage struct {
	mu       sync.Mutex
	files    map[string]*file
	ghosts   []*file           // removed, but not durably: a crash may bring them back
	moved    map[string][]byte // by path
	faults   []*Fault
	counts   map[Op]int
	volatile bool // names are never made durable
}

var _ segment.Storage = (*Storage)(nil)

// file is the inode. Its arrays have the same length.
type file struct {
	name    string
	modTime time.Time
	named   bool // its name is durable; guarded by Storage.mu
	open    int  // backings; guarded by Storage.mu

	mu      sync.Mutex // WriteAt, Sync, crashes; not the stores of those who map it
	live    []byte
	durable []byte
	lost    map[int]bool // pages whose write-back failed: clean for the kernel, whatever the device has
}

// New returns an empty directory.
func New() *Storage {
	return &Storage{files: make(map[string]*file), moved: make(map[string][]byte), counts: make(map[Op]int)}
}

// List returns all files by name.
func (s *Storage) List() ([]segment.Info, error) {
	if err := s.run(OpList, "").err(); err != nil {
		return nil, fmt.Errorf("memstore: list: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var infos []segment.Info
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		f := s.files[name]
		infos = append(infos, segment.Info{Name: name, Size: int64(len(f.live)), ModTime: f.modTime})
	}
	return infos, nil
}

// Settle makes all names that there are durable, and the absence of all others.
func (s *Storage) Settle() error {
	if err := s.run(OpSettle, "").err(); err != nil {
		return fmt.Errorf("memstore: settle: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.volatile {
		return nil
	}
	s.ghosts = nil
	for _, f := range s.files {
		f.named = true
	}
	return nil
}

// Open returns an existing file; several may have it open.
func (s *Storage) Open(name string, size int64) (segment.Backing, error) {
	if err := s.run(OpOpen, name).err(); err != nil {
		return nil, fmt.Errorf("memstore: open %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[name]
	if f == nil {
		return nil, fmt.Errorf("memstore: open %s: %w", name, fs.ErrNotExist)
	}
	if n := int64(len(f.live)); n != size {
		return nil, fmt.Errorf("memstore: open %s: %w: it has %d bytes, expected %d", name, segment.ErrSize, n, size)
	}
	return s.backing(f), nil
}

// Create makes a file of zeros. While an injected fault keeps it from ending, or when one makes it fail, a crash may or may
// not know the name.
func (s *Storage) Create(name string, size int64) (segment.Backing, error) {
	s.mu.Lock()
	if s.files[name] != nil {
		s.mu.Unlock()
		return nil, fmt.Errorf("memstore: create %s: %w", name, fs.ErrExist)
	}
	f := &file{name: name, modTime: time.Now(), live: make([]byte, size), durable: make([]byte, size), lost: make(map[int]bool)}
	s.files[name] = f
	s.mu.Unlock()

	err := s.run(OpCreate, name).err()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		delete(s.files, name)
		s.ghosts = append(s.ghosts, f)
		return nil, fmt.Errorf("memstore: create %s of %d bytes: %w", name, size, err)
	}
	f.named = !s.volatile
	return s.backing(f), nil
}

// Resize pads with zeros or cuts, durably.
func (s *Storage) Resize(name string, size int64) error {
	if err := s.run(OpResize, name).err(); err != nil {
		return fmt.Errorf("memstore: resize %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[name]
	if f == nil {
		return fmt.Errorf("memstore: resize %s: %w", name, fs.ErrNotExist)
	}
	if size == int64(len(f.live)) {
		return nil // holes get blocks, which nobody sees here
	}
	if f.open > 0 {
		panic("BUG: memstore: " + name + " resized while it is mapped")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.live = resized(f.live, size)
	f.durable = bytes.Clone(f.live)
	clear(f.lost)
	return nil
}

func resized(b []byte, size int64) []byte {
	out := make([]byte, size)
	copy(out, b)
	return out
}

// Remove removes a file; nil if it is gone already. When it fails the file is still there.
func (s *Storage) Remove(name string) error {
	f := s.take(name)
	err := s.run(OpRemove, name).err()
	if f == nil {
		return err
	}
	if err != nil {
		s.putBack(f)
		return fmt.Errorf("memstore: remove %s: %w", name, err)
	}
	s.forget(f)
	return nil
}

// MoveTo takes a file away; Moved shows it.
func (s *Storage) MoveTo(name, path string) error {
	f := s.take(name)
	if f == nil {
		return fmt.Errorf("memstore: move %s: %w", name, fs.ErrNotExist)
	}
	err := s.run(OpMove, name).err()
	if err == nil && s.Moved(path) != nil {
		err = fs.ErrExist
	}
	if err != nil {
		s.putBack(f)
		return fmt.Errorf("memstore: move %s to %s: %w", name, path, err)
	}
	s.mu.Lock()
	s.moved[path] = bytes.Clone(f.live)
	s.mu.Unlock()
	s.forget(f)
	return nil
}

// take makes the name disappear from the directory, not yet durably.
func (s *Storage) take(name string) *file {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[name]
	if f == nil {
		return nil
	}
	delete(s.files, name)
	s.ghosts = append(s.ghosts, f)
	return f
}

func (s *Storage) putBack(f *file) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ghosts = slices.DeleteFunc(s.ghosts, func(g *file) bool { return g == f })
	s.files[f.name] = f
}

// forget makes the disappearance durable.
func (s *Storage) forget(f *file) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.volatile {
		s.ghosts = slices.DeleteFunc(s.ghosts, func(g *file) bool { return g == f })
	}
}

// Moved returns what MoveTo has put at path, nil if nothing.
func (s *Storage) Moved(path string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moved[path]
}

// Put makes a durable file of this content, whatever was there: a stray file, or one of a wrong size.
func (s *Storage) Put(name string, content []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[name] = &file{name: name, modTime: time.Now(), named: true,
		live: bytes.Clone(content), durable: bytes.Clone(content), lost: make(map[int]bool)}
}

// SetModTime dates a file.
func (s *Storage) SetModTime(name string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.files[name]; f != nil {
		f.modTime = at
	}
}

// Live returns a copy of what processes see in a file, nil if there is none.
func (s *Storage) Live(name string) []byte {
	return s.content(name, func(f *file) []byte { return f.live })
}

// Durable returns a copy of what the device has for certain.
func (s *Storage) Durable(name string) []byte {
	return s.content(name, func(f *file) []byte { return f.durable })
}

func (s *Storage) content(name string, array func(*file) []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[name]
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]byte, len(f.live))
	kernelCopy(out, array(f))
	return out
}

// SetVolatileNames makes creations and removals from now on not durable, as if nobody synced the directory.
func (s *Storage) SetVolatileNames(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.volatile = on
}
