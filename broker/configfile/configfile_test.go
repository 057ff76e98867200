package configfile

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf16"
)

type table struct {
	Offsets map[string]map[int]int64 `json:"offsetTable"`
}

const (
	newer = "{\n\t\"offsetTable\":{\n\t\t\"T@G\":{0:7,1:8}\n\t}\n}"
	older = "{\n\t\"offsetTable\":{\n\t\t\"T@G\":{0:5}\n\t}\n}"
)

func inUTF16(s string) []byte {
	b := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(s)) {
		b = append(b, byte(u), byte(u>>8))
	}
	return b
}

// damages are the ways a file may be found after a power cut; nil bytes mean missing, a value of "dir" means a folder.
func damages() map[string][]byte {
	return map[string][]byte{
		"zeros":     make([]byte, len(newer)),
		"empty":     {},
		"half":      []byte(newer[:len(newer)/2]),
		"tail":      []byte(newer + older[len(older)-12:]),
		"encoding":  inUTF16(newer),
		"latin1":    []byte("{\"offsetTable\":{\"T\xe9@G\":{0:7}}}"),
		"missing":   nil,
		"folder":    []byte("dir"),
		"wrongType": []byte(`{"offsetTable":[1,2]}`),
		"null":      []byte("null\n"),
	}
}

func put(t *testing.T, path string, content []byte) {
	t.Helper()
	var err error
	switch {
	case content == nil:
		return
	case string(content) == "dir":
		err = os.MkdirAll(filepath.Join(path, "x"), 0o755)
	default:
		err = os.WriteFile(path, content, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// open loads path and returns the log's lines.
func open(t *testing.T, path string) (*File, table, []string) {
	t.Helper()
	var buf bytes.Buffer
	f := New(path, slog.New(slog.NewTextHandler(&buf, nil)))
	v, err := Load[table](f)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(buf.String()), "\n")
	if lines[0] == "" {
		lines = nil
	}
	return f, v, lines
}

func TestDamaged(t *testing.T) {
	t.Parallel()
	for name, content := range damages() {
		for backupName, backup := range map[string][]byte{"good": []byte(older), "alike": content, "no": nil} {
			dir := t.TempDir()
			path := filepath.Join(dir, "consumerOffset.json")
			put(t, path, content)
			put(t, path+".bak", backup)
			f, v, lines := open(t, path)
			what := name + " with " + backupName + " backup"
			wantOffset, wantLines := int64(0), 1
			if backupName == "good" {
				wantOffset = 5
			} else if content == nil && backup == nil {
				wantLines = 0
			}
			if got := v.Offsets["T@G"][0]; got != wantOffset || len(lines) != wantLines {
				t.Errorf("%s: offset %d, want %d; %d lines, want %d: %q", what, got, wantOffset, len(lines), wantLines, lines)
			}
			checkKept(t, what, dir, content, backup, backupName == "good")

			var changes atomic.Uint64
			changes.Add(1)
			if err := f.Save(&changes, func() any { return table{map[string]map[int]int64{"T@G": {0: 9}}} }); err != nil {
				t.Fatalf("%s: save: %v", what, err)
			}
			if _, v, lines := open(t, path); v.Offsets["T@G"][0] != 9 || lines != nil {
				t.Errorf("%s: after a save: %v, %q", what, v, lines)
			}
		}
	}
}

// checkKept looks whether what was damaged is still there, under its new name.
func checkKept(t *testing.T, what, dir string, content, backup []byte, backupGood bool) {
	t.Helper()
	want := 0
	if content != nil {
		want++
	}
	if backup != nil && !backupGood {
		want++
	}
	kept, _ := filepath.Glob(filepath.Join(dir, "*.bad-*"))
	if len(kept) != want {
		t.Errorf("%s: kept aside %q, want %d", what, kept, want)
	}
}

func TestGoodFileIsSilent(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.json")
	put(t, path, []byte(newer))
	put(t, path+".bak", []byte("rubbish"))
	_, v, lines := open(t, path)
	if v.Offsets["T@G"][1] != 8 || lines != nil {
		t.Fatalf("got %v, %q", v, lines)
	}
}

func TestSaveKeepsPrevious(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config", "x.json")
	f, _, _ := open(t, path)
	var changes atomic.Uint64
	for n := range 5 {
		changes.Add(1)
		if err := f.Save(&changes, func() any { return table{map[string]map[int]int64{"T@G": {0: int64(n)}}} }); err != nil {
			t.Fatal(err)
		}
		calls := 0
		if err := f.Save(&changes, func() any { calls++; return nil }); err != nil || calls != 0 {
			t.Fatalf("saved without a change: %d snapshots, %v", calls, err)
		}
		want := fmt.Sprintf("{\n\t\"offsetTable\": {\n\t\t\"T@G\": {\n\t\t\t\"0\": %d\n\t\t}\n\t}\n}", n)
		if got, _ := os.ReadFile(path); string(got) != want {
			t.Fatalf("file %s, want %s", got, want)
		}
		got, err := os.ReadFile(path + ".bak")
		if n == 0 {
			if err == nil {
				t.Fatalf("a backup of nothing: %s", got)
			}
			continue
		}
		if want := strings.Replace(want, fmt.Sprint(": ", n), fmt.Sprint(": ", n-1), 1); string(got) != want {
			t.Fatalf("backup %s, want %s", got, want)
		}
	}
	if left, _ := filepath.Glob(path + "*tmp"); len(left) > 0 {
		t.Fatalf("left behind: %q", left)
	}
}

// A crash may leave the two names of keepBackup at any step; the next save goes on from there.
func TestSaveAfterInterruptedBackup(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.json")
	put(t, path, []byte(newer))
	for _, name := range []string{path + ".bak", path + ".bak.tmp"} {
		if err := os.Link(path, name); err != nil {
			t.Skip("no hard links here:", err)
		}
	}
	put(t, path+".tmp", []byte("half a wri"))
	f, _, _ := open(t, path)
	var changes atomic.Uint64
	changes.Add(1)
	if err := f.Save(&changes, func() any { return table{} }); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path + ".bak"); string(got) != newer {
		t.Fatalf("backup %q", got)
	}
	if left, _ := filepath.Glob(path + "*tmp"); len(left) > 0 {
		t.Fatalf("left behind: %q", left)
	}
}

// A damaged version never becomes the backup: after a failed write the last good backup stays until a write has succeeded.
func TestFailedSaveKeepsBackup(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.json")
	put(t, path, []byte(newer))
	f, _, _ := open(t, path)
	if err := os.Mkdir(path+".tmp", 0o755); err != nil { // the new version cannot be written
		t.Fatal(err)
	}
	var changes atomic.Uint64
	changes.Add(1)
	for range 2 {
		if err := f.Save(&changes, func() any { return table{} }); err == nil {
			t.Fatal("saved over a folder")
		}
	}
	os.Remove(path + ".tmp")
	if got, _ := os.ReadFile(path); string(got) != newer {
		t.Fatalf("file %q", got)
	}
	if err := f.Save(&changes, func() any { return table{} }); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path + ".bak"); string(got) != newer {
		t.Fatalf("backup %q", got)
	}
}

func TestUnreadableFileIsAnError(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file", "x.json")
	put(t, filepath.Dir(path), []byte("not a folder"))
	if _, err := Load[table](New(path, nil)); err == nil || !strings.Contains(err.Error(), path) {
		t.Fatalf("got %v", err)
	}
}

func TestSaveBeforeLoad(t *testing.T) {
	t.Parallel()
	defer func() {
		if p := recover(); p == nil || !strings.HasPrefix(fmt.Sprint(p), "BUG:") {
			t.Fatalf("got %v", p)
		}
	}()
	var changes atomic.Uint64
	changes.Add(1)
	New(filepath.Join(t.TempDir(), "x.json"), nil).Save(&changes, func() any { return nil })
}
