package sim

import (
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"time"
)

// Trace is what happened in a run: lines of the driver, which the same seed gives again, and among them what the store logged.
type Trace struct {
	mu     sync.Mutex
	lines  []string
	driver []int // which of them are the driver's
}

// say adds a line.
func (m *machine) say(format string, args ...any) {
	m.trace.mu.Lock()
	defer m.trace.mu.Unlock()
	m.trace.driver = append(m.trace.driver, len(m.trace.lines))
	m.trace.lines = append(m.trace.lines, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// Write takes a line that the store logs.
func (t *Trace) Write(line []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, text, _ := strings.Cut(strings.TrimSpace(string(line)), " ") // without the time
	t.lines = append(t.lines, "             "+text)
	return len(line), nil
}

// Tail is the end of the trace.
func (t *Trace) Tail(lines int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines[max(len(t.lines)-lines, 0):], "\n")
}

// Sum tells two runs apart by what the driver said.
func (t *Trace) Sum() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := fnv.New64a()
	for _, i := range t.driver {
		fmt.Fprintln(h, t.lines[i])
	}
	return h.Sum64()
}
