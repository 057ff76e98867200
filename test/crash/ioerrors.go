package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// thinDisk is an ext4 file system whose image lies in a tmpfs that is too small for it. While the tmpfs is full, writes to new blocks fail: one
// fsync says so, and the next one says that all is well, for the kernel takes the pages as clean then. What ext4 needs for itself
// has its place from the beginning.
type thinDisk struct {
	disk
	under, filler string
}

const thinBytes = 96 << 20

func newThinDisk(dir string) (*thinDisk, error) {
	under := filepath.Join(dir, "under")
	d := &thinDisk{disk: disk{image: filepath.Join(under, "disk.img"), mount: filepath.Join(dir, "mnt")}, under: under, filler: filepath.Join(under, "filler")}
	for _, folder := range []string{under, d.mount} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return nil, err
		}
	}
	if err := run("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d", thinBytes), "tmpfs", under); err != nil {
		return nil, err
	}
	err := run("truncate", "-s", "1g", d.image)
	if err == nil {
		err = run("mkfs.ext4", "-q", "-F", "-J", "size=4", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", d.image)
	}
	if err == nil {
		err = d.attachThin()
	}
	if err != nil {
		_ = run("umount", under)
		return nil, err
	}
	return d, nil
}

// attachThin mounts with requests of one page. The loop driver takes a write that the tmpfs has cut short for a whole one: with larger
// requests the device would lie, and no store could do anything about it.
func (d *thinDisk) attachThin() error {
	if err := d.attach(); err != nil {
		return err
	}
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		if device, rest, _ := strings.Cut(line, " "); strings.HasPrefix(rest, d.mount+" ") {
			return os.WriteFile(filepath.Join("/sys/block", filepath.Base(device), "queue/max_sectors_kb"), []byte("4"), 0)
		}
	}
	return fmt.Errorf("%s is not in /proc/mounts", d.mount)
}

func (d *thinDisk) remove() error {
	err := d.detach()
	if e := run("umount", d.under); err == nil {
		err = e
	}
	return err
}

// fill takes all that is left of the tmpfs.
func (d *thinDisk) fill() error {
	f, err := os.Create(d.filler)
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for len(block) > 0 {
		if _, err := f.Write(block); err != nil {
			block = block[:len(block)/2] // to the last byte
		}
	}
	return nil
}

// ioErrors runs n rounds in which flushes begin to fail under load and, a little later, would succeed again. After the first failure nothing may be
// acknowledged until a restart has read the disk.
func ioErrors(p plan, dir string, n int) (acked []int, err error) {
	rng := rand.New(rand.NewPCG(p.seed, 3))
	for round := range n {
		count, err := ioErrorRound(p, filepath.Join(dir, fmt.Sprint(round)), rng)
		if err != nil {
			return acked, fmt.Errorf("failing flushes %d: %w", round, err)
		}
		acked = append(acked, count)
		fmt.Printf("failing flushes %2d: %5d acknowledged\n", round, count)
	}
	return acked, nil
}

func ioErrorRound(p plan, dir string, rng *rand.Rand) (acked int, err error) {
	d, err := newThinDisk(dir)
	if err != nil {
		return 0, err
	}
	// Segments are not filled with zeros ahead, so that their blocks are new to the tmpfs.
	b := &broker{binary: p.binary, dir: d.mount, settings: append(p.mode.settings(), "ringmq.zeroSegments=false")}
	defer func() {
		if b.cmd != nil {
			b.kill()
		}
		if e := d.remove(); err == nil {
			err = e
		}
	}()
	if err := firstStart(b); err != nil {
		return 0, err
	}
	l := newLedger()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		l.run(b.port, rng.Uint64(), stop)
	}()
	time.Sleep(time.Duration(300+rng.IntN(700)) * time.Millisecond)
	if err := d.fill(); err != nil {
		return 0, err
	}
	time.Sleep(time.Second)
	if err := os.Remove(d.filler); err != nil {
		return 0, err
	}
	time.Sleep(time.Second)
	close(stop)
	<-done
	before := b.out.String()
	failed := strings.Contains(before, "input/output error") || strings.Contains(before, "no space left")
	b.kill()
	if err := d.detach(); err != nil {
		return 0, err
	}
	if err := d.attachThin(); err != nil {
		return 0, err
	}
	if !failed {
		return 0, fmt.Errorf("no flush failed: the round shows nothing\n%s", b.out)
	}
	if err := b.start(); err != nil {
		return 0, err
	}
	if err := l.audit(b, rng, 0); err != nil {
		return 0, fmt.Errorf("%w\nbefore the restart:\n%s\nafter it:\n%s", err, before, b.out)
	}
	return l.count, nil
}
