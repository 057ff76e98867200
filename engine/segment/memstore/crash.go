package memstore

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

const (
	// SectorSize is what a device writes whole or not at all.
	SectorSize = 512
	// tornPages: one page in so many was being written when the power went.
	tornPages = 8
)

// CrashClone returns a directory as a power cut at this moment could leave it: every page that is not durable is taken as
// processes saw it with a chance of keepPercent, else as the device had it, and of some each sector by itself; a name whose
// creation is not durable is there, and one whose removal is not durable is gone, with the same chance. Neither s nor who
// uses it is disturbed. The same rng state on the same directory gives the same clone.
func (s *Storage) CrashClone(rng *rand.Rand, keepPercent int) *Storage {
	keep := func() bool { return rng.IntN(100) < keepPercent }
	s.mu.Lock()
	defer s.mu.Unlock()
	clone := New()
	maps.Copy(clone.moved, s.moved)
	for _, ghost := range s.ghosts {
		// A ghost whose creation never became durable needs the name to have been written, and its removal not.
		if (ghost.named || keep()) && !keep() {
			clone.files[ghost.name] = ghost.afterCrash(rng, keep)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		if f := s.files[name]; f.named || keep() {
			clone.files[name] = f.afterCrash(rng, keep)
		}
	}
	return clone
}

func (f *file) afterCrash(rng *rand.Rand, keep func() bool) *file {
	f.mu.Lock()
	defer f.mu.Unlock()
	disk := bytes.Clone(f.durable)
	f.eachDirtyPage(func(page int, live, durable []byte) { Tear(rng, keep, disk[page*PageSize:], live) })
	return &file{name: f.name, modTime: f.modTime, named: true,
		live: disk, durable: bytes.Clone(disk), lost: make(map[int]bool)}
}

// Tear writes one page over what the device has of it, or does not, or writes some of its sectors.
func Tear(rng *rand.Rand, keep func() bool, device, page []byte) {
	unit := PageSize
	if rng.IntN(tornPages) == 0 {
		unit = SectorSize
	}
	for from := 0; from < len(page); from += unit {
		if keep() {
			kernelCopy(device[from:], page[from:min(from+unit, len(page))])
		}
	}
}

// KillClone returns the directory as the end of the process leaves it: the page cache lives on with what is not durable, and names that
// are not are still not. Nobody has anything open, and no fault is armed.
func (s *Storage) KillClone() *Storage {
	s.mu.Lock()
	defer s.mu.Unlock()
	clone := New()
	clone.volatile = s.volatile
	maps.Copy(clone.moved, s.moved)
	for _, ghost := range s.ghosts {
		clone.ghosts = append(clone.ghosts, ghost.afterKill())
	}
	for name, f := range s.files {
		clone.files[name] = f.afterKill()
	}
	return clone
}

func (f *file) afterKill() *file {
	f.mu.Lock()
	defer f.mu.Unlock()
	live := make([]byte, len(f.live))
	kernelCopy(live, f.live) // of a mapping that is being written
	return &file{name: f.name, modTime: f.modTime, named: f.named, live: live, durable: bytes.Clone(f.durable), lost: maps.Clone(f.lost)}
}

// Rot changes a byte of a file, in the cache and on the device.
func (s *Storage) Rot(name string, at int64, mask byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[name]
	if f == nil || at < 0 || at >= int64(len(f.live)) {
		panic(fmt.Sprintf("BUG: memstore: no byte %d in %s", at, name))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.live[at] ^= mask
	f.durable[at] ^= mask
}
