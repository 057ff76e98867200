package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFindThrottle(t *testing.T) {
	with, without := t.TempDir(), t.TempDir()
	for folder, controllers := range map[string]string{with: "cpu io memory\n", without: "cpu hugetlb pids\n"} {
		if err := os.WriteFile(filepath.Join(folder, "cgroup.controllers"), []byte(controllers), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	line := func(folder, kind, options string) string {
		return "cgroup " + folder + " " + kind + " " + options + " 0 0\n"
	}
	v1, other := line("/sys/fs/cgroup/blkio", "cgroup", "rw,relatime,blkio"), line("/sys/fs/cgroup/cpu", "cgroup", "rw,relatime,cpu")
	f := func(mounts []string, root string, v2 bool, want error) {
		t.Helper()
		got, isV2, err := findThrottle(strings.Join(mounts, ""))
		if got != root || isV2 != v2 || !errors.Is(err, want) {
			t.Errorf("%q, %v, %v; want %q, %v, %v", got, isV2, err, root, v2, want)
		}
	}
	f(nil, "", false, errNoThrottle)
	f([]string{"odd\n", other, line(without, "cgroup2", "rw")}, "", false, errNoThrottle)
	f([]string{other, v1, line(without, "cgroup2", "rw")}, "/sys/fs/cgroup/blkio", false, nil)
	f([]string{other, line(with, "cgroup2", "rw")}, with, true, nil)
}

func TestThrottleWrites(t *testing.T) {
	f := func(v2 bool, limited, free map[string]string) {
		t.Helper()
		group := &throttle{folder: t.TempDir(), v2: v2, device: "7:3"}
		for _, file := range []string{"io.max", "blkio.throttle.write_bps_device", "blkio.throttle.write_iops_device"} {
			if err := os.WriteFile(filepath.Join(group.folder, file), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		check := func(want map[string]string) {
			t.Helper()
			for file, text := range want {
				if got, err := os.ReadFile(filepath.Join(group.folder, file)); err != nil || string(got) != text {
					t.Errorf("%s holds %q (%v), want %q", file, got, err, text)
				}
			}
		}
		if err := group.limit(204800, 20); err != nil {
			t.Fatal(err)
		}
		check(limited)
		if err := group.free(); err != nil {
			t.Fatal(err)
		}
		check(free)
	}
	f(false, map[string]string{"blkio.throttle.write_bps_device": "7:3 204800", "blkio.throttle.write_iops_device": "7:3 20"},
		map[string]string{"blkio.throttle.write_bps_device": "7:3 0", "blkio.throttle.write_iops_device": "7:3 0"})
	f(true, map[string]string{"io.max": "7:3 wbps=204800 wiops=20"}, map[string]string{"io.max": "7:3 wbps=max wiops=max"})
}

func TestDeviceName(t *testing.T) {
	for dev, want := range map[uint64]string{0x703: "7:3", 0x10fd01: "253:257", 8 << 8: "8:0"} {
		if got := deviceName(dev); got != want {
			t.Errorf("%#x: %s, want %s", dev, got, want)
		}
	}
}
