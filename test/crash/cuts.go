package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// disk is an ext4 file system in a file, mounted through a loop device, whose power can be cut.
type disk struct {
	image, mount string
}

func newDisk(dir string) (*disk, error) {
	d := &disk{image: filepath.Join(dir, "disk.img"), mount: filepath.Join(dir, "mnt")}
	if err := os.MkdirAll(d.mount, 0o755); err != nil {
		return nil, err
	}
	f, err := os.Create(d.image)
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(1 << 30); err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	if err := run("mkfs.ext4", "-q", "-F", d.image); err != nil {
		return nil, err
	}
	return d, d.attach()
}

func (d *disk) folder() string { return d.mount }
func (d *disk) note() string   { return "" }

func (d *disk) attach() error { return run("mount", "-o", "loop", d.image, d.mount) }
func (d *disk) detach() error { return run("umount", d.mount) }

// cut makes everything that is not yet on the device go, as a power cut does: FS_IOC_SHUTDOWN without a flush of the journal.
func (d *disk) cut() error {
	f, err := os.Open(d.mount)
	if err != nil {
		return err
	}
	defer f.Close()
	const fsIocShutdown, noLogFlush = 0x8004587d, 2
	flag := uint32(noLogFlush)
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), fsIocShutdown, uintptr(unsafe.Pointer(&flag))); errno != 0 {
		return fmt.Errorf("FS_IOC_SHUTDOWN on %s: %w", d.mount, errno)
	}
	return nil
}

// cuts runs n rounds of load and power cut. Whatever was acknowledged has to be there, also what was acknowledged after the cut: a
// broker that cannot write any more must not acknowledge. Just before the cut a topic is made; once acknowledged it has to stay.
func cuts(p plan, dir string, n int) (acked []int, err error) {
	if n == 0 {
		return nil, nil
	}
	d, err := p.disk.make(dir, p.seed)
	if err != nil {
		return nil, err
	}
	b := &broker{binary: p.binary, dir: d.folder(), settings: p.mode.settings()}
	defer func() {
		if b.cmd != nil {
			b.kill()
		}
		if e := d.detach(); err == nil {
			err = e
		}
	}()
	rng := rand.New(rand.NewPCG(p.seed, 2))
	l := newLedger()
	if err := firstStart(b); err != nil {
		return nil, err
	}
	for round := range n {
		if err := cutRound(d, b, l, rng, round, p.loadTime(rng)); err != nil {
			return acked, err
		}
		acked = append(acked, l.count)
		begun := time.Now()
		if err := b.start(); err != nil {
			return acked, fmt.Errorf("cut %d: %w", round, err)
		}
		started := time.Since(begun)
		if err := l.audit(b, rng, p.mode.window(true)); err != nil {
			return acked, fmt.Errorf("cut %d: %w\n%s", round, err, b.out)
		}
		fmt.Printf("cut  %2d: %5d acknowledged, %s, start %d ms %s\n", round, l.count, l.losses, started.Milliseconds(), d.note())
	}
	return acked, nil
}

func cutRound(d powerDisk, b *broker, l *ledger, rng *rand.Rand, round int, load time.Duration) error {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		l.run(b.port, rng.Uint64(), stop)
	}()
	time.Sleep(load)
	quiet := round%2 == 1
	if quiet { // no flush of a sender may carry the new topic to the disk by chance
		close(stop)
		<-done
	}
	c, err := dial(b.port)
	if err != nil {
		return err
	}
	defer c.Close()
	name := "Made" + strconv.Itoa(round)
	made, err := c.createTopic(name, 1)
	if err != nil {
		return err
	}
	if err := d.cut(); err != nil {
		return err
	}
	l.struck = time.Now()
	if made {
		l.topics[name] = true
	}
	if !quiet {
		time.Sleep(300 * time.Millisecond) // senders go on against a device that is gone
		close(stop)
		<-done
	}
	b.kill()
	if err := d.detach(); err != nil {
		return err
	}
	return d.attach()
}
