package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const segmentSize = 1 << 20

// broker is a child process on the store below dir.
type broker struct {
	binary   string
	dir      string
	port     int
	http     int      // of the metrics; 0: off
	settings []string // key=value, besides those of all rounds
	cmd      *exec.Cmd
	out      *output
	ended    chan struct{}
}

type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func (b *broker) store() string { return filepath.Join(b.dir, "store") }

// begin starts the process; failpoint names a place where it shall kill itself, "" none.
func (b *broker) begin(failpoint string) error {
	port, err := freePort(b.http)
	if err != nil {
		return err
	}
	names, err := freePort(port, b.http)
	if err != nil {
		return err
	}
	b.port = port
	b.out = &output{}
	b.cmd = exec.Command(b.binary, "server", "--set", "storePathRootDir="+b.store(), "--set", "brokerName=crash",
		"--set", "listenPort="+strconv.Itoa(port), "--set", "ringmq.namesrvListenPort="+strconv.Itoa(names),
		"--set", "ringmq.httpAddress="+b.httpAddress(), "--set", "mappedFileSizeCommitLog="+strconv.Itoa(segmentSize), "--set", "mappedFileSizeConsumeQueue=20000",
		"--set", "diskSpaceWarningLevelRatio=99")
	for _, s := range b.settings {
		b.cmd.Args = append(b.cmd.Args, "--set", s)
	}
	b.cmd.Stdout, b.cmd.Stderr = b.out, b.out
	b.cmd.Env = append(os.Environ(), "RINGMQ_FAILPOINT="+failpoint)
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := b.cmd.Start(); err != nil {
		return err
	}
	b.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		_ = cmd.Wait()
		close(ended)
	}(b.cmd, b.ended)
	return nil
}

func (b *broker) httpAddress() string {
	if b.http == 0 {
		return "off"
	}
	return "127.0.0.1:" + strconv.Itoa(b.http)
}

// ready waits until it serves; false when it has ended before.
func (b *broker) ready() (bool, error) {
	deadline := time.After(60 * time.Second)
	for {
		if bytes.Contains([]byte(b.out.String()), []byte("boot success. serializeType=JSON")) {
			return true, nil
		}
		select {
		case <-b.ended:
			return false, nil
		case <-deadline:
			return false, fmt.Errorf("not up after 60 s:\n%s", b.out)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// start starts it and insists that it comes up.
func (b *broker) start() error {
	if err := b.begin(""); err != nil {
		return err
	}
	up, err := b.ready()
	if err == nil && !up {
		err = fmt.Errorf("the broker ended while starting:\n%s", b.out)
	}
	return err
}

// gone tells that the process has ended.
func (b *broker) gone() bool {
	select {
	case <-b.ended:
		return true
	default:
		return false
	}
}

func (b *broker) kill() {
	_ = b.cmd.Process.Kill()
	<-b.ended
}

// stop ends it by SIGTERM; it has to be quick and clean.
func (b *broker) stop() error {
	_ = b.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-b.ended:
	case <-time.After(30 * time.Second):
		b.kill()
		return fmt.Errorf("still there 30 s after SIGTERM:\n%s", b.out)
	}
	if code := b.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("exit code %d after SIGTERM:\n%s", code, b.out)
	}
	return nil
}

// freePort finds a port that is free together with the fast port two below it, and is none of those, nor in their way.
func freePort(taken ...int) (int, error) {
	for range 100 {
		port, ok, err := tryPort()
		if err != nil {
			return 0, err
		}
		near := func(t int) bool { return t-2 <= port && port <= t+2 }
		if ok && !slices.ContainsFunc(taken, near) {
			return port, nil
		}
	}
	return 0, errors.New("no two free ports in 100 tries")
}

// tryPort names a free port, and tells whether the fast port is free, too.
func tryPort() (port int, ok bool, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, false, err
	}
	defer l.Close()
	port = l.Addr().(*net.TCPAddr).Port
	fast, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port-2))
	if err != nil {
		return 0, false, nil
	}
	return port, true, fast.Close()
}
