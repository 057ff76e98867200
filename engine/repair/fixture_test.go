package repair_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ringmq/engine"
	"ringmq/engine/consumequeue"
	"ringmq/engine/inspect"
	"ringmq/engine/repair"
	"ringmq/internal/fixture"
)

// Every damaged store is whole after its repair, has every message that the broker recovered from it, or more, and is opened as one that
// was stopped cleanly.
func TestDamagedStoresOfRealBrokers(t *testing.T) {
	for _, c := range append(fixture.WholeStores(), fixture.TornStores(t)...) {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			name := filepath.Base(c.Name)
			dir, want := fixture.Store(t, c.Version, c.Name), fixture.Expected(t, c.Version, c.Name)
			undamaged := want
			if strings.HasPrefix(c.Name, "torn/") {
				undamaged = fixture.Expected(t, c.Version, "killed")
			}
			switch name {
			case "cq_first_file_missing", // Apache does not build entries again whose file is gone
				"segment_empty_file", "segment_wrong_size": // Apache refuses the store
				want = undamaged
			}
			o := repair.Options{Dir: dir, QueueFileSize: number(t, undamaged.Config["mappedFileSizeConsumeQueue"]), IndexSlots: 5000, IndexEntries: 20000}
			before := treeOf(t, dir)
			looked := look(t, o)
			if after := treeOf(t, dir); after != before {
				t.Fatalf("a look has changed the store:\n%s\nwas\n%s", after, before)
			}
			out, err := repair.Do(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := fmt.Sprint(texts(out.Plan)), fmt.Sprint(texts(looked)); got != want {
				t.Errorf("done was %s, looked at %s", got, want)
			}
			checkDone(t, out)
			if !out.After.Whole || len(out.After.Findings) > 0 {
				t.Errorf("after the repair: %+v", out.After.Findings)
			}
			compareMessages(t, dir, want)
			if again := look(t, o); len(again.Actions) > 0 || len(again.Lasting) > 0 {
				t.Errorf("a second repair would do %v", texts(again))
			}
			checkOpens(t, dir, o, undamaged)
		})
	}
}

func number(t testing.TB, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func look(t testing.TB, o repair.Options) *repair.Plan {
	t.Helper()
	p, err := repair.Look(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func texts(p *repair.Plan) (list []string) {
	for _, a := range p.Actions {
		list = append(list, fmt.Sprintf("%s %s %d: %s\n", a.Verb, a.Path, a.Count, a.Text))
	}
	return list
}

// checkDone compares what was done with what was said.
func checkDone(t *testing.T, out *repair.Outcome) {
	t.Helper()
	cut, dropped := int64(0), int64(0)
	for _, a := range out.Plan.Actions {
		switch a.Verb {
		case repair.Cut:
			cut += a.Count
		case repair.Drop:
			dropped += a.Count
		}
	}
	if out.CutBytes < cut || cut == 0 && out.CutBytes != 0 || int64(out.Dropped) != dropped {
		t.Errorf("%d bytes were cut and %d entries dropped, said were %d and %d: %v", out.CutBytes, out.Dropped, cut, dropped, texts(out.Plan))
	}
}

// compareMessages reads every message that the broker served.
func compareMessages(t *testing.T, dir string, want *fixture.Expectation) {
	t.Helper()
	own := map[int64]bool{} // written by the broker after it had recovered
	for _, r := range want.AppendedAfterStart.Records {
		own[r.CommitLogOffset] = true
	}
	s, err := inspect.Open(inspect.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	type place struct {
		id     consumequeue.ID
		number int64
	}
	entries := map[place]consumequeue.Entry{}
	if err := s.Entries(context.Background(), inspect.Filter{}, func(e inspect.QueueEntry) error {
		entries[place{e.ID, e.Number}] = e.Entry
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	size := s.Sizes().Segment
	for _, m := range append(want.Messages, want.NotServed.Records...) {
		if own[m.CommitLogOffset] {
			continue
		}
		e, ok := entries[place{consumequeue.ID{Topic: m.Topic, QueueID: m.QueueID}, m.QueueOffset}]
		if !ok || int64(e.Offset) != m.CommitLogOffset || e.Size != m.StoreSize {
			t.Errorf("%s/%d number %d is %+v, want %d bytes at %d", m.Topic, m.QueueID, m.QueueOffset, e, m.StoreSize, m.CommitLogOffset)
			continue
		}
		base := int64(e.Offset) / size * size
		if sum := hashAt(t, filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", base)), int64(e.Offset)-base, int(e.Size)); !strings.HasPrefix(sum, m.RecordSHA256) {
			t.Errorf("%s/%d number %d has other bytes", m.Topic, m.QueueID, m.QueueOffset)
		}
	}
}

func hashAt(t *testing.T, path string, at int64, size int) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, size)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// checkOpens opens the store as its broker would: there is nothing to recover.
func checkOpens(t *testing.T, dir string, o repair.Options, made *fixture.Expectation) {
	t.Helper()
	s, err := engine.Open(engine.Options{
		Dir: dir, SegmentSize: number(t, made.Config["mappedFileSizeCommitLog"]), QueueFileSize: o.QueueFileSize, MaxMessageSize: 600 << 10,
		IndexSlots: int64(o.IndexSlots), IndexEntries: int64(o.IndexEntries), PoolSize: 2 << 20, UnlockedPool: true, AllowPending: true, DiskWarningRatio: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	r := s.Recovery()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if !r.Clean || r.CutBytes > 0 || r.Dropped > 0 || len(r.Damaged) > 0 {
		t.Errorf("it is opened with recovery %+v", r)
	}
}
