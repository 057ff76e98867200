// Package seal keeps, for each full segment of the log, a file of checksums: one for each block of 1 MiB, and which records stand where.
// With it bit rot is found in bytes that no record's own checksum covers, and told from a segment that another broker wrote anew. It knows
// files and records, and no running log: who calls makes sure that a segment is durable before it gets a seal, and that the seal goes
// before the segment does, or before its bytes change.
//
// A seal is derived: to lose one costs a walk over its segment. It is never the reason to refuse or to remove anything.
package seal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"ringmq/engine/message"
	"ringmq/engine/segment"
	"ringmq/internal/durable"
)

// ErrInvalid is wrapped by Read when a file is no seal, or one that was damaged.
var ErrInvalid = errors.New("no valid seal")

// Seal is what one full segment held when it was sealed.
type Seal struct {
	Base            message.Offset
	Size            int64
	Last            message.Offset // the last whole record, -1 if there is none
	LastStoreTimeMS int64          // of that record
	Records         int64          // whole ones
	Digest          uint64         // of positions, sizes and body checksums of all of them, see Maker.Record
	Blocks          []uint64       // xxHash64 of each BlockSize bytes
	Damaged         []Stretch      // no whole record stood there already then: a seal blesses nothing
}

// Stretch is [From, To) of the log.
type Stretch struct{ From, To message.Offset }

// End is the position behind the segment.
func (s *Seal) End() message.Offset { return s.Base + message.Offset(s.Size) }

// Block is the stretch of the log that block i covers.
func (s *Seal) Block(i int) Stretch {
	from := s.Base + message.Offset(i)*BlockSize
	return Stretch{from, min(from+BlockSize, s.End())}
}

// Holds tells whether b is what block i was when it was sealed.
func (s *Seal) Holds(i int, b []byte) bool { return xxhash.Sum64(b) == s.Blocks[i] }

// Verify compares a whole segment with the seal. It returns the blocks that differ, those that are missing because the segment is shorter
// included; what stands behind Size is not looked at. Who calls it catches the faults of a mapping.
func (s *Seal) Verify(b []byte) (differ []int) {
	for i := range s.Blocks {
		from := min(int64(i)*BlockSize, int64(len(b)))
		to := min(from+BlockSize, s.Size)
		if to > int64(len(b)) || !s.Holds(i, b[from:to]) {
			differ = append(differ, i)
		}
	}
	return differ
}

// Path is the file of the seal of the segment that begins at base, in the folder dir.
func Path(dir string, base message.Offset) string {
	return filepath.Join(dir, segment.Name(int64(base)))
}

// Read reads the seal at path. It wraps fs.ErrNotExist when there is none, and ErrInvalid when it cannot be believed.
func Read(path string) (Seal, error) {
	b, err := readBounded(path)
	if err != nil {
		return Seal{}, fmt.Errorf("seal: %w", err)
	}
	s, err := decode(b)
	if err != nil {
		return Seal{}, fmt.Errorf("seal: %s: %w: %w", path, ErrInvalid, err)
	}
	if filepath.Base(path) != segment.Name(int64(s.Base)) {
		return Seal{}, fmt.Errorf("seal: %s: %w: it is of segment %s", path, ErrInvalid, segment.Name(int64(s.Base)))
	}
	return s, nil
}

// readBounded is os.ReadFile of no more than a seal can have, and one byte.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	limit := headerLen + 8*blocksOf(maxSize) + stretchLen*maxDamaged + trailerLen
	return io.ReadAll(io.LimitReader(f, int64(limit)+1))
}

// Save replaces the seal in the folder dir in one step and durably. One that contradicts itself is a mistake of the caller.
func (s *Seal) Save(dir string) error {
	if err := s.check(); err != nil {
		panic("BUG: seal: " + segment.Name(int64(max(s.Base, 0))) + " to be saved: " + err.Error())
	}
	return durable.WriteFile(Path(dir, s.Base), appendSeal(make([]byte, 0, s.encodedLen()), s))
}

// File is a seal as its folder shows it.
type File struct {
	Base     message.Offset
	Modified time.Time
}

// List lists the seals of the folder dir by base; one that is missing has none. What a write that was cut short left behind is removed if
// tidy is set.
func List(dir string, tidy bool) ([]File, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("seal: list: %w", err)
	}
	var files []File
	for _, entry := range entries {
		name, temp := strings.CutSuffix(entry.Name(), durable.TempSuffix)
		base, ok := segment.ParseName(name)
		if !ok || !entry.Type().IsRegular() {
			continue
		}
		if temp {
			if tidy {
				err = errors.Join(err, os.Remove(filepath.Join(dir, entry.Name()))) // if it comes back, so what
			}
			continue
		}
		info, statErr := entry.Info()
		if statErr != nil && !errors.Is(statErr, fs.ErrNotExist) {
			err = errors.Join(err, statErr)
		}
		if statErr == nil {
			files = append(files, File{message.Offset(base), info.ModTime()})
		}
	}
	if err != nil {
		return nil, fmt.Errorf("seal: list: %w", err)
	}
	return files, nil
}

// Remove removes the seal of the segment that begins at base, durably; nil if there is none.
func Remove(dir string, base message.Offset) error {
	err := os.Remove(Path(dir, base))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = durable.SyncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("seal: remove: %w", err)
	}
	return nil
}

// Keep removes, durably, every seal that keep does not want, by one sync, and returns those that stay. It is called before the log changes:
// a seal that outlived its segment would speak of other bytes.
func Keep(dir string, keep func(base message.Offset) bool) (stay []File, removed int, err error) {
	files, err := List(dir, true)
	if err != nil {
		return nil, 0, err
	}
	for _, f := range files {
		if keep(f.Base) {
			stay = append(stay, f)
			continue
		}
		if err := os.Remove(Path(dir, f.Base)); err != nil {
			return nil, removed, fmt.Errorf("seal: remove: %w", err)
		}
		removed++
	}
	if removed > 0 {
		err = durable.SyncDir(dir)
	}
	return stay, removed, err
}
