// Package crashtest is the disk below a store that is made to crash inside a test: the log in memory (memstore), everything else in a
// folder of the real file system, of which the Disk remembers what the device would have. PowerCut and Kill make the disk that the next
// start finds.
//
// What it knows of the folder is what a store tells the device. Files of queues and index are written in place and synced through
// SyncFds: between two syncs each of their pages may be there or not, torn, or as it was. All other files are replaced as a whole by
// internal/durable and are on the device when the call has returned; nothing can be cut in between here, so a crash finds them as they are.
// The same goes for names that were removed.
package crashtest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"ringmq/engine/segment"
	"ringmq/engine/segment/memstore"
	"ringmq/internal/mutant"
)

// Syncer is what really syncs beside the bookkeeping; *uring.Queue satisfies it.
type Syncer interface {
	SyncFdsEach(fds []int, errs []error) error
}

// Disk is of one store. It is the store's DerivedSyncer. PowerCut, Kill, Begin and Opened are called while no sync is under way but one
// that hangs.
type Disk struct {
	Log   *memstore.Storage
	Dir   string // of the store, but for the log
	Inner Syncer // may be nil: syncing costs time, and what counts is what the Disk remembers

	mu      sync.Mutex
	device  map[string][]byte // by path below Dir: what the device has of files that are written in place
	found   map[string][]byte // what of those was there at Begin
	syncs   int
	holds   []*Hold
	failing error
}

// Hold makes a sync of queues and index hang: the Nth from now on, before anything is durable or after everything is.
type Hold struct {
	Nth     int             // 0 is the next one
	After   bool            // when it is done, nobody told
	Entered chan<- struct{} // closed when it hangs
	Release <-chan struct{} // until this is closed
	at      int
}

// New is an empty disk; dir need not exist.
func New(dir string) *Disk { return over(memstore.New(), dir) }

// over is a disk with this log. The directory in memory stands for segment.Dir, which syncs its folder after each change: so it takes part
// in the mutant that does not.
func over(log *memstore.Storage, dir string) *Disk {
	log.SetVolatileNames(mutant.NoDirSync)
	return &Disk{Log: log, Dir: dir, device: make(map[string][]byte)}
}

// Storage is the log's directory as engine.Options wants it.
func (d *Disk) Storage(string) (segment.Storage, error) { return logDir{d.Log}, nil }

// logDir puts what is moved away where it is looked for.
type logDir struct{ *memstore.Storage }

func (l logDir) MoveTo(name, path string) error {
	if err := l.Storage.MoveTo(name, path); err != nil {
		return err
	}
	return write(path, l.Moved(path))
}

// inPlace tells whether the file is one of those that are changed where they stand.
func inPlace(path string) bool {
	return strings.HasPrefix(path, "consumequeue/") || strings.HasPrefix(path, "index/")
}

// ignored: what was cut is read by nobody.
func ignored(path string) bool { return strings.HasPrefix(path, "ringmq/cut") }

// Begin is called before the store is opened.
func (d *Disk) Begin() error {
	files, err := d.read()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.found = files
	return err
}

// Opened is called when Open has returned without an error. What Open erased it has synced by itself, unseen: pages that it changed are on
// the device. Those that it left alone may still be in the page cache only.
func (d *Disk) Opened() error {
	files, err := d.read()
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for path, now := range files {
		before, was := d.found[path]
		if !inPlace(path) || !was || bytes.Equal(now, before) {
			continue
		}
		device := make([]byte, len(now))
		copy(device, d.device[path])
		for from := 0; from < len(now); from += memstore.PageSize {
			to := min(from+memstore.PageSize, len(now))
			if to > len(before) || !bytes.Equal(now[from:to], before[from:to]) {
				copy(device[from:to], now[from:to])
			}
		}
		d.device[path] = device
	}
	for path := range d.device {
		if files[path] == nil {
			delete(d.device, path)
		}
	}
	return nil
}

// read returns the content of all files by their path below Dir.
func (d *Disk) read() (map[string][]byte, error) {
	files := make(map[string][]byte)
	err := filepath.WalkDir(d.Dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		rel, _ := filepath.Rel(d.Dir, path)
		if err != nil || entry.IsDir() || ignored(rel) {
			return err
		}
		files[rel], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("crashtest: %w", err)
	}
	return files, nil
}

// HoldSync arms h.
func (d *Disk) HoldSync(h *Hold) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h.at = d.syncs + max(h.Nth, 1)
	d.holds = append(d.holds, h)
}

// FailSync makes every sync of queues and index fail with err from now on, until Heal.
func (d *Disk) FailSync(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failing = err
}

// Heal disarms all faults of log and folder. What hangs goes on hanging.
func (d *Disk) Heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failing, d.holds = nil, nil
	d.Log.Heal()
}

// SyncFds makes files durable.
func (d *Disk) SyncFds(fds []int) error { return d.SyncFdsEach(fds, nil) }

// SyncFdsEach makes files durable. When it fails none is.
func (d *Disk) SyncFdsEach(fds []int, errs []error) error {
	d.mu.Lock()
	d.syncs++
	var before, after *Hold
	for _, h := range d.holds {
		switch {
		case h.at != d.syncs:
		case h.After:
			after = h
		default:
			before = h
		}
	}
	d.mu.Unlock()
	before.hang()
	err := d.sync(fds, errs)
	after.hang()
	return err
}

func (h *Hold) hang() {
	if h != nil {
		close(h.Entered)
		<-h.Release
	}
}

func (d *Disk) sync(fds []int, errs []error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(errs)
	err := d.failing
	for i, fd := range fds {
		if err == nil {
			err = d.remember(fd)
		}
		if err != nil && errs != nil {
			errs[i] = err
		}
	}
	if err == nil && d.Inner != nil {
		return d.Inner.SyncFdsEach(fds, errs)
	}
	return err
}

// remember notes what a file holds, which is what the device has as soon as the sync that has begun succeeds. mu is held.
func (d *Disk) remember(fd int) error {
	path, err := os.Readlink(fmt.Sprint("/proc/self/fd/", fd))
	if err != nil {
		return fmt.Errorf("crashtest: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("crashtest: %s: %w", path, err)
	}
	content := make([]byte, st.Size)
	if n, err := unix.Pread(fd, content, 0); err != nil || n < len(content) {
		return fmt.Errorf("crashtest: read %s: %d of %d bytes: %w", path, n, len(content), err)
	}
	rel, err := filepath.Rel(d.Dir, path)
	if err != nil || !inPlace(rel) {
		return fmt.Errorf("crashtest: %s is synced, which is no file of queues or index below %s", path, d.Dir)
	}
	d.device[rel] = content
	return nil
}
