package engine

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The lowest limit on the way up counts, of whichever version; what is missing, "max" or nonsense is none.
func TestCgroupMemory(t *testing.T) {
	t.Parallel()
	f := func(self string, files map[string]string, want int64) {
		t.Helper()
		root := t.TempDir()
		path := filepath.Join(root, "self")
		files["self"] = self
		for name, text := range files {
			name = filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := cgroupMemory(path, root); got != want {
			t.Errorf("%q: %d, want %d", self, got, want)
		}
	}
	f("", map[string]string{}, math.MaxInt64)
	f("nonsense\n0::\n", map[string]string{"memory.max": "max\n"}, math.MaxInt64)
	f("0::/a/b\n", map[string]string{"a/b/memory.max": "max\n", "a/memory.max": "300\n", "memory.max": "400\n"}, 300)
	f("0::/a/b\n", map[string]string{"a/b/memory.max": "200\n", "a/memory.max": "x\n"}, 200)
	f("0::/../../a\n", map[string]string{"a/memory.max": "100"}, 100)
	f("5:cpu:/c\n4:cpuacct,memory:/a\n0::/\n", map[string]string{"memory/a/memory.limit_in_bytes": "500\n", "memory/memory.limit_in_bytes": "9223372036854771712\n"}, 500)
	f("5:xmemory:/a\n", map[string]string{"memory/a/memory.limit_in_bytes": "500\n"}, math.MaxInt64)
	if got := cgroupMemory("/no/such/file", "/"); got != math.MaxInt64 {
		t.Error(got)
	}
	if got := machineMemory(); got < 1<<20 {
		t.Errorf("this machine has %d bytes", got)
	}
}

// The locking of a large pool is told by the eighth, that of a small one once, and a refusal once with what is locked so far.
func TestLockingIsTold(t *testing.T) {
	t.Parallel()
	f := func(size, refusedAt int64, want ...string) {
		t.Helper()
		var out bytes.Buffer
		s := &Store{options: Options{PoolSize: size, TransientPool: size > gib, Logger: slog.New(slog.NewTextHandler(&out, nil))}}
		for locked := int64(0); locked < size; {
			if locked += min(64*mib, size-locked); locked > refusedAt {
				s.poolLocked(refusedAt, errors.New("not permitted"))
				break
			}
			s.poolLocked(locked, nil)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != len(want) {
			t.Fatalf("pool of %d: %d lines, want %d:\n%s", size, len(lines), len(want), out.String())
		}
		for i := range want {
			if !strings.Contains(lines[i], want[i]) {
				t.Errorf("pool of %d: line %d is %s, want %s", size, i, lines[i], want[i])
			}
		}
	}
	f(32*mib, gib, "is locked\" bytes=33554432")
	f(2*gib, 3*gib, "locked=268435456 of=2147483648", "locked=536870912", "locked=805306368", "locked=1073741824", "locked=1342177280",
		"locked=1610612736", "locked=1879048192", "is locked\" bytes=2147483648")
	f(2*gib, 300*mib, "locked=268435456", "transientStorePoolSize x mappedFileSizeCommitLog\" bytes=2147483648 locked=314572800 error=\"not permitted")
	f(32*mib, 0, "setting=ringmq.poolSize bytes=33554432 locked=0")
}
