package checkpoint_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"ringmq/engine/checkpoint"
)

func TestLookAtTellsWhoHasAndHadTheStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	expect := func(when string, want checkpoint.Holder) {
		t.Helper()
		if got, err := checkpoint.LookAt(path); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", when, got, err, want)
		}
	}
	expect("without a file", checkpoint.Holder{})
	l, err := checkpoint.Acquire(path)
	if err != nil {
		t.Fatal(err)
	}
	expect("held, not claimed", checkpoint.Holder{InUse: true})
	if err := l.Claim(); err != nil {
		t.Fatal(err)
	}
	expect("claimed", checkpoint.Holder{InUse: true, Last: "ringmq"})
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	expect("released", checkpoint.Holder{Last: "ringmq"})
	if err := os.WriteFile(path, []byte("lockmq"), 0o644); err != nil {
		t.Fatal(err)
	}
	expect("after a Java broker", checkpoint.Holder{Last: "java"})
	l, err = checkpoint.Acquire(path) // looking took no lock
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
}

// A named pipe in place of the lock is an error, and nobody waits at it.
func TestLookAtDoesNotWaitAtAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if err := unix.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if h, err := checkpoint.LookAt(path); err == nil && h.InUse {
		t.Errorf("%+v", h)
	}
}
