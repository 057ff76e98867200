package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var errBroken = errors.New("broken")

func newContent(w io.Writer) error {
	_, err := io.WriteString(w, "new")
	return err
}

// recorder is the real file system with a memory of the calls; call number failAt (from 1) fails without being done.
type recorder struct {
	disk
	root   string
	calls  []string
	failAt int
}

func (r *recorder) step(format string, paths ...any) error {
	for i, p := range paths {
		rel, err := filepath.Rel(r.root, p.(string))
		if err != nil {
			return err
		}
		paths[i] = rel
	}
	r.calls = append(r.calls, fmt.Sprintf(format, paths...))
	if len(r.calls) == r.failAt {
		return errBroken
	}
	return nil
}

func (r *recorder) Create(path string) (file, error) {
	if err := r.step("create %s", path); err != nil {
		return nil, err
	}
	f, err := r.disk.Create(path)
	return &recordedFile{f, path, r}, err
}

func (r *recorder) Rename(from, to string) error {
	if err := r.step("rename %s %s", from, to); err != nil {
		return err
	}
	return r.disk.Rename(from, to)
}

func (r *recorder) Remove(path string) error {
	if err := r.step("remove %s", path); err != nil {
		return err
	}
	return r.disk.Remove(path)
}

func (r *recorder) Mkdir(path string) error {
	if err := r.step("mkdir %s", path); err != nil {
		return err
	}
	return r.disk.Mkdir(path)
}

func (r *recorder) SyncDir(path string) error {
	if err := r.step("syncdir %s", path); err != nil {
		return err
	}
	return r.disk.SyncDir(path)
}

type recordedFile struct {
	file
	path string
	r    *recorder
}

func (f *recordedFile) Write(p []byte) (int, error) {
	if err := f.r.step("write %s", f.path); err != nil {
		return 0, err
	}
	return f.file.Write(p)
}

func (f *recordedFile) Sync() error {
	if err := f.r.step("sync %s", f.path); err != nil {
		return err
	}
	return f.file.Sync()
}

func (f *recordedFile) Close() error {
	err := f.r.step("close %s", f.path)
	f.file.Close()
	return err
}

func wantCalls(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("calls:\n got %s\nwant %s", strings.Join(got, "; "), strings.Join(want, "; "))
	}
}

func TestWriteFileOrder(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	r := &recorder{root: root}
	if err := writeFile(r, filepath.Join(root, "f"), newContent); err != nil {
		t.Fatal(err)
	}
	wantCalls(t, r.calls, "create f.tmp", "write f.tmp", "sync f.tmp", "close f.tmp", "rename f.tmp f", "syncdir .")
}

// TestWriteFileFails breaks each step in turn: the caller hears of it, the old content stands until the rename, and no
// temporary file stays.
func TestWriteFileFails(t *testing.T) {
	t.Parallel()
	for step := 1; step <= 6; step++ {
		root := t.TempDir()
		path := filepath.Join(root, "f")
		if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
		r := &recorder{root: root, failAt: step}
		if err := writeFile(r, path, newContent); !errors.Is(err, errBroken) {
			t.Errorf("step %d (%s): got error %v, want %v", step, r.calls[step-1], err, errBroken)
		}
		want := "old"
		if step == 6 { // only the folder's sync is missing
			want = "new"
		}
		if got, _ := os.ReadFile(path); string(got) != want {
			t.Errorf("step %d: file holds %q, want %q", step, got, want)
		}
		if _, err := os.Stat(path + TempSuffix); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("step %d: temporary file is still there: %v", step, err)
		}
	}
}

func TestWriteFileOnDisk(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	// A longer temporary file left by a crash must not shine through.
	if err := os.WriteFile(path+TempSuffix, bytes.Repeat([]byte("x"), 100), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"first", "", "third"} {
		if err := WriteFile(path, []byte(want)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	missing := filepath.Join(t.TempDir(), "no", "f")
	if err := WriteFile(missing, nil); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("missing folder: got error %v, want one that names %s", err, missing)
	}
	folder := t.TempDir()
	if err := WriteFile(folder, []byte("x")); err == nil {
		t.Error("a folder was replaced by a file")
	}
}

func TestMkdirAllOrder(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	r := &recorder{root: root}
	if err := mkdirAll(r, filepath.Join(root, "a", "b")); err != nil {
		t.Fatal(err)
	}
	wantCalls(t, r.calls, "syncdir ..", "mkdir a", "syncdir .", "mkdir a/b", "syncdir a")

	r.calls = nil
	if err := mkdirAll(r, filepath.Join(root, "a", "b")); err != nil {
		t.Fatal(err)
	}
	wantCalls(t, r.calls, "syncdir a")

	for step := 1; step <= 5; step++ {
		r := &recorder{root: t.TempDir(), failAt: step}
		if err := mkdirAll(r, filepath.Join(r.root, "a", "b")); !errors.Is(err, errBroken) {
			t.Errorf("step %d: got error %v, want %v", step, err, errBroken)
		}
		if len(r.calls) != step {
			t.Errorf("step %d failed, yet it went on: %v", step, r.calls)
		}
	}
}

func TestMkdirAllOnDisk(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir := filepath.Join(root, "a", "b") + string(filepath.Separator)
	for range 2 {
		if err := MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		t.Errorf("folder was not made: %v", err)
	}
	if err := WriteFile(filepath.Join(root, "f"), nil); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"f", "f/g"} {
		if err := MkdirAll(filepath.Join(root, bad)); err == nil || !strings.Contains(err.Error(), filepath.Join(root, "f")) {
			t.Errorf("%s: got error %v, want one that names the file in the way", bad, err)
		}
	}
	for _, top := range []string{"/", "."} {
		if err := MkdirAll(top); err != nil {
			t.Errorf("%s: %v", top, err)
		}
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	path := filepath.Join(root, "f")
	if err := WriteFile(path, nil); err != nil {
		t.Fatal(err)
	}
	r := &recorder{root: root}
	for range 2 { // the second finds nothing and is no error
		if err := remove(r, path); err != nil {
			t.Fatal(err)
		}
	}
	wantCalls(t, r.calls, "remove f", "syncdir .", "remove f", "syncdir .")
	for step := 1; step <= 2; step++ {
		r := &recorder{root: root, failAt: step}
		if err := remove(r, path); !errors.Is(err, errBroken) {
			t.Errorf("step %d: got error %v, want %v", step, err, errBroken)
		}
	}
	if err := Remove(path); err != nil {
		t.Error(err)
	}
	if err := Remove(filepath.Join(root, "no", "f")); err == nil {
		t.Error("a missing folder cannot be synced, yet no error")
	}
	if err := SyncDir(filepath.Join(root, "no")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got error %v, want %v", err, os.ErrNotExist)
	}
}

func BenchmarkWriteFile(b *testing.B) {
	path := filepath.Join(b.TempDir(), "f")
	data := make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if err := WriteFile(path, data); err != nil {
			b.Fatal(err)
		}
	}
}
