package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// broker is one process.
type broker struct {
	cmd       *exec.Cmd
	startTook time.Duration // until it announced itself
	startCPU  time.Duration // used until then
	stopWatch chan struct{}
	watching  sync.WaitGroup

	mu   sync.Mutex
	peak usage // guarded by mu
}

// usage is what a process has: MiB resident, open descriptors, mappings.
type usage struct{ rss, files, mappings int64 }

// start runs a broker on the store in folder until it says that it is there.
func start(folder string) (*broker, error) {
	if *cold {
		if err := dropCaches(); err != nil {
			return nil, err
		}
	}
	args := []string{"server"}
	for _, setting := range []string{
		"storePathRootDir=" + folder, fmt.Sprintf("listenPort=%d", *port), fmt.Sprintf("ringmq.namesrvListenPort=%d", *port+2),
		"ringmq.httpAddress=127.0.0.1:" + strconv.Itoa(*port+3), "diskSpaceWarningLevelRatio=99", "brokerName=scale", "bindAddress=127.0.0.1", *set,
	} {
		if setting != "" {
			args = append(args, "--set", setting)
		}
	}
	b := &broker{cmd: exec.Command(*binary, args...), stopWatch: make(chan struct{})}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	lines, err := os.OpenFile(filepath.Join(folder, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer lines.Close()
	b.cmd.Stderr = lines
	begun := time.Now()
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	b.watching.Go(b.watch)
	banner := bufio.NewScanner(out)
	for banner.Scan() {
		if strings.Contains(banner.Text(), "boot success") && strings.Contains(banner.Text(), "The broker[") {
			b.startTook = time.Since(begun)
			b.startCPU = b.cpu()
			log.Printf("start: %.2f s, %.2f CPU seconds", b.startTook.Seconds(), b.startCPU.Seconds())
			return b, nil
		}
	}
	b.end()
	return nil, errors.New("the broker did not start: see its log:\n" + tail(lines.Name()))
}

func tail(path string) string {
	text, _ := os.ReadFile(path)
	return string(text[max(0, len(text)-4096):])
}

// stop ends it as an operator does.
func (b *broker) stop() error {
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return b.wait()
}

// end kills it, if it still runs.
func (b *broker) end() {
	_ = b.cmd.Process.Kill() // it may have ended
	_ = b.wait()             // by a signal, or before
}

func (b *broker) wait() error {
	err := b.cmd.Wait()
	select {
	case <-b.stopWatch:
	default:
		close(b.stopWatch)
	}
	b.watching.Wait()
	return err
}

func (b *broker) watch() {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-b.stopWatch:
			return
		case <-ticker.C:
		}
		now := b.usage()
		b.mu.Lock()
		b.peak = usage{max(b.peak.rss, now.rss), max(b.peak.files, now.files), max(b.peak.mappings, now.mappings)}
		b.mu.Unlock()
	}
}

// most is the most it was seen to have.
func (b *broker) most() usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.peak
}

func (b *broker) usage() usage {
	proc := filepath.Join("/proc", strconv.Itoa(b.cmd.Process.Pid))
	var u usage
	status, _ := os.ReadFile(filepath.Join(proc, "status")) // a process that has ended has nothing
	for line := range strings.SplitSeq(string(status), "\n") {
		if text, found := strings.CutPrefix(line, "VmRSS:"); found {
			kib, _ := strconv.ParseInt(strings.Fields(text)[0], 10, 64)
			u.rss = kib >> 10
		}
	}
	files, _ := os.ReadDir(filepath.Join(proc, "fd"))
	maps, _ := os.ReadFile(filepath.Join(proc, "maps"))
	u.files, u.mappings = int64(len(files)), int64(strings.Count(string(maps), "\n"))
	return u
}

// cpu is what the process has used, in steps of 10 ms: on a machine that others use too, the clock on the wall tells little.
func (b *broker) cpu() time.Duration {
	stat, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(b.cmd.Process.Pid), "stat"))
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // the name before may hold anything
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}

func dropCaches() error {
	unix.Sync()
	return os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0)
}
