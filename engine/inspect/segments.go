package inspect

import (
	"math"
	"path/filepath"
	"slices"
	"sort"
	"time"
)

// segmentFile is one file of the log, as listed.
type segmentFile struct {
	path, name string
	base, size int64
	modified   time.Time
}

func (f *segmentFile) end() int64 { return f.base + f.size }

// listSegments lists the log's files. Their size is what most of them have: nothing else in a store tells it.
func (s *Store) listSegments() error {
	entries, err := readDir(s.logDir)
	if err != nil {
		return err
	}
	sizes := make(map[int64]int)
	for _, entry := range entries { // sorted by name, which is by position
		path := filepath.Join(s.logDir, entry.Name())
		base, ok := parseBase(entry.Name())
		if !ok || !entry.Type().IsRegular() {
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
		if base > math.MaxInt64-max(info.Size(), maxSegment) {
			s.strays = append(s.strays, path)
			continue
		}
		sizes[info.Size()]++
		s.segments = append(s.segments, segmentFile{path, entry.Name(), base, info.Size(), info.ModTime()})
	}
	s.segmentSize = commonSize(sizes, func(size int64) bool {
		return !slices.ContainsFunc(s.segments, func(f segmentFile) bool { return f.base%size != 0 })
	})
	if s.segmentSize == 0 { // no size goes with all names
		s.segmentSize = commonSize(sizes, func(int64) bool { return true })
	}
	return nil
}

// segmentOf finds the segment that an offset lies in.
func (s *Store) segmentOf(at int64) (i int, ok bool) {
	i = sort.Search(len(s.segments), func(i int) bool { return s.segments[i].base > at }) - 1
	return i, i >= 0 && at < s.segments[i].end()
}

// lastUsed is the index of the last segment that begins with anything but zeros, -1 if there is none: its writer has left the earlier ones.
func (s *Store) lastUsed() int {
	for i := len(s.segments) - 1; i >= 0; i-- {
		var head [8]byte
		n, err := readAt(s.segments[i].path, head[:], 0)
		if err != nil || n > 0 && head != [8]byte{} {
			return i // what cannot be read is something
		}
	}
	return -1
}
