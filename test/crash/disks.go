package main

import (
	"context"
	"fmt"
	"os/exec"
	"time"
)

// powerDisk is a mounted file system whose power can be cut. After a cut it is detached and attached again, as a machine that starts again does.
type powerDisk interface {
	folder() string
	attach() error
	detach() error
	cut() error
	note() string // about the last cut, for the log
}

// diskKind says on what disks the stores of a run lie.
type diskKind struct {
	name     string // loop, volatile or nobarrier
	volatile string // binary of test/volatile
}

// check refuses a name that is none.
func (k diskKind) check() error {
	switch k.name {
	case "loop":
	case "volatile", "nobarrier":
		if k.volatile == "" {
			return fmt.Errorf("-disk %s needs -volatile, the binary of test/volatile", k.name)
		}
	default:
		return fmt.Errorf("-disk %s: want loop, volatile or nobarrier", k.name)
	}
	return nil
}

// make makes a disk with an empty file system below dir and attaches it. With nobarrier ext4 sends no flushes, so that all that the broker does for
// durability is in vain: the suite has to find that.
func (k diskKind) make(dir string, seed uint64) (powerDisk, error) {
	switch k.name {
	case "volatile":
		return newVolatileDisk(dir, k.volatile, true, seed)
	case "nobarrier":
		return newVolatileDisk(dir, k.volatile, false, seed)
	default:
		return newDisk(dir)
	}
}

// run runs a command to its end, which is waited for a minute.
func run(name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w: %s", name, args, err, out)
	}
	return nil
}

// unmount tries for ten seconds: the kernel may still be closing the files of a process that was killed.
func unmount(folder string) error {
	var err error
	for range 50 {
		if err = run("umount", folder); err == nil {
			return nil
		}
		time.Sleep(200 * time.Millisecond)
	}
	return err
}
