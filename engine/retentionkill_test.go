package engine_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"ringmq/engine"
	"ringmq/engine/message"
)

const (
	childDir   = "RINGMQ_TEST_RETENTION_DIR"
	killQueues = 3
)

// TestRetentionChild is the process that TestKilledWhileSegmentsGo kills: it puts messages and removes every segment but the last, as fast as it can.
func TestRetentionChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		t.Skip("run by TestKilledWhileSegmentsGo")
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1) // nobody is there to kill it any more
	}()
	o := small(dir)
	o.DiskUsage = func(string) (float64, error) { return 0.87, nil }
	o.Retention = func() engine.RetentionSettings {
		return engine.RetentionSettings{DeleteWhen: "0", IntervalMS: 10, BatchMax: 3, MaxUsed: 0.5, CleanForcibly: 0.8, ForciblyEnable: true}
	}
	s := open(t, o)
	s.DeleteExpired() // the first round comes at once
	var load sync.WaitGroup
	for queue := range int32(killQueues) {
		load.Go(func() {
			for i := 0; ; i++ {
				r := put(t, s, queue, strings.Repeat("x", 100+i%2000))
				if i%100 == 0 {
					fmt.Printf("\nput %d %d %d\n", queue, r.QueueOffset, s.Positions().Min)
				}
			}
		})
	}
	load.Wait()
}

// A kill -9 in the middle of removals loses nothing but what was removed, and no queue its numbering; one after the other on the same store.
func TestKilledWhileSegmentsGo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts processes")
	}
	o := small(t.TempDir())
	var put [killQueues]message.QueueOffset
	removed := int64(0)
	for round := range 4 {
		low := runAndKill(t, o.Dir, time.Duration(100+round*37)*time.Millisecond, removed, &put)
		if low <= removed {
			t.Fatalf("round %d: nothing was removed, the log begins at %d", round, low)
		}
		s := open(t, o)
		removed = int64(s.Positions().Min)
		if removed < low {
			t.Errorf("round %d: the log begins at %d, it had begun at %d", round, removed, low)
		}
		for queue := range int32(killQueues) {
			q := s.Queue([]byte(testTopic), queue)
			if q == nil || q.Max() <= put[queue] {
				t.Fatalf("round %d: queue %d ends before number %d, which was acknowledged", round, queue, put[queue])
			}
			if got, want := q.Min(), firstReadable(s, q); got != want {
				t.Errorf("round %d: min of queue %d is %d, the first readable message %d", round, queue, got, want)
			}
		}
		if r := s.Recovery(); r.FirstOpening || len(r.Damaged) > 0 {
			t.Errorf("round %d: recovery %+v", round, r)
		}
		audit(t, s)
		closeStore(t, s)
	}
}

// runAndKill kills the child some time after it has told that the log begins behind removed. It returns where the log began when the child last
// told, and notes what was acknowledged.
func runAndKill(t *testing.T, dir string, after time.Duration, removed int64, put *[killQueues]message.QueueOffset) (low int64) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestRetentionChild$")
	child.Env = append(os.Environ(), childDir+"="+dir)
	in, err := child.StdinPipe() // open as long as this process lives
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	kill := func() { _ = child.Process.Kill() } // also when it is gone already
	defer time.AfterFunc(patience, kill).Stop()
	begun := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var queue, number, at int64
		if n, _ := fmt.Sscanf(lines.Text(), "put %d %d %d", &queue, &number, &at); n != 3 {
			continue
		}
		(*put)[queue], low = message.QueueOffset(number), max(low, at)
		if low > removed && !begun {
			begun = true
			defer time.AfterFunc(after, kill).Stop()
		}
	}
	_ = child.Wait() // killed
	return low
}
