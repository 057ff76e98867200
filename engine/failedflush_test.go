package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"ringmq/engine"
	"ringmq/engine/segment"
	"ringmq/engine/segment/memstore"
)

// A flush fails and the process is started again, the machine is not. The page cache still shows what the device never took: it must not be
// read, served, or covered by a mark, or the next power cut would leave a hole below what was acknowledged later.
func TestRestartAfterAFailedFlushReadsTheDevice(t *testing.T) {
	for _, mapped := range []bool{false, true} {
		t.Run(fmt.Sprintf("mapped=%v", mapped), func(t *testing.T) {
			t.Parallel()
			disk := memstore.New()
			o := small(t.TempDir())
			o.SyncFlush, o.MappedAppend = true, mapped
			o.Storage = func(string) (segment.Storage, error) { return disk, nil }
			s := open(t, o)
			var kept []string
			for i := range 20 {
				kept = append(kept, fmt.Sprintf("kept %d", i))
				put(t, s, 0, kept[i])
			}
			disk.Inject(&memstore.Fault{Op: memstore.OpSync, Always: true, Err: errors.New("the device is broken")})
			for i := range 4 { // of several pages
				if r := try(t, s, text(testTopic, 0, strings.Repeat("lost ", 2000), "")); r.Status == engine.PutOK {
					t.Fatalf("put %d was acknowledged: %+v", i, r)
				}
			}
			if err := s.Close(); err == nil {
				t.Fatal("a stop after a failed flush is no clean one")
			}

			disk.Heal()
			s = open(t, o)
			settle(t, s)
			if got := bodies(records(t, s, testTopic, 0)); !slices.Equal(got, kept) {
				t.Fatalf("serves %d messages, want the %d that the device has", len(got), len(kept))
			}
			for i := range 20 {
				kept = append(kept, fmt.Sprintf("later %d", i))
				put(t, s, 0, kept[20+i])
			}
			disk = disk.CrashClone(rand.New(rand.NewPCG(1, 2)), 0)
			mustBe(t, s.Close(), nil)
			writeFile(t, o.Dir+"/abort", nil)

			s = open(t, o)
			if got := bodies(records(t, s, testTopic, 0)); !slices.Equal(got, kept) || len(s.Recovery().Damaged) > 0 {
				t.Errorf("after a power cut %d messages of %d are there, damaged %+v", len(got), len(kept), s.Recovery().Damaged)
			}
			audit(t, s)
		})
	}
}

// When the device tells at the start that writes were lost, the start is refused; the next one shows what the device has.
func TestStartIsRefusedWhenTheDeviceHasLostWrites(t *testing.T) {
	t.Parallel()
	disk := memstore.New()
	o := small(t.TempDir())
	o.Storage = func(string) (segment.Storage, error) { return disk, nil }
	s := open(t, o)
	put(t, s, 0, "kept")
	closeStore(t, s)
	writeFile(t, o.Dir+"/abort", nil)
	disk.Inject(&memstore.Fault{Op: memstore.OpSync, Nth: 1, Err: errors.New("the device is broken")})
	_, err := engine.Open(o)
	if err == nil || !strings.Contains(err.Error(), "the device may not have what was written behind") {
		t.Fatalf("open: %v", err)
	}
	s = open(t, o)
	if got := bodies(records(t, s, testTopic, 0)); !slices.Equal(got, []string{"kept"}) {
		t.Errorf("serves %q", got)
	}
	audit(t, s)
}

// A process is killed while it makes a segment ahead, before the folder is synced; the next one finds the segment and appends to it. A power
// cut must not take the name away, and with it what was acknowledged since.
func TestNameThatAKillLeftOutlivesAPowerCut(t *testing.T) {
	t.Parallel()
	disk := memstore.New()
	o := small(t.TempDir())
	o.SyncFlush = true
	o.Storage = func(string) (segment.Storage, error) { return disk, nil }
	hold, entered := make(chan struct{}), make(chan struct{})
	disk.Inject(&memstore.Fault{Op: memstore.OpCreate, Nth: 2, Hold: hold, Entered: entered})
	s := open(t, o)
	kept := []string{"first"}
	put(t, s, 0, kept[0])
	<-entered
	killed := disk.KillClone()
	mark, err := os.ReadFile(o.Dir + "/ringmq/mark")
	mustBe(t, err, nil)
	close(hold)
	closeStore(t, s)

	disk = killed
	writeFile(t, o.Dir+"/ringmq/mark", mark)
	writeFile(t, o.Dir+"/abort", nil)
	s = open(t, o)
	for i := range 100 { // beyond the first segment
		kept = append(kept, fmt.Sprint(i, strings.Repeat(".", 1000)))
		put(t, s, 0, kept[len(kept)-1])
	}
	disk = disk.CrashClone(rand.New(rand.NewPCG(1, 2)), 0)
	mustBe(t, s.Close(), nil)
	writeFile(t, o.Dir+"/abort", nil)
	s = open(t, o)
	if got := bodies(records(t, s, testTopic, 0)); !slices.Equal(got, kept) {
		t.Errorf("%d messages of %d are there", len(got), len(kept))
	}
	audit(t, s)
}
