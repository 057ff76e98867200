package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	blockSize  = 4096
	sectorSize = 512
	cacheLimit = 16 << 10 // blocks; beyond it the disk writes some back by itself, as any disk does
)

var errPowerOff = errors.New("volatile: the power is off")

// delays are what a sync costs: a fixed time, and a time for each MiB that it makes durable.
type delays struct{ sync, perMiB time.Duration }

// disk is a disk with a volatile write cache over a file that stands for its medium. What a write brought is in the cache, and reads see it; it is
// durable when a Sync that began afterwards has returned. The medium needs no fsync of its own, for it is this disk's power that is cut and
// not the machine's.
type disk struct {
	medium *os.File
	size   int64
	delays delays
	off    chan struct{} // closed when the power is cut

	mu    sync.Mutex // guards what follows, and the order of writes to the medium
	cache map[int64]*[blockSize]byte
	rng   *rand.Rand
	hang  time.Duration // of the next sync
	cut   bool
	stats stats
}

type stats struct{ writes, syncs, early int }

func (s stats) String() string {
	return fmt.Sprintf("writes=%d syncs=%d early=%d", s.writes, s.syncs, s.early)
}

func newDisk(medium *os.File, seed uint64, d delays) (*disk, error) {
	info, err := medium.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() == 0 || info.Size()%blockSize != 0 {
		return nil, fmt.Errorf("volatile: %s has %d bytes, want a multiple of %d", medium.Name(), info.Size(), blockSize)
	}
	return &disk{medium: medium, size: info.Size(), delays: d, off: make(chan struct{}), cache: map[int64]*[blockSize]byte{},
		rng: rand.New(rand.NewPCG(seed, 0))}, nil
}

// ReadAt reads what the last writes left, durable or not. At the disk's end it is short.
func (d *disk) ReadAt(p []byte, off int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cut {
		return 0, errPowerOff
	}
	p = p[:max(min(int64(len(p)), d.size-off), 0)]
	for done := 0; done < len(p); {
		number, within := (off+int64(done))/blockSize, int((off+int64(done))%blockSize)
		n := min(blockSize-within, len(p)-done)
		if b, cached := d.cache[number]; cached {
			copy(p[done:done+n], b[within:])
		} else if _, err := d.medium.ReadAt(p[done:done+n], off+int64(done)); err != nil {
			return done, err
		}
		done += n
	}
	return len(p), nil
}

// WriteAt writes into the cache.
func (d *disk) WriteAt(p []byte, off int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cut {
		return 0, errPowerOff
	}
	if off+int64(len(p)) > d.size {
		return 0, fmt.Errorf("volatile: write of %d bytes at %d of a disk of %d: %w", len(p), off, d.size, io.ErrShortWrite)
	}
	d.stats.writes++
	for done := 0; done < len(p); {
		number, within := (off+int64(done))/blockSize, int((off+int64(done))%blockSize)
		n, err := d.put(number, within, p[done:])
		if err != nil {
			return done, err
		}
		done += n
	}
	return len(p), nil
}

// put writes the part of p that belongs into one block. An older content that is not durable yet goes to the medium by coin, so that
// after a cut the medium may hold any version since the last sync.
func (d *disk) put(number int64, within int, p []byte) (int, error) {
	n := min(blockSize-within, len(p))
	b, cached := d.cache[number]
	switch {
	case !cached:
		if err := d.makeRoom(); err != nil {
			return 0, err
		}
		b = new([blockSize]byte)
		if n < blockSize {
			if _, err := d.medium.ReadAt(b[:], number*blockSize); err != nil {
				return 0, err
			}
		}
		d.cache[number] = b
	case d.rng.IntN(4) == 0:
		d.stats.early++
		if _, err := d.medium.WriteAt(b[:], number*blockSize); err != nil {
			return 0, err
		}
	}
	return copy(b[within:], p[:n]), nil
}

// makeRoom writes one block of a full cache back, no matter which.
func (d *disk) makeRoom() error {
	if len(d.cache) < cacheLimit {
		return nil
	}
	for number, b := range d.cache {
		d.stats.early++
		delete(d.cache, number)
		_, err := d.medium.WriteAt(b[:], number*blockSize)
		return err
	}
	return nil
}

// Sync makes everything durable whose write returned before Sync was called. A cut ends it at once, without a promise.
func (d *disk) Sync() error {
	if err := d.wait(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cut {
		return errPowerOff
	}
	for number, b := range d.cache {
		if _, err := d.medium.WriteAt(b[:], number*blockSize); err != nil {
			return err
		}
		delete(d.cache, number)
	}
	d.stats.syncs++
	return nil
}

// wait passes the time that a sync takes.
func (d *disk) wait() error {
	d.mu.Lock()
	wait := d.delays.sync + d.delays.perMiB*time.Duration(len(d.cache))*blockSize/(1<<20) + d.hang
	d.hang = 0
	d.mu.Unlock()
	if wait == 0 {
		return nil
	}
	select {
	case <-d.off:
		return errPowerOff
	case <-time.After(wait):
		return nil
	}
}

// Hang lets the next sync take that much longer.
func (d *disk) Hang(wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hang = wait
}

// Stats tells what was done so far.
func (d *disk) Stats() stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stats
}

// fates are how many blocks of the cache a cut left whole, lost and torn.
type fates struct{ kept, lost, torn int }

func (f fates) String() string { return fmt.Sprintf("kept=%d lost=%d torn=%d", f.kept, f.lost, f.torn) }

// Cut cuts the power: each block that is not durable is kept, lost or torn by coin, and from now on nothing succeeds. A second cut does nothing.
func (d *disk) Cut() (fates, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var f fates
	if d.cut {
		return f, nil
	}
	d.cut = true
	close(d.off)
	for _, number := range slices.Sorted(maps.Keys(d.cache)) { // sorted: the same cache and seed meet the same fate
		if err := d.decide(number, &f); err != nil {
			return f, err
		}
	}
	clear(d.cache)
	return f, nil
}

// decide leaves the medium with the old block, the new one, or sectors of both. The first block is never torn: ext4 reads its superblock, which is larger
// than a sector, before it replays the journal that could mend it, and relies on disks that write 4 KiB in one go there.
func (d *disk) decide(number int64, f *fates) error {
	var old [blockSize]byte
	if _, err := d.medium.ReadAt(old[:], number*blockSize); err != nil {
		return err
	}
	left := *d.cache[number]
	coin := d.rng.IntN(5)
	switch {
	case coin < 2:
		f.kept++
	case coin < 4 || number == 0:
		f.lost++
		return nil
	default:
		f.torn++
		for at := 0; at < blockSize; at += sectorSize {
			if d.rng.IntN(2) == 0 {
				copy(left[at:at+sectorSize], old[at:])
			}
		}
	}
	if bytes.Equal(left[:], old[:]) {
		return nil
	}
	_, err := d.medium.WriteAt(left[:], number*blockSize)
	return err
}
