package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"

	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
	"ringmq/engine/segment"
)

// ErrNoStore is wrapped when a folder is none or holds nothing of a store.
var ErrNoStore = errors.New("inspect: no store")

// Options say where a store is.
type Options struct {
	Dir    string // storePathRootDir
	LogDir string // storePathCommitLog; "" is <Dir>/commitlog

	// IndexSlots and IndexEntries are maxHashSlotNum and maxIndexNum, which key files do not tell. 0: as ringmq has kept them, or else
	// four entries to a slot, as is usual.
	IndexSlots, IndexEntries int32

	// Held says that the caller has the store's lock, so that nobody else is using it.
	Held bool
}

// Store is the list of a store's files, as of Open, and its small files.
type Store struct {
	State State

	IndexSlots, IndexEntries int32 // of a key file; 0: not known

	dir, logDir   string
	segments      []segmentFile // by base
	segmentSize   int64         // that most segments have
	queues        []*queue      // by topic, then queue id
	queueFileSize int64         // that most queue files have
	keyFiles      []keyFile     // in the order of their records
	strays        []string      // files and folders that have no place where they are

	kept mapping // the segment that was looked into last, for single records
}

// Open lists a store's files. It reads none but the small ones.
func Open(o Options) (*Store, error) {
	s := &Store{dir: o.Dir, logDir: o.LogDir, IndexSlots: o.IndexSlots, IndexEntries: o.IndexEntries}
	if s.logDir == "" {
		s.logDir = filepath.Join(s.dir, "commitlog")
	}
	info, err := os.Stat(s.dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoStore, err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%w: %s is no folder", ErrNoStore, s.dir)
	}
	if info, err := os.Stat(s.logDir); o.LogDir != "" && (err != nil || !info.IsDir()) {
		return nil, fmt.Errorf("%w: %s, named as the folder of the log, is no folder", ErrNoStore, s.logDir)
	}
	if err := s.readState(); err != nil { // first: what it tells is older than what the files show
		return nil, err
	}
	if o.Held {
		s.State.Lock.InUse = false
	}
	if err := s.listQueues(); err != nil {
		return nil, err
	}
	if err := s.listIndex(); err != nil {
		return nil, err
	}
	if err := s.listSegments(); err != nil {
		return nil, err
	}
	if len(s.segments) == 0 && len(s.queues) == 0 && len(s.keyFiles) == 0 && !s.State.any() {
		return nil, fmt.Errorf("%w: %s holds neither log nor queues nor a checkpoint", ErrNoStore, s.dir)
	}
	return s, nil
}

// Close gives up what the store has mapped.
func (s *Store) Close() { s.kept.close() }

// Sizes are those that most files of a kind have, 0 where there is no file.
type Sizes struct{ Segment, QueueFile int64 }

// Sizes tells the sizes of the store's files.
func (s *Store) Sizes() Sizes { return Sizes{s.segmentSize, s.queueFileSize} }

// logMin is the first byte of the log.
func (s *Store) logMin() int64 {
	if len(s.segments) == 0 {
		return 0
	}
	return s.segments[0].base
}

// record checks the record at offset at. Its slices are valid until the next call.
func (s *Store) record(at int64, r *message.Record) error {
	b, err := s.from(at)
	if err != nil {
		return err
	}
	switch kind, err := check(b, message.Offset(at), r); {
	case err != nil:
		return err
	case kind != message.Whole:
		return fmt.Errorf("no record at %d: %s", at, kind)
	}
	return nil
}

// storedAt is when the record at offset at was stored, in ms. Only its head is looked at.
func (s *Store) storedAt(at int64) (ms int64, err error) {
	b, err := s.from(at)
	if err != nil {
		return 0, err
	}
	defer segment.CatchFault(&err, "inspect", debug.SetPanicOnFault(true))
	if _, ok := message.Peek(b, message.Offset(at)); !ok {
		return 0, fmt.Errorf("no record begins at %d", at)
	}
	ms, _ = message.StoreTime(b)
	return ms, nil
}

// from are the bytes from offset at to the end of its segment, valid until the next call.
func (s *Store) from(at int64) ([]byte, error) {
	i, ok := s.segmentOf(at)
	if !ok {
		return nil, fmt.Errorf("the log has no segment with offset %d", at)
	}
	f := &s.segments[i]
	if s.kept.path != f.path {
		s.kept.close()
		var err error
		if s.kept, err = mapFile(f.path, random); err != nil {
			return nil, err
		}
	}
	if at-f.base >= int64(len(s.kept.bytes)) {
		return nil, fmt.Errorf("segment %s ends before offset %d", f.name, at)
	}
	return s.kept.bytes[at-f.base:], nil
}

// readDir is os.ReadDir that takes a folder that is not there for an empty one.
func readDir(dir string) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("inspect: %w", err)
	}
	return entries, nil
}

const nameDigits = 20

// parseBase reads the name of a segment or queue file: the position of its first byte.
func parseBase(name string) (base int64, ok bool) {
	if len(name) != nameDigits {
		return 0, false
	}
	for _, c := range []byte(name) {
		if c < '0' || c > '9' || base > (1<<63-1-9)/10 {
			return 0, false
		}
		base = 10*base + int64(c-'0')
	}
	return base, true
}

// commonSize is the size that most files have, of those that fit; of two equally frequent ones the larger, for a file is cut short more easily
// than made longer. 0 without files.
func commonSize(counts map[int64]int, fits func(size int64) bool) int64 {
	best := int64(0)
	for size, n := range counts {
		if size > 0 && fits(size) && (n > counts[best] || n == counts[best] && size > best || best == 0) {
			best = size
		}
	}
	return best
}

// count makes one text of a number and a noun.
func count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if noun == "entry" {
		return fmt.Sprintf("%d entries", n)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func queueName(id consumequeue.ID) string { return fmt.Sprintf("%q/%d", id.Topic, id.QueueID) }
