package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"ringmq/engine/checkpoint"
)

// A start after a kill looks for what has to be cut only below the limit of the mark, unless something shows that the limit says nothing: a
// Java broker has had the store, or the first bytes behind it are not zero.
func TestOnlyWhatIsBelowTheLimitIsLookedAt(t *testing.T) {
	const segment = 4 << 20
	for _, c := range []struct {
		name    string
		lock    string
		garbage int64 // where a byte stands that is not zero
		cut     bool
	}{
		{"below the limit", "ringmq", 11 << 20, true},
		{"behind the limit, which nobody can have written", "ringmq", 18 << 20, false},
		{"right behind the limit", "ringmq", 16<<20 + 100, true},
		{"behind the limit, after a Java broker", "lockmq", 18 << 20, true},
		{"behind the limit, without a lock file's text", "", 18 << 20, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			o := small(dir)
			o.SegmentSize = segment
			s := open(t, o)
			put(t, s, 0, "kept")
			settle(t, s)
			kill(t, s, dir)
			mark, ok, err := checkpoint.LoadMark(filepath.Join(dir, "ringmq", "mark"))
			if !ok || err != nil || mark.Limit != 16<<20 {
				t.Fatalf("mark %+v, %v, %v", mark, ok, err)
			}
			for base := int64(segment); base < 24<<20; base += segment {
				b := make([]byte, segment)
				if at := c.garbage - base; at >= 0 && at < segment {
					b[at] = 1
				}
				writeFile(t, filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", base)), b)
			}
			if b, err := os.ReadFile(filepath.Join(dir, "lock")); err != nil || string(b) != "ringmq" {
				t.Errorf("lock file holds %q, %v", b, err)
			}
			writeFile(t, filepath.Join(dir, "lock"), []byte(c.lock))
			s = open(t, o)
			if got := s.Recovery().CutBytes > 0; got != c.cut {
				t.Errorf("cut %d bytes, want some: %v", s.Recovery().CutBytes, c.cut)
			}
			audit(t, s)
		})
	}
}
