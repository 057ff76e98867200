package main

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func newTestDisk(t *testing.T, blocks int, seed uint64, d delays) (*disk, *os.File) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "medium"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := f.Truncate(int64(blocks) * blockSize); err != nil {
		t.Fatal(err)
	}
	disk, err := newDisk(f, seed, d)
	if err != nil {
		t.Fatal(err)
	}
	return disk, f
}

// TestAgainstModel writes at random places and sizes: reads see every write; after a cut each sector is the synced one or one written since.
func TestAgainstModel(t *testing.T) {
	const blocks = 16
	for seed := range uint64(200) {
		d, medium := newTestDisk(t, blocks, seed, delays{})
		rng := rand.New(rand.NewPCG(seed, 9))
		model := make([]byte, blocks*blockSize)
		allowed := map[int][][]byte{} // sector -> contents since the last sync
		allow := func(first, end int) {
			for s := first; s < end; s++ {
				allowed[s] = append(allowed[s], bytes.Clone(model[s*sectorSize:(s+1)*sectorSize]))
			}
		}
		forget := func() { clear(allowed); allow(0, blocks*8) }
		forget()
		for range 60 {
			switch rng.IntN(10) {
			case 0:
				if err := d.Sync(); err != nil {
					t.Fatal(err)
				}
				forget()
			case 1, 2:
				got := make([]byte, 3*blockSize)
				off := rng.IntN(len(model))
				n, err := d.ReadAt(got, int64(off))
				if want := model[off:min(off+len(got), len(model))]; err != nil || !bytes.Equal(got[:n], want) {
					t.Fatalf("seed %d: read at %d: %v", seed, off, err)
				}
			default:
				first := rng.IntN(blocks * 8)
				end := min(first+1+rng.IntN(20), blocks*8)
				p := bytes.Repeat([]byte{byte(rng.Uint32())}, (end-first)*sectorSize)
				if n, err := d.WriteAt(p, int64(first*sectorSize)); n != len(p) || err != nil {
					t.Fatal(n, err)
				}
				copy(model[first*sectorSize:], p)
				allow(first, end)
			}
		}
		if _, err := d.Cut(); err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(medium.Name())
		if err != nil {
			t.Fatal(err)
		}
		for s, versions := range allowed {
			got, ok := after[s*sectorSize:(s+1)*sectorSize], false
			for _, v := range versions {
				ok = ok || bytes.Equal(got, v)
			}
			if !ok {
				t.Fatalf("seed %d: sector %d holds what was never there since the last sync", seed, s)
			}
		}
	}
}

// TestCutShowsEveryFate: of many unsynced blocks some are kept, some lost, some torn; the first is never torn, synced ones stay.
func TestCutShowsEveryFate(t *testing.T) {
	const blocks = 300
	d, medium := newTestDisk(t, blocks, 7, delays{})
	synced, unsynced := bytes.Repeat([]byte{1}, blockSize), bytes.Repeat([]byte{2}, blockSize)
	for b := range int64(blocks) {
		if _, err := d.WriteAt(synced, b*blockSize); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	for b := range int64(blocks) / 2 {
		if _, err := d.WriteAt(unsynced, b*blockSize); err != nil {
			t.Fatal(err)
		}
	}
	f, err := d.Cut()
	if err != nil {
		t.Fatal(err)
	}
	if f.kept < 20 || f.lost < 20 || f.torn < 5 || f.kept+f.lost+f.torn != blocks/2 {
		t.Errorf("fates %v of %d blocks", f, blocks/2)
	}
	after, err := os.ReadFile(medium.Name())
	if err != nil {
		t.Fatal(err)
	}
	torn := 0
	for b := range blocks {
		block := after[b*blockSize : (b+1)*blockSize]
		isOld, isNew := bytes.Equal(block, synced), bytes.Equal(block, unsynced)
		switch {
		case b >= blocks/2 && !isOld:
			t.Errorf("block %d was synced and is gone", b)
		case b == 0 && !isOld && !isNew:
			t.Error("the first block is torn")
		case !isOld && !isNew:
			torn++
		}
	}
	if torn < 5 {
		t.Errorf("%d blocks hold both, want about %d", torn, f.torn)
	}
}

func TestNothingSucceedsAfterACut(t *testing.T) {
	d, _ := newTestDisk(t, 4, 1, delays{})
	if _, err := d.Cut(); err != nil {
		t.Fatal(err)
	}
	_, readErr := d.ReadAt(make([]byte, 10), 0)
	_, writeErr := d.WriteAt(make([]byte, 10), 0)
	for _, err := range []error{readErr, writeErr, d.Sync()} {
		if !errors.Is(err, errPowerOff) {
			t.Errorf("error %v, want %v", err, errPowerOff)
		}
	}
	if f, err := d.Cut(); err != nil || f != (fates{}) {
		t.Errorf("a second cut: %v, %v", f, err)
	}
}

func TestSyncTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := newTestDisk(t, 1024, 1, delays{sync: 10 * time.Millisecond, perMiB: time.Second})
		if _, err := d.WriteAt(make([]byte, 2<<20), 0); err != nil {
			t.Fatal(err)
		}
		if got := answer(d, "hang 8s"); got != "hang 8s" {
			t.Fatal(got)
		}
		for _, want := range []time.Duration{10*time.Second + 10*time.Millisecond, 10 * time.Millisecond} {
			begun := time.Now()
			if err := d.Sync(); err != nil || time.Since(begun) != want {
				t.Errorf("a sync took %v (%v), want %v", time.Since(begun), err, want)
			}
		}
	})
}

func TestCutEndsASyncThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := newTestDisk(t, 4, 1, delays{})
		d.Hang(time.Hour)
		done := make(chan error)
		go func() { done <- d.Sync() }()
		synctest.Wait()
		if _, err := d.Cut(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, errPowerOff) {
			t.Errorf("the sync returned %v", err)
		}
	})
}

func TestFullCacheWritesBack(t *testing.T) {
	d, _ := newTestDisk(t, cacheLimit+100, 1, delays{})
	block := make([]byte, 1<<20)
	for off := int64(0); off < d.size; off += int64(len(block)) {
		if _, err := d.WriteAt(block[:min(int64(len(block)), d.size-off)], off); err != nil {
			t.Fatal(err)
		}
	}
	if len(d.cache) != cacheLimit || d.Stats().early != 100 {
		t.Errorf("%d blocks in the cache, %v", len(d.cache), d.Stats())
	}
}

func TestBadInput(t *testing.T) {
	d, medium := newTestDisk(t, 4, 1, delays{})
	if _, err := d.WriteAt(make([]byte, blockSize), d.size-1); err == nil {
		t.Error("a write beyond the end was taken")
	}
	for order, want := range map[string]string{"": "order", "hang": "duration", "hang -1s": "duration", "off": "want cut, hang or stats"} {
		if got := answer(d, order); !strings.HasPrefix(got, "error: ") || !strings.Contains(got, want) {
			t.Errorf("order %q: %q", order, got)
		}
	}
	if err := medium.Truncate(blockSize + 1); err != nil {
		t.Fatal(err)
	}
	if _, err := newDisk(medium, 1, delays{}); err == nil {
		t.Error("an odd size was taken")
	}
}
