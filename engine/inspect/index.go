package inspect

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ringmq/engine/index"
)

// slotEntries is how many entries a key file has for each slot, unless its broker was told otherwise: the files do not tell.
const slotEntries = 4

// keyFile is one key file, as listed.
type keyFile struct {
	path, name string
	size       int64
	header     index.Header
	err        error // its head cannot be believed
}

// listIndex lists the key files, in the order of the records they are for.
func (s *Store) listIndex() error {
	dir := filepath.Join(s.dir, "index")
	entries, err := readDir(dir)
	if err != nil {
		return err
	}
	sizes := make(map[int64]int)
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if !index.IsName(entry.Name()) || !entry.Type().IsRegular() {
			s.strays = append(s.strays, path)
			continue
		}
		info, removed, err := infoOf(entry)
		if err != nil {
			return err
		}
		if removed {
			continue
		}
		sizes[info.Size()]++
		s.keyFiles = append(s.keyFiles, keyFile{path: path, name: entry.Name(), size: info.Size()})
	}
	s.divideIndex(sizes)
	for i := range s.keyFiles {
		f := &s.keyFiles[i]
		f.err = f.with(func(file *os.File) (err error) {
			f.header, err = index.ReadHeader(file, f.size, s.IndexSlots, s.IndexEntries)
			return err
		})
	}
	slices.SortStableFunc(s.keyFiles, func(a, b keyFile) int { // names are local times, which summer time may set back
		switch {
		case a.err != nil || b.err != nil || a.header.Begin == b.header.Begin:
			return strings.Compare(a.name, b.name)
		case a.header.Begin < b.header.Begin:
			return -1
		}
		return 1
	})
	return nil
}

// divideIndex finds how many slots and entries a key file has: the caller knows, or ringmq has kept it, or they are as usual.
func (s *Store) divideIndex(sizes map[int64]int) {
	if s.IndexSlots > 0 && s.IndexEntries > 0 {
		return
	}
	if st := &s.State; st.HasIndexed {
		s.IndexSlots, s.IndexEntries = st.Indexed.Slots, st.Indexed.Entries
		return
	}
	const perSlot = 84 // bytes of a slot and its entries
	size := commonSize(sizes, func(size int64) bool { return (size-index.Size(0, 0))%perSlot == 0 })
	slots := (size - index.Size(0, 0)) / perSlot
	if slots > 0 && slots*slotEntries <= math.MaxInt32 {
		s.IndexSlots, s.IndexEntries = int32(slots), int32(slots*slotEntries)
	}
}

// with opens the file for reading.
func (f *keyFile) with(fn func(file *os.File) error) error {
	fd, err := openFile(f.path)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), f.path)
	defer file.Close()
	return fn(file)
}

// reader begins to read the file's entries.
func (f *keyFile) reader(slots, entries int32) (*index.Reader, *os.File, error) {
	fd, err := openFile(f.path)
	if err != nil {
		return nil, nil, err
	}
	file := os.NewFile(uintptr(fd), f.path)
	r, err := index.NewReader(file, f.size, slots, entries)
	if err != nil {
		file.Close()
		return nil, nil, fmt.Errorf("inspect: %s: %w", f.path, err)
	}
	return r, file, nil
}

// OwnIndex tells whether ringmq's own file says which part of the index is to be judged: a Java broker knows nothing of it.
func (s *Store) OwnIndex() bool { return s.State.HasIndexed && s.State.Lock.Last != "java" }
