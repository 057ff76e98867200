package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var errNoThrottle = errors.New("neither a cgroup v1 hierarchy with blkio nor a cgroup v2 one with io is mounted")

// throttle is a cgroup that slows what its processes write to one device. In version 1 that is what they hand to the device themselves, as
// fdatasync and direct writes do; write-back by the kernel is in nobody's group there.
type throttle struct {
	folder  string
	v2      bool
	device  string // major:minor
	limited bool
}

// newThrottle makes a group for the device below a file system.
func newThrottle(name, mount string) (*throttle, error) {
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return nil, err
	}
	root, v2, err := findThrottle(string(mounts))
	if err != nil {
		return nil, err
	}
	var st syscall.Stat_t
	if err := syscall.Stat(mount, &st); err != nil {
		return nil, err
	}
	if v2 {
		if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+io"), 0); err != nil {
			return nil, err
		}
	}
	t := &throttle{folder: filepath.Join(root, name), v2: v2, device: deviceName(st.Dev)}
	return t, os.Mkdir(t.folder, 0o755)
}

// deviceName takes a device number apart as the kernel puts it together.
func deviceName(dev uint64) string {
	major, minor := dev>>8&0xfff|dev>>32&^0xfff, dev&0xff|dev>>12&^0xff
	return fmt.Sprintf("%d:%d", major, uint32(minor))
}

// findThrottle looks in a text like /proc/mounts for a hierarchy that can throttle devices.
func findThrottle(mounts string) (root string, v2 bool, err error) {
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line) // device, folder, type, options
		if len(fields) < 4 {
			continue
		}
		switch {
		case fields[2] == "cgroup" && slices.Contains(strings.Split(fields[3], ","), "blkio"):
			return fields[1], false, nil
		case fields[2] == "cgroup2":
			controllers, err := os.ReadFile(filepath.Join(fields[1], "cgroup.controllers"))
			if err == nil && slices.Contains(strings.Fields(string(controllers)), "io") {
				root, v2 = fields[1], true
			}
		}
	}
	if root == "" {
		return "", false, errNoThrottle
	}
	return root, v2, nil
}

func (t *throttle) set(file, value string) error {
	return os.WriteFile(filepath.Join(t.folder, file), []byte(value), 0)
}

// join takes all threads of a process in.
func (t *throttle) join(pid int) error { return t.set("cgroup.procs", strconv.Itoa(pid)) }

// limit lets so many bytes and writes a second through.
func (t *throttle) limit(bytes, writes int) error {
	t.limited = true
	if t.v2 {
		return t.set("io.max", fmt.Sprintf("%s wbps=%d wiops=%d", t.device, bytes, writes))
	}
	return errors.Join(t.set("blkio.throttle.write_bps_device", fmt.Sprintf("%s %d", t.device, bytes)),
		t.set("blkio.throttle.write_iops_device", fmt.Sprintf("%s %d", t.device, writes)))
}

// free takes the limits away; what waits goes on.
func (t *throttle) free() error {
	if !t.limited {
		return nil
	}
	t.limited = false
	if t.v2 {
		return t.set("io.max", t.device+" wbps=max wiops=max")
	}
	return errors.Join(t.set("blkio.throttle.write_bps_device", t.device+" 0"),
		t.set("blkio.throttle.write_iops_device", t.device+" 0"))
}

// remove removes the group, whose processes have ended.
func (t *throttle) remove() error {
	err := t.free()
	for range 50 {
		if e := os.Remove(t.folder); e == nil || errors.Is(e, os.ErrNotExist) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return errors.Join(err, os.Remove(t.folder))
}
