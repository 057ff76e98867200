package index

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/cespare/xxhash/v2"

	"ringmq/engine/message"
	"ringmq/internal/durable"
)

// Found is what Open is told of the store.
type Found struct {
	Clean  bool                                        // we had the store last, and stopped cleanly
	Min    message.Offset                              // of the log
	Stands func(at message.Offset, storeMS int64) bool // a whole record stands there, stored then
	Within func(position message.Offset) bool          // the log reaches up to there
}

// Open finds the index. What cannot be believed is removed, and Next is then the log's first byte: the log tells it anew. It is to be
// called before anything is appended to the log. An error says that there is no index in this run.
func Open(o Options, found Found) (*Index, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = new(Metrics)
	}
	x := &Index{o: o, geometry: geometry{o.Slots, o.Entries}, metrics: o.Metrics}
	names, err := x.list()
	if err != nil {
		return nil, err
	}
	p, ok, err := loadProgress(o.Progress)
	if ok {
		err = x.believe(&p, names, found)
	}
	if ok && err == nil {
		return x, nil
	}
	x.closeFiles()
	if len(names) > 0 {
		if err == nil {
			err = errors.New("it is not known to be complete")
		}
		o.Logger.Warn("the key index is built anew from the log", "files", len(names), "reason", err)
	}
	if err := x.reset(names); err != nil {
		return nil, err
	}
	x.next = found.Min
	return x, nil
}

// Reset forgets everything, in memory and on the disk, at any time: the log is not what the index was made of, or a file is broken. A flush
// that has been prepared comes to nothing, and lookups under way fail.
func (x *Index) Reset(min message.Offset) error {
	x.flushing.Lock()
	defer x.flushing.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil
	}
	x.closeFiles()
	x.batch, x.candidate, x.synced, x.syncErr = nil, progress{}, false, nil
	x.saved, x.next, x.partly = progress{}, min, 0
	x.fullMS.Store(0)
	names, err := x.list()
	if err != nil {
		return err
	}
	return x.reset(names)
}

// list names the files of the folder, oldest first.
func (x *Index) list() ([]string, error) {
	entries, err := os.ReadDir(x.o.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("index: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if !isName(entry.Name()) || !entry.Type().IsRegular() {
			x.o.Logger.Warn("a stray file among the key files is ignored", "path", filepath.Join(x.o.Dir, entry.Name()))
			continue
		}
		names = append(names, entry.Name())
	}
	slices.Sort(names)
	return names, nil
}

// reset begins with nothing. The progress goes first: it must not speak of files that others take the names of.
func (x *Index) reset(names []string) error {
	if err := durable.Remove(x.o.Progress); err != nil {
		return err
	}
	for _, name := range names {
		if err := os.Remove(filepath.Join(x.o.Dir, name)); err != nil {
			return fmt.Errorf("index: %w", err)
		}
	}
	return nil
}

// believe opens the files that p speaks of and makes the newest one as p says, or tells why that cannot be.
func (x *Index) believe(p *progress, names []string, found Found) error {
	if p.geometry != x.geometry {
		return fmt.Errorf("it has %d slots and %d entries a file, configured are %d (maxHashSlotNum) and %d (maxIndexNum)",
			p.geometry.slots, p.geometry.entries, x.geometry.slots, x.geometry.entries)
	}
	if !found.Within(p.position) {
		return fmt.Errorf("the log ends before %d, up to which it was complete", p.position)
	}
	last := slices.Index(names, p.name)
	if p.name != "" && last < 0 {
		return fmt.Errorf("file %s is missing", p.name)
	}
	h := &p.header
	if p.name != "" && h.count > 1 && h.end >= found.Min && !found.Stands(h.end, h.endMS) {
		return fmt.Errorf("no record stands at %d that was stored at %d ms", h.end, h.endMS)
	}
	if err := x.openFiles(names[:last+1]); err != nil {
		return err
	}
	if last >= 0 {
		if err := x.restore(p, found.Clean && last == len(names)-1); err != nil {
			return err
		}
	}
	for _, name := range names[last+1:] { // made after the progress was saved
		if err := os.Remove(filepath.Join(x.o.Dir, name)); err != nil {
			return fmt.Errorf("index: %w", err)
		}
	}
	x.saved, x.next = *p, max(p.position, found.Min)
	x.savedAt.Store(int64(p.position))
	if n := len(x.files); n > 1 {
		x.fullMS.Store(x.files[n-2].header.endMS)
	}
	return nil
}

// openFiles opens files in order; all but the last must be full.
func (x *Index) openFiles(names []string) error {
	var before header
	for i, name := range names {
		f, err := os.OpenFile(filepath.Join(x.o.Dir, name), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		x.files = append(x.files, &file{name: name, f: f})
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if info.Size() != x.geometry.size() {
			return fmt.Errorf("%s has %d bytes, want %d", name, info.Size(), x.geometry.size())
		}
		var head [headerLen]byte
		if _, err := f.ReadAt(head[:], 0); err != nil {
			return err
		}
		h := decodeHeader(head[:])
		if full := i < len(names)-1; full && (h.count != x.geometry.entries || h.begin > h.end || h.begin < before.end) {
			return fmt.Errorf("%s has header %+v behind %+v, it must be full", name, h, before)
		}
		x.files[i].header, before = h, h
	}
	return nil
}

// restore makes the newest file what p says of it. When the stop was clean it is that, unless somebody changed it.
func (x *Index) restore(p *progress, clean bool) error {
	f := x.newest()
	table, err := newTable(x.geometry)
	if err != nil {
		return err
	}
	x.table = table // given back by closeFiles if this fails
	x.tail = make([]byte, 0, tailBytes)
	f.header, x.written = p.header, p.header.count
	if err := x.digest.UnmarshalBinary(p.entries[:]); err != nil {
		return err
	}
	if clean {
		if err := table.load(f.f, &p.header); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		return nil
	}
	if err := x.remake(f); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	if err := table.compare(f.f); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	end := x.geometry.entryAt(p.header.count)
	err = f.f.Truncate(end)
	if err == nil {
		err = f.f.Truncate(x.geometry.size())
	}
	f.unsynced = true
	return err
}

// remakeBytes of entries are read at a time.
const remakeBytes = entryLen * 50_000

// remake makes the slots of the entries, and so checks each of these. A full file has 400 MB of them, so it goes by large blocks.
func (x *Index) remake(f *file) error {
	h := &f.header
	digest := xxhash.New()
	buffer := make([]byte, min(remakeBytes, entryLen*int64(h.count)))
	made := remade{last: h.begin}
	for n := int32(1); n < h.count; {
		b := buffer[:min(int64(len(buffer)), entryLen*int64(h.count-n))]
		if _, err := f.f.ReadAt(b, x.geometry.entryAt(n)); err != nil {
			return err
		}
		_, _ = digest.Write(b) // never fails
		for ; len(b) > 0; n, b = n+1, b[entryLen:] {
			if err := made.entry(x.table, h, n, decodeEntry(b)); err != nil {
				return err
			}
		}
	}
	if made.used != h.used || h.count > 1 && made.last != h.end {
		return fmt.Errorf("%d slots are used up to position %d, header %+v", made.used, made.last, *h)
	}
	if got, want := digest.Sum64(), x.digest.Sum64(); got != want {
		return fmt.Errorf("checksum of %d entries is %016x, %016x was kept", h.count-1, got, want)
	}
	x.table.putHeader(h)
	clear(x.table.dirty)
	return nil
}

// remade is how far remake has come.
type remade struct {
	used int32          // slots
	last message.Offset // of the entry before
}

func (m *remade) entry(t *table, h *header, n int32, e entry) error {
	if e.hash < 0 || e.offset < m.last || e.offset > h.end || e.seconds < 0 || n == 1 && e.offset != h.begin {
		return fmt.Errorf("entry %d is %+v behind position %d", n, e, m.last)
	}
	before := t.exchange(e.hash, n)
	if e.previous != before {
		return fmt.Errorf("entry %d follows entry %d in its chain, must follow %d", n, e.previous, before)
	}
	if before == 0 {
		m.used++
	}
	m.last = e.offset
	return nil
}
