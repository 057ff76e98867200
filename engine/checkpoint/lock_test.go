package checkpoint

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// holderEnv makes the test binary a holder of the lock file it names; the value begins with how: "posix:" or "acquire:".
const holderEnv = "RINGMQ_TEST_LOCK"

func TestMain(m *testing.M) {
	if how, path, ok := strings.Cut(os.Getenv(holderEnv), ":"); ok {
		holdLock(how, path)
	}
	os.Exit(m.Run())
}

// holdLock says "held" or the error on standard output and lives until standard input ends or somebody kills it.
func holdLock(how, path string) {
	var err error
	switch how {
	case "posix":
		err = posixLock(path)
	case "acquire":
		_, err = Acquire(path)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("held")
	os.Stdin.Read(make([]byte, 1))
	os.Exit(0)
}

// posixLock is what FileChannel.tryLock does. The descriptor is never closed: closing any one gives all POSIX locks up.
func posixLock(path string) error {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	return unix.FcntlFlock(uintptr(fd), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Len: 1})
}

// startHolder starts a process that takes the lock and returns what it said. The test's end ends it.
func startHolder(t *testing.T, how, path string) (*exec.Cmd, string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), holderEnv+"="+how+":"+path)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return cmd, strings.TrimSpace(line)
}

func wantLocked(t *testing.T, path string, texts ...string) {
	t.Helper()
	l, err := Acquire(path)
	if err == nil {
		l.Release()
	}
	if !errors.Is(err, ErrLocked) {
		t.Fatalf("got error %v, want %v", err, ErrLocked)
	}
	for _, s := range append(texts, filepath.Dir(path)) {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("error %q does not contain %q", err, s)
		}
	}
}

func TestLockExcludesInOneProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	for range 2 { // a released lock can be taken again
		l, err := Acquire(path)
		if err != nil {
			t.Fatal(err)
		}
		wantLocked(t, path)
		wantLocked(t, path) // a refused attempt does not give the held lock up
		if err := l.Release(); err != nil {
			t.Fatal(err)
		}
	}
	if l, err := Acquire(path); err != nil {
		t.Error(err)
	} else if l.Release(); l.Release() == nil {
		t.Error("second Release: no error")
	}
}

func TestLockTellsWhoWasLast(t *testing.T) {
	t.Parallel()
	for old, who := range map[string]string{"": "", "loc": "", "lock": "java", "lockmq": "java", "lock and more": "java", "ringmq": "own", "ringmq2": ""} {
		path := filepath.Join(t.TempDir(), "lock")
		if err := os.WriteFile(path, []byte(old), 0o644); err != nil {
			t.Fatal(err)
		}
		for claimed := range 2 {
			l, err := Acquire(path)
			if err != nil {
				t.Fatal(err)
			}
			if l.LastWasOwn() != (who == "own") || l.LastWasJava() != (who == "java") {
				t.Errorf("%q: own %v, java %v, want %q", old, l.LastWasOwn(), l.LastWasJava(), who)
			}
			if claimed == 0 { // whoever ends before Claim leaves it as it was
				l.Release()
				continue
			}
			if err := l.Claim(); err != nil {
				t.Fatal(err)
			}
			if b, err := os.ReadFile(path); err != nil || string(b) != "ringmq" {
				t.Errorf("over %q: lock file holds %q, %v", old, b, err)
			}
			l.Release()
		}
	}
	if _, err := Acquire(filepath.Join(t.TempDir(), "no", "lock")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing folder: got error %v, want %v", err, os.ErrNotExist)
	}
}

// TestLockAgainstJava: a Java broker holds a POSIX lock and is told by process id; and it is excluded by ours.
func TestLockAgainstJava(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	cmd, said := startHolder(t, "posix", path)
	if said != "held" {
		t.Fatal(said)
	}
	wantLocked(t, path, fmt.Sprintf("process %d", cmd.Process.Pid))

	path = filepath.Join(t.TempDir(), "lock")
	l, err := Acquire(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	if _, said := startHolder(t, "posix", path); said == "held" {
		t.Error("a POSIX lock was granted beside ours")
	}
}

// TestLockDiesWithItsHolder kills the holder: the lock must be free at once, without anything to clean up.
func TestLockDiesWithItsHolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	cmd, said := startHolder(t, "acquire", path)
	if said != "held" {
		t.Fatal(said)
	}
	wantLocked(t, path)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	l, err := Acquire(path)
	if err != nil {
		t.Fatal(err)
	}
	l.Release()
}
