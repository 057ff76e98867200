package inspect

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sort"
	"strconv"

	"golang.org/x/sys/unix"

	"ringmq/engine/consumequeue"
)

const (
	entrySize = consumequeue.EntrySize

	// A scan reads a little first, as most queues are short and their files are holes behind the end.
	minScanRead = 200 * entrySize
	maxScanRead = 12_800 * entrySize
)

// queue is one consume queue. Entry n stands at byte 20n of the row of its files.
type queue struct {
	id    consumequeue.ID
	files []queueFile // by base
}

type queueFile struct {
	path       string
	base, size int64
}

// first and limit are the first entry number of a file, and the one behind its last.
func (f *queueFile) first() int64 { return f.base / entrySize }
func (f *queueFile) limit() int64 { return (f.base + f.size) / entrySize }

// first is the number of the first entry that the files have room for.
func (q *queue) first() int64 {
	if len(q.files) == 0 {
		return 0
	}
	return q.files[0].first()
}

// fileOf finds the file that entry n lies in.
func (q *queue) fileOf(n int64) (*queueFile, bool) {
	i := sort.Search(len(q.files), func(i int) bool { return q.files[i].first() > n }) - 1
	if i < 0 || n >= q.files[i].limit() {
		return nil, false
	}
	return &q.files[i], true
}

// listQueues lists the queues' files.
func (s *Store) listQueues() error {
	root := filepath.Join(s.dir, "consumequeue")
	topics, err := readDir(root)
	if err != nil {
		return err
	}
	sizes := make(map[int64]int)
	for _, topic := range topics {
		dir := filepath.Join(root, topic.Name())
		if !topic.IsDir() {
			s.strays = append(s.strays, dir)
			continue
		}
		if err := s.listTopic(topic.Name(), dir, sizes); err != nil {
			return err
		}
	}
	s.queueFileSize = commonSize(sizes, func(size int64) bool { return size%entrySize == 0 })
	slices.SortFunc(s.queues, func(a, b *queue) int { return compareIDs(a.id, b.id) })
	return nil
}

func compareIDs(a, b consumequeue.ID) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.QueueID, b.QueueID))
}

func (s *Store) listTopic(topic, dir string, sizes map[int64]int) error {
	ids, err := readDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range ids {
		path := filepath.Join(dir, entry.Name())
		id, err := strconv.ParseInt(entry.Name(), 10, 32)
		if err != nil || id < 0 || strconv.FormatInt(id, 10) != entry.Name() || !entry.IsDir() {
			s.strays = append(s.strays, path)
			continue
		}
		q := &queue{id: consumequeue.ID{Topic: topic, QueueID: int32(id)}}
		if q.files, err = s.listQueueFiles(path, sizes); err != nil {
			return err
		}
		s.queues = append(s.queues, q)
	}
	return nil
}

func (s *Store) listQueueFiles(dir string, sizes map[int64]int) (files []queueFile, err error) {
	entries, err := readDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		base, ok := parseBase(entry.Name())
		if !ok || base%entrySize != 0 || !entry.Type().IsRegular() {
			s.strays = append(s.strays, path)
			continue
		}
		info, removed, err := infoOf(entry)
		if err != nil {
			return nil, err
		}
		if removed {
			continue
		}
		if base > math.MaxInt64-info.Size() {
			s.strays = append(s.strays, path)
			continue
		}
		sizes[info.Size()]++
		files = append(files, queueFile{path, base, info.Size()})
	}
	return files, nil
}

// scanEntries calls each for the entries from number from on, up to the first unit that is none, the end of the files or a missing file,
// and returns the number it ended at. each may end the scan by an error.
func (q *queue) scanEntries(from int64, buf []byte, each func(n int64, e consumequeue.Entry) error) (end int64, err error) {
	for {
		f, ok := q.fileOf(from)
		if !ok {
			return from, nil
		}
		end, err := f.scan(from, buf, each)
		if err != nil || end < f.limit() {
			return end, err
		}
		from = end
	}
}

func (f *queueFile) scan(from int64, buf []byte, each func(n int64, e consumequeue.Entry) error) (end int64, err error) {
	fd, err := openFile(f.path)
	if err != nil {
		return from, err
	}
	defer unix.Close(fd)
	for size := int64(minScanRead); from < f.limit(); size = min(2*size, maxScanRead) {
		want := min(size, (f.limit()-from)*entrySize, int64(len(buf)))
		n, err := pread(fd, f.path, buf[:want], from*entrySize-f.base)
		if err != nil {
			return from, err
		}
		for b := buf[:n]; len(b) >= entrySize; b = b[entrySize:] {
			e, ok := consumequeue.DecodeEntry(b)
			if !ok {
				return from, nil
			}
			if each != nil {
				if err := each(from, e); err != nil {
					return from, err
				}
			}
			from++
		}
		if int64(n) < want { // cut shorter since it was listed
			return from, nil
		}
	}
	return from, nil
}

// read fills entries with those from number n on that lie in one file, and tells how many there are.
func (q *queue) read(n int64, entries []consumequeue.Entry, buf []byte) (int, error) {
	f, ok := q.fileOf(n)
	if !ok {
		return 0, nil
	}
	want := min(int64(len(entries)), f.limit()-n, int64(len(buf)/entrySize)) * entrySize
	got, err := readAt(f.path, buf[:want], n*entrySize-f.base)
	if err != nil {
		return 0, err
	}
	for i := range got / entrySize {
		var ok bool
		if entries[i], ok = consumequeue.DecodeEntry(buf[i*entrySize:]); !ok {
			return i, nil
		}
	}
	return got / entrySize, nil
}

// dataFrom finds the first byte from entry number n on, in any of the files, that is not zero; ok is false if there is none.
func (q *queue) dataFrom(n int64, buf []byte) (number int64, ok bool, err error) {
	for i := range q.files {
		f := &q.files[i]
		if f.limit() <= n {
			continue
		}
		off, err := f.dataFrom(max(n*entrySize-f.base, 0), buf)
		if err != nil {
			return 0, false, err
		}
		if off >= 0 {
			return (f.base + off) / entrySize, true, nil
		}
	}
	return 0, false, nil
}

func (f *queueFile) dataFrom(off int64, buf []byte) (int64, error) {
	fd, err := openFile(f.path)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	for {
		if off = nextData(fd, off); off < 0 || off >= f.size {
			return -1, nil
		}
		n, err := pread(fd, f.path, buf[:min(int64(len(buf)), f.size-off)], off)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			return -1, nil
		}
		if i := firstData(buf[:n]); i < n {
			return off + int64(i), nil
		}
		off += int64(n)
	}
}

// path of the queue's folder, for findings.
func (s *Store) queuePath(id consumequeue.ID) string {
	return filepath.Join(s.dir, "consumequeue", id.Topic, fmt.Sprint(id.QueueID))
}
