package commitlog

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringmq/engine/message"
	"ringmq/engine/segment"
	"ringmq/engine/segment/memstore"
)

// onDisk is a log of three segments with records of 1000 bytes, 16 in each full one, and the end at 41768.
func onDisk(t *testing.T) (dir string, storage segment.Storage) {
	t.Helper()
	dir = t.TempDir()
	mem, _ := filled(t, 3, 1000)
	for _, name := range []string{firstName, secondName, thirdName} {
		if err := os.WriteFile(filepath.Join(dir, name), mem.Live(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	storage, err := segment.NewDir(dir, segment.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return dir, storage
}

// What the device cannot read is damage below the mark; above it the torn end, unless a whole record stands behind: then nothing is cut.
func TestScanUnreadable(t *testing.T) {
	t.Parallel()
	const second, third, end = testSegment, 2 * testSegment, 2*testSegment + 9000
	one := [][2]int{{4096, 8192}}
	f := func(name string, mark message.Offset, pages map[string][][2]int, wantRecords int, wantEnd message.Offset, want ...Damage) {
		t.Helper()
		_, storage := onDisk(t)
		l := open(t, testOptions(&memstore.BadSectors{Storage: storage, Pages: pages}))
		records, got, to := scan(t, l, mark)
		if len(records) != wantRecords || to != wantEnd || len(got) != len(want) {
			t.Errorf("%s: %d records up to %d, damage %v, want %d up to %d, %v", name, len(records), to, got, wantRecords, wantEnd, want)
			return
		}
		for i, d := range got {
			if d.From != want[i].From || d.To != want[i].To || !strings.Contains(d.Reason, want[i].Reason) {
				t.Errorf("%s: damage %+v, want %+v", name, d, want[i])
			}
		}
	}
	f("a page", end, map[string][][2]int{firstName: one}, 36, end, Damage{4000, 9000, "cannot read byte 4096"})
	f("the first page", end, map[string][][2]int{secondName: {{0, 4096}}}, 36, end, Damage{second, second + 5000, "cannot read byte 16384"})
	f("two pages", end, map[string][][2]int{firstName: {{0, 4096}, {8192, 12288}}}, 41-5-5, end, Damage{0, 5000, "byte 0"}, Damage{8000, 13000, "byte 8192"})
	f("pages side by side", end, map[string][][2]int{firstName: {{4096, 12288}}}, 41-9, end, Damage{4000, 13000, "byte 4096"})
	f("a whole segment", end, map[string][][2]int{secondName: {{0, testSegment}}}, 25, end, Damage{second, third, "byte 16384"})
	f("the end record", end, map[string][][2]int{firstName: {{12288, testSegment}}}, 41-4, end, Damage{12000, second, "byte 12288"})
	f("the mark within", 6000, map[string][][2]int{thirdName: {{8192, 12288}}}, 40, third+8000)
	f("torn at the end, no mark", 0, map[string][][2]int{thirdName: {{8192, testSegment}}}, 40, third+8000)

	for _, mark := range []message.Offset{0, 4000} {
		_, storage := onDisk(t)
		l := open(t, testOptions(&memstore.BadSectors{Storage: storage, Pages: map[string][][2]int{firstName: one}}))
		_, err := l.Scan(0, mark, func(*message.Record) error { return nil }, nil)
		if !errors.Is(err, segment.ErrUnreadable) || !strings.Contains(err.Error(), firstName) || !strings.Contains(err.Error(), "behind it at 9000") {
			t.Errorf("mark %d, records behind: %v", mark, err)
		}
	}
	_, storage := onDisk(t)
	l := open(t, testOptions(&memstore.BadSectors{Storage: storage, Pages: map[string][][2]int{firstName: {{4096, testSegment}}}}))
	if _, err := l.Scan(0, 0, func(*message.Record) error { return nil }, nil); !errors.Is(err, segment.ErrUnreadable) || !strings.Contains(err.Error(), "behind it at 16384") {
		t.Errorf("records in the next segment: %v", err)
	}
}

// A tail that cannot be read is cut all the same: what can be read of it is kept, and what is written there later can be read.
func TestCutUnreadable(t *testing.T) {
	t.Parallel()
	dir, storage := onDisk(t)
	aside := t.TempDir()
	content := func(path string) []byte {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	second, third := content(filepath.Join(dir, secondName)), content(filepath.Join(dir, thirdName))
	l := open(t, testOptions(&memstore.BadSectors{Storage: storage, Pages: map[string][][2]int{thirdName: {{4096, 8192}}, secondName: {{8192, 12288}}}}))
	const end = testSegment + 1000
	saved, err := l.Cut(end, 0, aside)
	if err != nil || saved != 16008-1000+testSegment {
		t.Fatalf("saved %d, %v", saved, err)
	}
	clear(second[8192:12288])
	if tail := content(filepath.Join(aside, segment.Name(end))); !bytes.Equal(tail, second[1000:16008]) {
		t.Errorf("%d bytes of the tail were kept, not what can be read of it", len(tail))
	}
	if moved := content(filepath.Join(aside, thirdName)); !bytes.Equal(moved, third) {
		t.Error("the later segment was not kept whole")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, testOptions(storage))
	if records, damage, to := scan(t, l, end); len(records) != 17 || len(damage) != 0 || to != end {
		t.Errorf("afterwards %d records up to %d, damage %v", len(records), to, damage)
	}
	for _, b := range [][]byte{content(filepath.Join(dir, secondName))[1000:], content(filepath.Join(dir, firstName))[16008:]} {
		if len(bytes.Trim(b, "\x00")) > 0 {
			t.Error("what was cut was not erased")
		}
	}
}

// The block of the end is read when the log starts: an error, not the end of the process.
func TestStartUnreadable(t *testing.T) {
	t.Parallel()
	_, storage := onDisk(t)
	l := open(t, testOptions(&memstore.BadSectors{Storage: storage, Pages: map[string][][2]int{thirdName: {{8192, 12288}}}}))
	if err := l.Start(2*testSegment + 9000); !errors.Is(err, segment.ErrUnreadable) || !strings.Contains(err.Error(), thirdName) {
		t.Errorf("start: %v", err)
	}
}

// NextWhole finds what a plain search finds, whatever stands before and however the pages lie.
func TestNextWhole(t *testing.T) {
	t.Parallel()
	mem, _ := filled(t, 1, 1000)
	b := mem.Live(firstName)
	for from := range 3000 {
		want := (from + 999) / 1000 * 1000
		if got := NextWhole(b, 0, from, len(b)); got != want {
			t.Fatalf("from %d: %d, want %d", from, got, want)
		}
		if got := NextWhole(b, 0, from, 1500); got != min(want, 1500) {
			t.Fatalf("from %d, limit 1500: %d", from, got)
		}
		if got := NextWhole(b[1000:], 1000, from, len(b)-1000); got != want {
			t.Fatalf("from %d of a part: %d, want %d", from, got, want)
		}
	}
	for _, from := range []int{len(b) - 3, len(b), len(b) + 5} {
		if got := NextWhole(b, 0, from, len(b)); got != len(b) {
			t.Errorf("from %d: %d", from, got)
		}
	}
}
