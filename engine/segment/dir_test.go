package segment_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ringmq/engine/segment"
)

func newDir(t testing.TB, o segment.DirOptions) *segment.Dir {
	t.Helper()
	d, err := segment.NewDir(filepath.Join(t.TempDir(), "store", "commitlog"), o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func create(t testing.TB, s segment.Storage, base, size int64) segment.Backing {
	t.Helper()
	b, err := s.Create(segment.Name(base), size)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func closeBacking(t testing.TB, b segment.Backing) {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// allocated is how many bytes of the device a file has.
func allocated(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}

func TestDirCreate(t *testing.T) {
	t.Parallel()
	const size = 1<<20 + 512
	var metrics segment.Metrics
	d := newDir(t, segment.DirOptions{Metrics: &metrics})
	b := create(t, d, 0, size)
	if len(b.Bytes()) != size || b.Fd() < 0 || !bytes.Equal(b.Bytes(), make([]byte, size)) {
		t.Errorf("%d bytes, fd %d", len(b.Bytes()), b.Fd())
	}
	path := filepath.Join(d.Path(), segment.Name(0))
	if got := allocated(t, path); got < size {
		t.Errorf("%d bytes allocated, want at least %d", got, size)
	}
	if _, err := d.Create(segment.Name(0), size); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("second Create: %v, want %v with the path", err, fs.ErrExist)
	}
	closeBacking(t, b)
	if got := metrics.Created.Load(); got != 1 {
		t.Errorf("created %d, want 1", got)
	}
}

func TestDirCreateThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	d := newDir(t, segment.DirOptions{})
	const size = 1 << 62 // larger than any file may be
	_, err := d.Create(segment.Name(0), size)
	if err == nil || !strings.Contains(err.Error(), "4611686018427387904") || !strings.Contains(err.Error(), d.Path()) {
		t.Errorf("error %v, want one with path and size", err)
	}
	infos, err := d.List()
	if err != nil || len(infos) != 0 {
		t.Errorf("left behind: %v, %v", infos, err)
	}
}

func TestDirWriteIsSeenByTheMappingAndTheFile(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	d := newDir(t, segment.DirOptions{})
	b := create(t, d, 0, size)
	defer closeBacking(t, b)
	var pieces [][]byte // more than one pwritev takes, some of them empty
	var want []byte
	for i := range 3000 {
		piece := bytes.Repeat([]byte{byte(i + 1)}, i%7)
		pieces = append(pieces, piece)
		want = append(want, piece...)
	}
	if err := b.WriteAt(pieces, 5000); err != nil {
		t.Fatal(err)
	}
	if err := b.WriteAt(nil, 0); err != nil {
		t.Error(err)
	}
	if err := b.Sync(); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(b.Bytes()[5000:5000+len(want)], want) {
		t.Error("the mapping does not have what was written")
	}
	onDisk, err := os.ReadFile(filepath.Join(d.Path(), segment.Name(0)))
	if err != nil || len(onDisk) != size || !bytes.Equal(onDisk, b.Bytes()) {
		t.Errorf("file of %d bytes differs from the mapping: %v", len(onDisk), err)
	}
}

func TestDirWritable(t *testing.T) {
	t.Parallel()
	d := newDir(t, segment.DirOptions{Writable: true})
	closeBacking(t, create(t, d, 0, 4096))
	b, err := d.Open(segment.Name(0), 4096)
	if err != nil {
		t.Fatal(err)
	}
	copy(b.Bytes()[10:], "stored")
	closeBacking(t, b)
	onDisk, _ := os.ReadFile(filepath.Join(d.Path(), segment.Name(0)))
	if string(onDisk[10:16]) != "stored" {
		t.Errorf("file has %q", onDisk[10:16])
	}
}

func TestDirSparse(t *testing.T) {
	t.Parallel()
	d := newDir(t, segment.DirOptions{Sparse: true})
	closeBacking(t, create(t, d, 0, 6_000_000))
	if got := allocated(t, filepath.Join(d.Path(), segment.Name(0))); got != 0 {
		t.Errorf("%d bytes allocated", got)
	}
	if _, err := segment.NewDir(t.TempDir(), segment.DirOptions{Sparse: true, Writable: true}); err == nil {
		t.Error("sparse and writable: no error")
	}
}

func TestDirOpenChecksSize(t *testing.T) {
	t.Parallel()
	d := newDir(t, segment.DirOptions{})
	closeBacking(t, create(t, d, 0, 4096))
	_, err := d.Open(segment.Name(0), 8192)
	if !errors.Is(err, segment.ErrSize) || !strings.Contains(err.Error(), segment.Name(0)+": wrong size: it has 4096 bytes, expected 8192") {
		t.Errorf("error %v", err)
	}
	if _, err := d.Open(segment.Name(1), 4096); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

func TestDirList(t *testing.T) {
	t.Parallel()
	d := newDir(t, segment.DirOptions{})
	closeBacking(t, create(t, d, 4096, 4096))
	closeBacking(t, create(t, d, 0, 4096))
	if err := os.WriteFile(filepath.Join(d.Path(), "stray"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(d.Path(), "00000000000000000001"), 0o700); err != nil {
		t.Fatal(err)
	}
	infos, err := d.List()
	if err != nil || len(infos) != 3 {
		t.Fatalf("%v, %v, want 3 files", infos, err)
	}
	for i, want := range []segment.Info{{Name: segment.Name(0), Size: 4096}, {Name: segment.Name(4096), Size: 4096}, {Name: "stray", Size: 1}} {
		if got := infos[i]; got.Name != want.Name || got.Size != want.Size || got.ModTime.IsZero() {
			t.Errorf("file %d is %v, want %v", i, got, want)
		}
	}
	if err := os.RemoveAll(d.Path()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.List(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing directory: %v", err)
	}
}

func TestDirResize(t *testing.T) {
	t.Parallel()
	d := newDir(t, segment.DirOptions{})
	b := create(t, d, 0, 8192)
	if err := b.WriteAt([][]byte{bytes.Repeat([]byte{7}, 8192)}, 0); err != nil {
		t.Fatal(err)
	}
	closeBacking(t, b)
	for _, size := range []int64{5000, 5000, 12288} {
		if err := d.Resize(segment.Name(0), size); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(d.Path(), segment.Name(0))
	got, _ := os.ReadFile(path)
	want := append(bytes.Repeat([]byte{7}, 5000), make([]byte, 7288)...)
	if !bytes.Equal(got, want) || allocated(t, path) < 12288 {
		t.Errorf("%d bytes, %d allocated", len(got), allocated(t, path))
	}
	if err := d.Resize("missing", 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

func TestDirRemoveAndMove(t *testing.T) {
	t.Parallel()
	d := newDir(t, segment.DirOptions{})
	for i := range int64(3) {
		closeBacking(t, create(t, d, i, 4096))
	}
	for range 2 { // the second time it is gone already
		if err := d.Remove(segment.Name(0)); err != nil {
			t.Error(err)
		}
	}
	to := filepath.Join(filepath.Dir(d.Path()), "ringmq", "cut", "1")
	if err := d.MoveTo(segment.Name(1), to); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(to); err != nil || info.Size() != 4096 {
		t.Errorf("moved file: %v, %v", info, err)
	}
	if err := d.MoveTo(segment.Name(2), to); !errors.Is(err, fs.ErrExist) {
		t.Errorf("move over a file: %v, want %v", err, fs.ErrExist)
	}
	if err := d.MoveTo("missing", to+"2"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if infos, _ := d.List(); len(infos) != 1 || infos[0].Name != segment.Name(2) {
		t.Errorf("left: %v", infos)
	}
}

func TestNewDirOnAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, filepath.Join(path, "below")} {
		if _, err := segment.NewDir(p, segment.DirOptions{}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("NewDir(%s): %v", p, err)
		}
	}
}

// TestDirSyncFailureIsFinal breaks the descriptor under the file: fdatasync of a pipe is EINVAL.
func TestDirSyncFailureIsFinal(t *testing.T) {
	d := newDir(t, segment.DirOptions{})
	b := create(t, d, 0, 4096)
	good, err := unix.Dup(b.Fd())
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(good)
	var pipe [2]int
	if err := unix.Pipe(pipe[:]); err != nil {
		t.Fatal(err)
	}
	if err := unix.Dup2(pipe[1], b.Fd()); err != nil {
		t.Fatal(err)
	}
	first := b.Sync()
	if !errors.Is(first, unix.EINVAL) {
		t.Errorf("Sync: %v, want %v", first, unix.EINVAL)
	}
	if err := unix.Dup2(good, b.Fd()); err != nil {
		t.Fatal(err)
	}
	unix.Close(pipe[0])
	unix.Close(pipe[1])
	if err := b.Sync(); err != first {
		t.Errorf("Sync after a failed one: %v, want the first error", err)
	}
	closeBacking(t, b)
}

// TestRemovedFileStaysMapped looks into the process's own table of mappings.
func TestRemovedFileStaysMapped(t *testing.T) {
	t.Parallel()
	d := newDir(t, segment.DirOptions{})
	b := create(t, d, 0, 8192)
	if err := b.WriteAt([][]byte{[]byte("kept")}, 100); err != nil {
		t.Fatal(err)
	}
	closeBacking(t, b)
	set := openSet(t, d, 8192)
	mapped := func() bool {
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Skip(err)
		}
		return strings.Contains(string(maps), d.Path())
	}
	v, ok := set.View(100, 4)
	if err := set.RemoveFirst(); err != nil || !ok {
		t.Fatal(err, ok)
	}
	if string(v.Bytes) != "kept" || !mapped() {
		t.Errorf("view of a removed file: %q, mapped %v", v.Bytes, mapped())
	}
	v.Release()
	if mapped() {
		t.Error("still mapped after the last release")
	}
}

func TestDirWriteAllocatesNothing(t *testing.T) {
	d := newDir(t, segment.DirOptions{})
	b := create(t, d, 0, 1<<16)
	f := segment.NewFile(0, b)
	pieces := [][]byte{make([]byte, 4096), make([]byte, 4096)}
	if got := testing.AllocsPerRun(100, func() {
		if err := f.WriteAt(pieces, 4096); err != nil {
			t.Fatal(err)
		}
	}); got != 0 {
		t.Errorf("WriteAt allocates %v times", got)
	}
	closeBacking(t, b)
}
