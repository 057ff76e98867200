package engine

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// machineMemory is how many bytes the machine has, or as many as the cgroup of this process leaves to it. What cannot be found out is no
// limit.
func machineMemory() int64 {
	limit := cgroupMemory("/proc/self/cgroup", "/sys/fs/cgroup")
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		limit = min(limit, int64(info.Totalram)*int64(info.Unit))
	}
	return limit
}

// cgroupMemory is the lowest limit of memory on the way from the groups that the file self names up to the root of the hierarchy, which is
// mounted at root: of version 2 there, of version 1 in a folder of its own.
func cgroupMemory(self, root string) int64 {
	limit := int64(math.MaxInt64)
	text, err := os.ReadFile(self)
	if err != nil {
		return limit
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, path
		if len(fields) < 3 {
			continue
		}
		top, file := root, "memory.max"
		if fields[1] != "" {
			if !strings.Contains(","+fields[1]+",", ",memory,") {
				continue
			}
			top, file = filepath.Join(root, "memory"), "memory.limit_in_bytes"
		}
		for path := filepath.Join("/", fields[2]); ; path = filepath.Dir(path) {
			limit = min(limit, readLimit(filepath.Join(top, path, file)))
			if path == "/" {
				break
			}
		}
	}
	return limit
}

// readLimit reads a number of bytes; "max", and what is none, is no limit.
func readLimit(path string) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return math.MaxInt64
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n < 0 {
		return math.MaxInt64
	}
	return n
}
