package inspect_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ringmq/engine/inspect"
	"ringmq/engine/message"
	"ringmq/engine/seal"
)

// sealedStore is a store of ringmq whose full segments all have seals.
func sealedStore(t *testing.T) (dir string, full int) {
	t.Helper()
	dir = written(t, 500)
	full = int(verify(t, dir).End / segmentSize)
	seals := filepath.Join(dir, "ringmq", "seals")
	if err := os.MkdirAll(seals, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range full {
		base := message.Offset(i * segmentSize)
		b := read(t, filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", base)))
		m := seal.NewMaker(base, segmentSize)
		m.Block(b)
		var r message.Record
		for at := 0; ; at += int(r.Size) {
			if kind, _ := message.Check(b[at:], base+message.Offset(at), &r); kind != message.Whole {
				break
			}
			m.Record(&r)
		}
		s := m.Seal()
		if err := s.Save(seals); err != nil {
			t.Fatal(err)
		}
	}
	return dir, full
}

func TestSeals(t *testing.T) {
	t.Parallel()
	whole, full := sealedStore(t)
	if r := verify(t, whole); !r.Whole || r.Sealed != full || full < 2 || len(r.Findings) > 0 {
		t.Fatalf("%d segments, %+v", full, r)
	}
	log := filepath.Join("commitlog", "00000000000000000000")
	for name, c := range map[string]struct {
		change   func(t *testing.T, dir string)
		severity inspect.Severity
		text     string
	}{
		"a byte of properties": {func(t *testing.T, dir string) {
			i := strings.Index(string(read(t, filepath.Join(dir, log))), "UNIQ_KEY")
			patch(t, filepath.Join(dir, log), int64(i), 'V')
		}, inspect.Damage, "block 0, bytes 0 to 65536 of the log, is not as it was sealed"},
		"a byte behind the end record": {func(t *testing.T, dir string) { patch(t, filepath.Join(dir, log), segmentSize-1, 1) }, inspect.Damage, "block 0"},
		"a seal that is none": {func(t *testing.T, dir string) {
			patch(t, seal.Path(filepath.Join(dir, "ringmq", "seals"), segmentSize), 30, 1)
		}, inspect.Unfinished, "seals the segment again"},
		"a seal of no segment": {func(t *testing.T, dir string) {
			s := seal.NewMaker(100*segmentSize, segmentSize)
			s.Block(nil)
			made := s.Seal()
			if err := made.Save(filepath.Join(dir, "ringmq", "seals")); err != nil {
				t.Fatal(err)
			}
		}, inspect.Unfinished, "1 seal of no segment"},
		"a segment of another broker": {func(t *testing.T, dir string) {
			os.WriteFile(filepath.Join(dir, "lock"), []byte("lock"), 0o644)
			s := seal.NewMaker(0, segmentSize)
			s.Block(nil)
			made := s.Seal()
			if err := made.Save(filepath.Join(dir, "ringmq", "seals")); err != nil {
				t.Fatal(err)
			}
		}, inspect.Unfinished, "another broker has written the segment"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			c.change(t, dir)
			r := verify(t, dir)
			if r.Whole != (c.severity == inspect.Unfinished) {
				t.Errorf("whole is %v", r.Whole)
			}
			if !slices.ContainsFunc(r.Findings, func(f inspect.Finding) bool {
				return f.Kind == inspect.KindSeal && f.Severity == c.severity && strings.Contains(f.Text, c.text)
			}) {
				t.Errorf("%+v", r.Findings)
			}
		})
	}
}
