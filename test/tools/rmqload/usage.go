package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// usage is what had been used of the CPUs at a moment, in seconds.
type usage struct {
	server  float64 // by the processes of -pid
	self    float64
	machine float64 // by all
	at      float64
}

func usageNow(servers []int) usage {
	return usage{serverCPU(servers), selfCPU(), machineCPU(), float64(now()) / 1e9}
}

func (u usage) since(o usage) usage {
	return usage{u.server - o.server, u.self - o.self, u.machine - o.machine, u.at - o.at}
}

const ticksPerSecond = 100 // USER_HZ, which is fixed

func ticks(text string) float64 {
	v, _ := strconv.ParseFloat(text, 64)
	return v / ticksPerSecond
}

func serverCPU(servers []int) (seconds float64) {
	for _, pid := range servers {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has ended: what it used is not known any more
		}
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+2:]))
		seconds += ticks(f[11]) + ticks(f[12])
	}
	return seconds
}

// machineCPU is all but idle and iowait.
func machineCPU() (seconds float64) {
	b, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(b), "\n")
	for i, text := range strings.Fields(line)[1:9] {
		if i != 3 && i != 4 {
			seconds += ticks(text)
		}
	}
	return seconds
}

func selfCPU() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // with these arguments it cannot fail
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}

// memory is a line of /proc/PID/status, VmRSS or VmHWM, in KiB.
func memory(servers []int, line string) (kib int64) {
	for _, pid := range servers {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if _, rest, ok := bytes.Cut(b, []byte(line+":")); ok {
			kib += number(bytes.TrimLeft(rest, " \t"))
		}
	}
	return kib
}
