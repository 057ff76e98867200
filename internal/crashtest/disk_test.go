package crashtest_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"ringmq/internal/crashtest"
)

const (
	queueFile = "consumequeue/T/0/00000000000000000000"
	page      = 4096
)

// written is a file of a store that is open.
type written struct {
	t *testing.T
	f *os.File
}

func create(t *testing.T, d *crashtest.Disk, path string) written {
	t.Helper()
	full := filepath.Join(d.Dir, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(full)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return written{t, f}
}

func (w written) put(at int64, text string) {
	w.t.Helper()
	if _, err := w.f.WriteAt([]byte(text), at); err != nil {
		w.t.Fatal(err)
	}
}

func (w written) sync(d *crashtest.Disk) {
	w.t.Helper()
	if err := d.SyncFds([]int{int(w.f.Fd())}); err != nil {
		w.t.Fatal(err)
	}
}

// after is what a file holds after a power cut; "": it is not there.
func after(t *testing.T, d *crashtest.Disk, keepPercent int, path string) string {
	t.Helper()
	next, err := d.PowerCut(rand.New(rand.NewPCG(1, 2)), keepPercent, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(next.Dir, path))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(b)
}

func TestPowerCutKeepsWhatWasSynced(t *testing.T) {
	t.Parallel()
	d := crashtest.New(t.TempDir())
	queue, mark := create(t, d, queueFile), create(t, d, "ringmq/mark")
	mark.put(0, "mark")
	queue.put(0, "synced")
	queue.put(2*page-1, ".") // two pages
	if got := after(t, d, 0, queueFile); got != "" {
		t.Errorf("a file that was never synced is there: %d bytes", len(got))
	}
	queue.sync(d)
	queue.put(page, "cached")
	if got := after(t, d, 0, queueFile); len(got) != 2*page || got[:6] != "synced" || got[page] != 0 {
		t.Errorf("after a cut that keeps nothing there are %d bytes, %q and %q", len(got), got[:6], got[page:page+6])
	}
	if got := after(t, d, 100, queueFile); got[:6] != "synced" || got[page:page+6] != "cached" {
		t.Error("a cut that keeps all has lost something")
	}
	if got := after(t, d, 0, "ringmq/mark"); got != "mark" {
		t.Errorf("the mark is %q: it is replaced as a whole, and was", got)
	}
}

func TestKillKeepsTheCacheUntilThePowerGoes(t *testing.T) {
	t.Parallel()
	d := crashtest.New(t.TempDir())
	queue := create(t, d, queueFile)
	queue.put(0, "old")
	queue.sync(d)
	queue.put(0, "new")
	killed, err := d.Kill(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(killed.Dir, queueFile))
	if string(b) != "new" {
		t.Errorf("the next process finds %q, %v", b, err)
	}
	if got := after(t, killed, 0, queueFile); got != "old" {
		t.Errorf("after a power cut there is %q, it was never synced", got)
	}
}

func TestSyncHangsBeforeOrAfter(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		d := crashtest.New(t.TempDir())
		queue := create(t, d, queueFile)
		queue.put(0, "x")
		entered, release, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
		d.HoldSync(&crashtest.Hold{After: late, Entered: entered, Release: release})
		go func() {
			defer close(done)
			queue.sync(d)
		}()
		<-entered
		if got := after(t, d, 0, queueFile); (got == "x") != late {
			t.Errorf("after %v: %q is there", late, got)
		}
		close(release)
		<-done
		if got := after(t, d, 0, queueFile); got != "x" {
			t.Errorf("after %v: released, and %q is there", late, got)
		}
	}
}

func TestFailedSyncMakesNothingDurable(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	d := crashtest.New(t.TempDir())
	queue := create(t, d, queueFile)
	queue.put(0, "x")
	d.FailSync(broken)
	errs := make([]error, 1)
	if err := d.SyncFdsEach([]int{int(queue.f.Fd())}, errs); !errors.Is(err, broken) || !errors.Is(errs[0], broken) {
		t.Errorf("error %v, of the file %v", err, errs[0])
	}
	if got := after(t, d, 0, queueFile); got != "" {
		t.Errorf("%q is there", got)
	}
	d.Heal()
	queue.sync(d)
}

// What Open changed is on the device when it has returned; what it found and left alone need not be.
func TestOpened(t *testing.T) {
	t.Parallel()
	d := crashtest.New(t.TempDir())
	queue := create(t, d, queueFile)
	queue.put(2*page-1, ".")
	queue.sync(d)
	queue.put(0, "left by a kill")
	queue.put(page, "garbage")
	if err := d.Begin(); err != nil {
		t.Fatal(err)
	}
	queue.put(page, "\x00\x00\x00\x00\x00\x00\x00")
	if err := d.Opened(); err != nil {
		t.Fatal(err)
	}
	if got := after(t, d, 0, queueFile); got[0] != 0 || got[page] != 0 {
		t.Errorf("%q and %q are there", got[:14], got[page:page+7])
	}
	if got := after(t, d, 100, queueFile); got[:14] != "left by a kill" || got[page] != 0 {
		t.Errorf("%q and %q are there, kept", got[:14], got[page:page+7])
	}
}

func TestForeignFilesAreAMistake(t *testing.T) {
	t.Parallel()
	d := crashtest.New(t.TempDir())
	mark := create(t, d, "ringmq/mark")
	if err := d.SyncFds([]int{int(mark.f.Fd())}); err == nil {
		t.Error("the mark is synced through the disk, which does not follow it")
	}
}
