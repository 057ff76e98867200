//go:build failpoints

package failpoint

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestHitKills runs this test binary again with a place chosen and looks at how it ended.
func TestHitKills(t *testing.T) {
	if os.Getenv("RINGMQ_FAILPOINT") != "" {
		Hit(BeforeWrite)
		for range 2 {
			Hit(AfterCopy)
		}
		return
	}
	killed := func(place string, want bool) {
		t.Helper()
		c := exec.Command(os.Args[0], "-test.run=^TestHitKills$")
		c.Env = append(os.Environ(), "RINGMQ_FAILPOINT="+place)
		err := c.Run()
		var exit *exec.ExitError
		got := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
		if got != want {
			t.Errorf("%s: ended by %v, want killed %v", place, err, want)
		}
	}
	killed("afterCopy", true)
	killed("afterCopy:2", true)
	killed("afterCopy:3", false)
	killed("midRoll", false)
}

func TestParse(t *testing.T) {
	for _, bad := range []string{"afterCopy:0", "afterCopy:x", "afterCopy:1:go", "afterCopy:1:stop:1", "nowhere"} {
		if _, err := parse(bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("parse(%q): error %v, want one that names it", bad, err)
		}
	}
	p, err := parse("midCut:7:stop")
	if err != nil || p.name != MidCut || p.left.Load() != 7 || p.signal != syscall.SIGSTOP {
		t.Errorf("parse: %+v, %v", p, err)
	}
}
