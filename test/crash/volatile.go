package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// volatileDisk is an ext4 on a loop device on the file that test/volatile serves: a disk with a volatile cache. What no flush has made durable is
// kept, lost or torn by coin when the power is cut. One process of test/volatile is one life of the disk.
type volatileDisk struct {
	program             string
	barriers            bool // that ext4 flushes the disk's cache
	medium, fuse, mount string
	seed                uint64

	cmd     *exec.Cmd
	orders  io.WriteCloser
	answers chan string // closed when the process has closed its output
	said    string      // what it said to the last cut
}

func newVolatileDisk(dir, program string, barriers bool, seed uint64) (*volatileDisk, error) {
	d := &volatileDisk{program: program, barriers: barriers, seed: seed,
		medium: filepath.Join(dir, "medium.img"), fuse: filepath.Join(dir, "fuse"), mount: filepath.Join(dir, "mnt")}
	for _, folder := range []string{d.fuse, d.mount} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return nil, err
		}
	}
	if err := run("truncate", "-s", "1g", d.medium); err != nil {
		return nil, err
	}
	if err := run("mkfs.ext4", "-q", "-F", "-E", "nodiscard", d.medium); err != nil {
		return nil, err
	}
	return d, d.attach()
}

func (d *volatileDisk) folder() string { return d.mount }
func (d *volatileDisk) note() string   { return d.said }

// attach gives the disk a new life and mounts it. If that fails, nothing is left.
func (d *volatileDisk) attach() error {
	if err := d.power(); err != nil {
		return err
	}
	if err := d.mountDisk(); err != nil {
		return errors.Join(err, d.end())
	}
	return nil
}

// mountDisk has a file system without barriers mended first, if need be: what it lost itself shall not hide what the broker lost.
func (d *volatileDisk) mountDisk() error {
	file := filepath.Join(d.fuse, "disk")
	if d.barriers {
		return run("mount", "-o", "loop", file, d.mount)
	}
	err := run("mount", "-o", "loop,barrier=0", file, d.mount)
	if err == nil {
		return nil
	}
	_ = run("fsck.ext4", "-f", "-y", file) // its exit code tells what it mended
	return run("mount", "-o", "loop,barrier=0", file, d.mount)
}

func (d *volatileDisk) power() error {
	d.seed++
	// While a sync takes its time more is written, which the cut then finds in the cache.
	sync := time.Duration(d.seed%6) * time.Millisecond
	d.cmd = exec.Command(d.program, "-medium", d.medium, "-mount", d.fuse, "-seed", strconv.FormatUint(d.seed, 10), "-sync", sync.String())
	d.cmd.Stderr = os.Stderr
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	orders, err := d.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := d.cmd.Start(); err != nil {
		return err
	}
	d.orders, d.answers = orders, make(chan string, 16)
	go func(answers chan<- string) {
		defer close(answers)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			answers <- lines.Text()
		}
	}(d.answers)
	if _, err := d.answer("ready"); err != nil {
		return errors.Join(err, d.end())
	}
	return nil
}

// answer waits for the process's next line.
func (d *volatileDisk) answer(prefix string) (string, error) {
	select {
	case line, more := <-d.answers:
		if !more || !strings.HasPrefix(line, prefix) {
			return "", fmt.Errorf("the volatile disk said %q, want %s…", line, prefix)
		}
		return line, nil
	case <-time.After(20 * time.Second):
		return "", fmt.Errorf("the volatile disk did not say %s for 20 s", prefix)
	}
}

// order has the process do something and returns its answer, which begins with the order's first word.
func (d *volatileDisk) order(order string) (string, error) {
	if _, err := io.WriteString(d.orders, order+"\n"); err != nil {
		return "", err
	}
	word, _, _ := strings.Cut(order, " ")
	return d.answer(word)
}

// cut cuts the power, just after the kernel has begun to write some files back, as it may at any time. That no flush at all has reached the disk is a fault of the suite, but with a file system that sends none.
func (d *volatileDisk) cut() error {
	if err := d.writeBack(); err != nil {
		return err
	}
	said, err := d.order("cut")
	if err != nil {
		return err
	}
	d.said = said
	if strings.Contains(said, "syncs=0") && d.barriers {
		return fmt.Errorf("no flush reached the disk: %s", said)
	}
	return nil
}

// writeBack starts the write-back of every other file, by coin, without any flush.
func (d *volatileDisk) writeBack() error {
	rng := rand.New(rand.NewPCG(d.seed, 5))
	return filepath.WalkDir(d.mount, func(name string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && (!entry.Type().IsRegular() || rng.IntN(2) == 0) {
			return nil
		}
		if err != nil {
			return err
		}
		f, err := os.Open(name)
		if err != nil {
			return nil // removed since
		}
		defer f.Close()
		const start = 2 // SYNC_FILE_RANGE_WRITE
		return syscall.SyncFileRange(int(f.Fd()), 0, 0, start)
	})
}

func (d *volatileDisk) hang(wait time.Duration) error {
	_, err := d.order("hang " + wait.String())
	return err
}

func (d *volatileDisk) detach() error { return errors.Join(unmount(d.mount), d.end()) }

// end ends the process, which unmounts what it serves.
func (d *volatileDisk) end() error {
	_ = d.orders.Close()
	late := time.AfterFunc(20*time.Second, func() { _ = d.cmd.Process.Kill() })
	defer late.Stop()
	for range d.answers { // until its output ends: Wait closes the pipe
	}
	if err := d.cmd.Wait(); err != nil {
		_ = syscall.Unmount(d.fuse, syscall.MNT_DETACH)
		return fmt.Errorf("the volatile disk: %w", err)
	}
	return nil
}
