package inspect_test

import (
	"os"
	"path/filepath"
	"testing"

	"ringmq/engine/inspect"
)

// What a kill leaves of a store of ringmq is whole, whenever it comes: what is not durable yet of queues and key files is unfinished.
func TestKilledStoreIsWhole(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	s := start(t, dir)
	p := newPutter(s)
	for i := range 400 {
		p.put(t, i)
		if i%80 != 79 {
			continue
		}
		killed := filepath.Join(t.TempDir(), "killed") // its abort file is there, and nobody has its lock
		if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		r := verify(t, killed)
		if !r.Whole || r.InUse || !r.Unclean || r.Records != int64(i+1) {
			t.Errorf("after %d messages: %+v", i+1, r)
		}
		for _, f := range r.Findings {
			if f.Severity != inspect.Unfinished {
				t.Errorf("after %d messages: %+v", i+1, f)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
