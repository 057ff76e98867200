package segment_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"ringmq/engine/segment"
)

// A mapping beyond the end of its file faults as a bad sector does.
func TestCatchFault(t *testing.T) {
	d := newDir(t, segment.DirOptions{})
	b, err := d.Create(segment.Name(0), 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := os.Truncate(filepath.Join(d.Path(), segment.Name(0)), 4096); err != nil {
		t.Fatal(err)
	}
	read := func(at int) (value byte, err error) {
		defer segment.CatchFault(&err, "test", debug.SetPanicOnFault(true))
		return b.Bytes()[at], nil
	}
	if v, err := read(100); v != 0 || err != nil {
		t.Errorf("a good page: %d, %v", v, err)
	}
	if _, err := read(5000); !errors.Is(err, segment.ErrUnreadable) {
		t.Errorf("a page that cannot be read: %v", err)
	}
	if debug.SetPanicOnFault(false) {
		t.Error("faults stay panics behind it")
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = read(1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	func() {
		defer func() {
			if recover() != "other" {
				t.Error("another panic was caught")
			}
		}()
		var err error
		defer segment.CatchFault(&err, "test", debug.SetPanicOnFault(true))
		panic("other")
	}()
}
