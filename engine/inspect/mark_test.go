package inspect_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"ringmq/engine/checkpoint"
	"ringmq/engine/inspect"
	"ringmq/engine/message"
	"ringmq/engine/segment"
)

// A page is lost in a segment that is not the last one. Whether that is the end of the log or damage depends on the mark; what Verify says
// the next start does.
func TestVerifyBelievesMarksAsRecoveryDoes(t *testing.T) {
	t.Parallel()
	type stored struct {
		at message.Offset
		ms int64
	}
	const torn = 3 * 4096 // in the first segment
	for _, c := range []struct {
		name        string
		named       int // number of the record that the mark names, -1: none
		flushed     int // number of the record before which all is flushed; 0: the mark is gone
		rotten      bool
		java, atEnd bool // the log ends at the page that is lost
	}{
		{name: "no record", named: -1, flushed: 10, atEnd: true},
		{name: "no record, and the page is below", named: -1, flushed: 300},
		{name: "no record, and a Java broker has had the store", named: -1, flushed: 10, java: true},
		{name: "a record", named: 5, flushed: 10, atEnd: true},
		{name: "a record that has rotted", named: 5, flushed: 10, rotten: true, atEnd: true},
		{name: "gone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := written(t, 500)
			var list []stored
			err := open(t, dir).Records(context.Background(), inspect.Filter{}, func(r *message.Record) error {
				list = append(list, stored{r.Offset, r.StoreTime})
				return nil
			}, nil)
			if err != nil || list[300].at < segmentSize {
				t.Fatalf("BUG: %v, record 300 at %d", err, list[300].at)
			}
			path := filepath.Join(dir, "ringmq", "mark")
			mark := checkpoint.Mark{Flushed: list[c.flushed].at, Last: -1}
			if c.named >= 0 {
				mark.Last, mark.LastStoreTimeMS = list[c.named].at, list[c.named].ms
			}
			if c.flushed > 0 {
				err = mark.Save(path)
			} else {
				err = os.Remove(path)
			}
			if err != nil {
				t.Fatal(err)
			}
			first := filepath.Join(dir, "commitlog", segment.Name(0))
			patch(t, first, torn, make([]byte, 4096)...)
			if c.rotten {
				patch(t, first, int64(mark.Last)+150, 'X')
			}
			if c.java {
				patch(t, filepath.Join(dir, "lock"), 0, []byte("lock")...)
			}
			if err := os.WriteFile(filepath.Join(dir, "abort"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			r := verify(t, dir)
			s := start(t, dir)
			recovery := s.Recovery()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if int64(recovery.End) != r.End || (r.End <= torn) != c.atEnd {
				t.Errorf("the log ends at %d, and at %d as recovery sees it; at the page that is lost: want %v", r.End, recovery.End, c.atEnd)
			}
			damaged := 0
			for _, f := range r.Findings {
				if f.Kind == inspect.KindRecord && f.Severity == inspect.Damage {
					damaged++
				}
			}
			if damaged != recovery.DamagedCount {
				t.Errorf("findings %s\nrecovery %+v", fmt.Sprint(r.Findings), recovery)
			}
		})
	}
}
