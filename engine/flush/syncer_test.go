package flush

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ringmq/engine/segment"
	"ringmq/engine/segment/memstore"
)

// batcher is a ring that does what it is told.
type batcher struct {
	calls [][]int
	err   error
}

func (b *batcher) SyncFds(fds []int) error {
	b.calls = append(b.calls, slices.Clone(fds))
	return b.err
}

func files(t *testing.T, storage segment.Storage, n int) []*segment.File {
	t.Helper()
	set, err := segment.OpenSet(segment.SetOptions{Size: 4096, Storage: storage})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	for i := range n {
		base := int64(i) * 4096
		b, err := storage.Create(segment.Name(base), 4096)
		if err != nil {
			t.Fatal(err)
		}
		set.Add(segment.NewFile(base, b))
	}
	return set.Files()
}

func TestRing(t *testing.T) {
	t.Parallel()
	storage, err := segment.NewDir(t.TempDir(), segment.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	list := files(t, storage, 3)
	b := new(batcher)
	ring := NewRing(b)
	for _, f := range list {
		f.MarkDirty()
	}
	if err := ring.Sync(list[:1]); err != nil || len(b.calls) != 0 || list[0].Dirty() {
		t.Errorf("one file: %v, ring called %v", err, b.calls)
	}
	want := []int{list[0].Fd(), list[1].Fd(), list[2].Fd()}
	if err := ring.Sync(list); err != nil || len(b.calls) != 1 || !slices.Equal(b.calls[0], want) || list[2].Dirty() {
		t.Errorf("three files: %v, ring called %v, want %v", err, b.calls, want)
	}
	// A failure sticks to all of them, whichever it was.
	b.err = syscall.EIO
	if err := ring.Sync(list[:2]); !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), list[0].Name()) {
		t.Errorf("failing: %v", err)
	}
	b.err = nil
	for i, f := range list {
		if err := f.Sync(); errors.Is(err, syscall.EIO) != (i < 2) {
			t.Errorf("file %d afterwards: %v", i, err)
		}
	}
	if err := ring.Sync(list[1:]); !errors.Is(err, syscall.EIO) || len(b.calls) != 2 {
		t.Errorf("once more: %v, ring called %d times", err, len(b.calls))
	}
}

func TestSyncersWithoutDescriptors(t *testing.T) {
	t.Parallel()
	storage := memstore.New()
	list := files(t, storage, 2)
	b := new(batcher)
	if err := NewRing(b).Sync(list); err != nil || len(b.calls) != 0 || storage.Count(memstore.OpSync) != 2 {
		t.Errorf("%v, ring called %v", err, b.calls)
	}
	storage.Inject(&memstore.Fault{Op: memstore.OpSync, Name: list[0].Name(), Err: syscall.EIO})
	if err := (Plain{}).Sync(list); !errors.Is(err, syscall.EIO) || storage.Count(memstore.OpSync) != 3 {
		t.Errorf("%v, %d syncs", err, storage.Count(memstore.OpSync))
	}
}
