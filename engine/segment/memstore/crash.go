package memstore

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
)

// CrashClone returns a directory as a power cut at this moment could leave it: every page that is not durable is taken as
// processes saw it with a chance of keepPercent, else as the device had it; a name whose creation is not durable is there,
// and one whose removal is not durable is gone, with the same chance. Neither s nor who uses it is disturbed. The same rng
// state on the same directory gives the same clone.
func (s *Storage) CrashClone(rng *rand.Rand, keepPercent int) *Storage {
	keep := func() bool { return rng.IntN(100) < keepPercent }
	s.mu.Lock()
	defer s.mu.Unlock()
	clone := New()
	maps.Copy(clone.moved, s.moved)
	for _, ghost := range s.ghosts {
		// A ghost whose creation never became durable needs the name to have been written, and its removal not.
		if (ghost.named || keep()) && !keep() {
			clone.files[ghost.name] = ghost.afterCrash(keep)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		if f := s.files[name]; f.named || keep() {
			clone.files[name] = f.afterCrash(keep)
		}
	}
	return clone
}

func (f *file) afterCrash(keep func() bool) *file {
	f.mu.Lock()
	defer f.mu.Unlock()
	disk := bytes.Clone(f.durable)
	f.eachDirtyPage(func(page int, live, durable []byte) {
		if keep() {
			kernelCopy(disk[page*PageSize:], live)
		}
	})
	return &file{name: f.name, modTime: f.modTime, named: true,
		live: disk, durable: bytes.Clone(disk), lost: make(map[int]bool)}
}
