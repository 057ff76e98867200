//go:build failpoints

package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// Enabled tells whether this binary was built with failpoints.
const Enabled = true

// point is the place chosen for this process, with the passes that are left.
type point struct {
	name   string
	left   atomic.Int64
	signal syscall.Signal
}

// chosen is read once, at the first pass of any place: the environment of a process does not change. A mistake in it
// ends the process, for a crash test that never strikes would look like one that passed.
var chosen = sync.OnceValue(func() *point {
	p, err := parse(os.Getenv("RINGMQ_FAILPOINT"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return p
})

// Hit kills or stops the process when name is the chosen place and this is the pass to strike at.
func Hit(name string) {
	p := chosen()
	if p == nil || p.name != name || p.left.Add(-1) != 0 {
		return
	}
	// Nothing runs after this: no deferred call, no flush of a log, just as when the machine kills the process.
	if err := syscall.Kill(os.Getpid(), p.signal); err != nil {
		panic(fmt.Sprintf("failpoint: %s: %v", name, err))
	}
	if p.signal == syscall.SIGKILL {
		select {} // the signal is on its way
	}
}

func parse(text string) (*point, error) {
	if text == "" {
		return nil, nil
	}
	parts := strings.Split(text, ":")
	p := &point{name: parts[0], signal: syscall.SIGKILL}
	count := int64(1)
	if len(parts) > 1 {
		n, err := strconv.ParseInt(parts[1], 10, 64)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("failpoint: RINGMQ_FAILPOINT=%q: count %q is not a number above 0", text, parts[1])
		}
		count = n
	}
	if len(parts) > 2 {
		if parts[2] != "stop" || len(parts) > 3 {
			return nil, fmt.Errorf("failpoint: RINGMQ_FAILPOINT=%q: want name, name:count or name:count:stop", text)
		}
		p.signal = syscall.SIGSTOP
	}
	if !known(p.name) {
		return nil, fmt.Errorf("failpoint: RINGMQ_FAILPOINT=%q: there is no place %q", text, p.name)
	}
	p.left.Store(count)
	return p, nil
}

func known(name string) bool {
	switch name {
	case BeforeStamp, AfterCopy, MidRoll, BeforeWrite, AfterWrite, BeforeSync, AfterSync, MidCut:
		return true
	}
	return false
}
