// Package index keeps the key files, by which a message is found under its topic and a key. They are derived from the log and
// byte-compatible with RocketMQ's. To lose them costs time, and no error of theirs is an error of the store: what cannot be written
// is told in one line and put later.
//
// Records are put in the order of the log, by one goroutine at a time; any number look up. Entries are appended through a tail in memory;
// the slots of the newest file stand in memory and are written by the page. Nothing is mapped, so nothing is stored into a hole.
//
//	every record before next is in the index
//	  |                                next
//	  v                                  v
//	  [ full files | the newest: written | tail in memory ]
//
// What the device has is told by a small file of our own (progress). Entries before its count are durable and never change, and the slots
// can be made of them: after a crash the newest file is cut back to that count, its slots are made anew, and the log tells the rest.
//
// Locks, in this order: flushing (Prepare to Finish), mu. Under mu there are writes to the page cache, of 256 KiB at most but when a file
// is full, and no syncs.
package index

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"ringmq/engine/message"
	"ringmq/internal/histogram"
)

const (
	// tailBytes are appended in memory before they are written.
	tailBytes = entryLen * 3200
	// pagesAtOnce bounds how long a put waits for a write of pages.
	pagesAtOnce = 64
	// flushBytes of log are put before the index is flushed without a thorough round: what a start after a kill puts again.
	flushBytes = 128 << 20
)

// Options of an Index. Dir, Progress, Slots and Entries are needed.
type Options struct {
	Dir      string // store/index
	Progress string // path of the file that says what is durable
	Slots    int32  // maxHashSlotNum
	Entries  int32  // maxIndexNum
	Now      func() int64
	Logger   *slog.Logger
	Metrics  *Metrics // nil: none

	// Sync makes files durable that were not synced in one batch with those of others. Nil: fdatasync of one after the other.
	Sync func(fds []int) error
}

// Metrics counts what an Index does.
type Metrics struct {
	Keys         atomic.Int64 // put
	Files        atomic.Int64 // made
	Flushes      atomic.Int64
	FlushMicros  histogram.Histogram // how long each took, from Prepare to the saved progress
	FlushSizes   histogram.Histogram // bytes of entries and slots written since the one before
	WrittenBytes atomic.Int64        // of entries
	SlotBytes    atomic.Int64
	Lookups      atomic.Int64
	Examined     atomic.Int64 // entries of chains
	Failures     atomic.Int64 // lines logged of what could not be written
}

// Index is open between Open and Close.
type Index struct {
	o        Options
	geometry geometry
	metrics  *Metrics

	flushing  sync.Mutex
	candidate progress     // guarded by flushing: written, not synced
	begun     time.Time    // guarded by flushing: of the last Prepare
	prepared  int64        // guarded by flushing: bytes written up to its end
	flushed   int64        // guarded by flushing: bytes written up to the last flush
	batch     []*file      // guarded by flushing: to be synced
	synced    bool         // guarded by flushing: they are, or the error of it
	syncErr   error        // guarded by flushing
	saved     progress     // guarded by flushing
	savedAt   atomic.Int64 // its position
	fullMS    atomic.Int64 // end time of the newest full file that is durable
	newNames  bool         // guarded by mu: the folder is to be synced

	mu      sync.Mutex
	files   []*file       // oldest first
	table   *table        // head of the newest file; nil: there is none
	written int32         // entries of it before are in the file
	tail    []byte        // those that follow
	digest  xxhash.Digest // of the entries before written
	next    message.Offset
	partly  int     // keys of the record at next that were put before an error
	hashes  []int32 // reused
	told    bool    // that it cannot be written
	dead    error   // a sync has failed: nothing is put any more
	closed  bool
}

// file is one file on the disk; it stays open. Header and unsynced are guarded by Index.mu.
type file struct {
	name     string
	f        *os.File
	header   header
	unsynced bool
}

// Next is the position before which every record is in the index.
func (x *Index) Next() message.Offset {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.next
}

// Put puts the keys of the record at Next. It does nothing for one before, and says false for one beyond, or if the index cannot be written:
// then the record at Next is to be put again, later. No allocation but for a new file.
func (x *Index) Put(r *message.Record) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if r.Offset != x.next {
		return r.Offset < x.next
	}
	return x.put(r)
}

// PutNext is Put for one who knows that no record stands between Next and r.
func (x *Index) PutNext(r *message.Record) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if r.Offset < x.next {
		return true
	}
	if r.Offset > x.next {
		x.next, x.partly = r.Offset, 0
	}
	return x.put(r)
}

// Pass says that no record stands in [from, to).
func (x *Index) Pass(from, to message.Offset) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if from <= x.next && x.next < to {
		x.next, x.partly = to, 0
	}
}

// put is Put of the record at next. mu is held.
func (x *Index) put(r *message.Record) bool {
	if x.dead != nil || x.closed {
		return false
	}
	x.hashes = appendHashes(x.hashes[:0], r)
	for x.partly < len(x.hashes) {
		if err := x.add(x.hashes[x.partly], r.Offset, r.StoreTime); err != nil {
			x.unwritable(err)
			return false
		}
		x.partly++
	}
	x.next, x.partly = r.Offset+message.Offset(r.Size), 0
	if x.told {
		x.told = false
		x.o.Logger.Info("the key index is written again", "from", r.Offset)
	}
	return true
}

func (x *Index) unwritable(err error) {
	if !x.told {
		x.told = true
		x.metrics.Failures.Add(1)
		x.o.Logger.Error("the key index cannot be written; messages are taken, those behind are found by key when it can be written again",
			"from", x.next, "error", err)
	}
}

func (x *Index) newest() *file {
	if len(x.files) == 0 {
		return nil
	}
	return x.files[len(x.files)-1]
}

// add puts one key; after an error nothing has changed. mu is held.
func (x *Index) add(hash int32, at message.Offset, storeMS int64) error {
	f := x.newest()
	if f == nil || f.header.count >= x.geometry.entries {
		if err := x.roll(f); err != nil {
			return err
		}
		f = x.newest()
	}
	if len(x.tail)+entryLen > tailBytes {
		if err := x.writeTail(f); err != nil {
			return err
		}
	}
	h := &f.header
	e := entry{hash: hash, offset: at, seconds: h.seconds(storeMS), previous: x.table.slot(hash)}
	if e.previous == 0 {
		h.used++
	}
	x.tail = e.append(x.tail)
	x.table.setSlot(hash, h.count)
	if h.count == 1 {
		h.begin, h.beginMS = at, storeMS
	}
	h.end, h.endMS = at, storeMS
	h.count++
	x.table.putHeader(h)
	x.metrics.Keys.Add(1)
	return nil
}

// writeTail writes the entries that are in memory only. mu is held.
func (x *Index) writeTail(f *file) error {
	if len(x.tail) == 0 {
		return nil
	}
	f.unsynced = true
	if _, err := f.f.WriteAt(x.tail, x.geometry.entryAt(x.written)); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	x.metrics.WrittenBytes.Add(int64(len(x.tail)))
	_, _ = x.digest.Write(x.tail) // never fails
	x.written, x.tail = f.header.count, x.tail[:0]
	return nil
}

// writePages writes some of the head's dirty pages, and says whether there were any. mu is held.
func (x *Index) writePages(f *file) (bool, error) {
	f.unsynced = true
	n, err := x.table.writePages(f.f, pagesAtOnce)
	if err != nil {
		return false, fmt.Errorf("index: %w", err)
	}
	x.metrics.SlotBytes.Add(int64(n))
	return n > 0, nil
}

// roll makes a new file, behind f if that is not nil, which is written out first. mu is held.
func (x *Index) roll(f *file) error {
	head := header{count: 1}
	if f != nil {
		if err := x.writeTail(f); err != nil {
			return err
		}
		for more := true; more; {
			var err error
			if more, err = x.writePages(f); err != nil {
				return err
			}
		}
		head.begin, head.end, head.beginMS, head.endMS = f.header.end, f.header.end, f.header.endMS, f.header.endMS
	}
	if x.table == nil {
		table, err := newTable(x.geometry)
		if err != nil {
			return err
		}
		x.table = table
	}
	made, err := x.create(f)
	if err != nil {
		return err
	}
	made.header = head
	x.table.clear()
	x.digest.Reset()
	x.table.putHeader(&head)
	x.files = append(x.files, made)
	x.written, x.tail, x.newNames = 1, x.tail[:0], true
	if x.tail == nil {
		x.tail = make([]byte, 0, tailBytes)
	}
	x.metrics.Files.Add(1)
	return nil
}

// create makes a file of zeros without blocks, named by the time, but later than the one before.
func (x *Index) create(before *file) (*file, error) {
	if err := os.MkdirAll(x.o.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	name := nameOf(time.UnixMilli(x.o.Now()))
	if before != nil && name <= before.name { // the clock, or summer time, went back, or stands still
		name = nameAfter(before.name)
	}
	path := filepath.Join(x.o.Dir, name)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err == nil {
		if err = f.Truncate(x.geometry.size()); err != nil {
			err = errors.Join(err, f.Close(), os.Remove(path))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	return &file{name: name, f: f}, nil
}

func nameOf(t time.Time) string {
	s := t.Format("20060102150405.000")
	return s[:14] + s[15:]
}

// nameAfter is the next name in the order of names; it need not be a time that there is.
func nameAfter(name string) string {
	n, err := strconv.ParseUint(name, 10, 64)
	if err != nil {
		panic("BUG: index: a key file is named " + name)
	}
	return fmt.Sprintf("%0*d", len(name), n+1)
}

// Last tells of the newest file, zeros without one.
func (x *Index) Last() (at message.Offset, storeMS int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if f := x.newest(); f != nil {
		return f.header.end, f.header.endMS
	}
	return 0, 0
}

// FullMS is the store time of the last message of the newest file that is full and durable, 0 without one: the checkpoint's index time.
func (x *Index) FullMS() int64 { return x.fullMS.Load() }

// DropBelow removes files all of whose records stand before min, but never the newest one.
func (x *Index) DropBelow(min message.Offset) (dropped int, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for len(x.files) > 1 && x.files[0].header.end < min && !x.files[0].unsynced {
		f := x.files[0]
		if err := os.Remove(filepath.Join(x.o.Dir, f.name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return dropped, fmt.Errorf("index: %w", err)
		}
		x.files = slices.Delete(slices.Clone(x.files), 0, 1)
		x.newNames = true
		_ = f.f.Close() // those who read it get an error, as for any file that is gone
		dropped++
	}
	return dropped, nil
}

// Close gives files and memory back. What was not flushed will be put again.
func (x *Index) Close() error {
	x.flushing.Lock()
	defer x.flushing.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil
	}
	x.closed = true
	x.closeFiles()
	return nil
}

// closeFiles forgets all files. mu is held, or nobody else knows x yet.
func (x *Index) closeFiles() {
	for _, f := range x.files {
		_ = f.f.Close() // synced, or put again
	}
	if x.table != nil {
		x.table.free()
	}
	x.files, x.table, x.tail, x.written = nil, nil, nil, 0
}
