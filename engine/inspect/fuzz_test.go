package inspect_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"ringmq/engine/index"
	"ringmq/engine/inspect"
	"ringmq/engine/message"
)

// FuzzStore takes any bytes for the files of a store: nothing panics, and what is told of them holds together.
func FuzzStore(f *testing.F) {
	dir := written(f, 20)
	segment := read(f, filepath.Join(dir, "commitlog", "00000000000000000000"))[:8<<10]
	queue := read(f, filepath.Join(dir, "consumequeue", "Topic0", "0", "00000000000000000000"))[:400]
	checkpoint, mark := read(f, filepath.Join(dir, "checkpoint")), read(f, filepath.Join(dir, "ringmq", "mark"))
	names, err := filepath.Glob(filepath.Join(dir, "index", "*"))
	if err != nil || len(names) != 1 {
		f.Fatalf("%d key files, %v", len(names), err)
	}
	keys, indexed := read(f, names[0])[:40+1000+20*81], read(f, filepath.Join(dir, "ringmq", "indexed"))
	f.Add(segment, queue, checkpoint, mark, keys, indexed)
	f.Add(segment, queue, checkpoint, mark, keys, []byte{})
	f.Add(segment[:300], queue[:50], []byte{}, []byte("RMQMARK"), keys[:39], []byte("RMQINDX"))
	f.Add([]byte{}, []byte{}, []byte{}, []byte{}, []byte{}, []byte{})
	f.Fuzz(func(t *testing.T, segment, queue, checkpoint, mark, keys, indexed []byte) {
		dir := t.TempDir()
		for path, content := range map[string][]byte{
			filepath.Join("commitlog", "00000000000000000000"):                   segment,
			filepath.Join("consumequeue", "Topic0", "0", "00000000000000000000"): queue,
			"checkpoint": checkpoint, filepath.Join("ringmq", "mark"): mark, filepath.Join("ringmq", "indexed"): indexed,
			filepath.Join("index", "20261129171714615"): keys,
		} {
			path = filepath.Join(dir, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Truncate(filepath.Join(dir, "index", "20261129171714615"), index.Size(250, 1000)); err != nil {
			t.Fatal(err)
		}
		r := verify(t, dir)
		if r.End < 0 || r.End > int64(len(segment)) || r.Whole != (r.Damages == 0) {
			t.Errorf("%+v", r)
		}
		s := open(t, dir)
		if _, err := s.Stat(context.Background()); err != nil {
			t.Error(err)
		}
		n := int64(0)
		if err := s.Records(context.Background(), inspect.Filter{}, func(*message.Record) error { n++; return nil }, nil); err != nil {
			t.Error(err)
		}
		if n < r.Records {
			t.Errorf("%d records are visited, verify counts %d", n, r.Records)
		}
		_ = s.Keys(context.Background(), inspect.Filter{Key: "k1"}, func(inspect.KeyEntry) error { return nil }) // what cannot be read is its error
		if c, err := inspect.Compare(context.Background(), s, s, inspect.CompareOptions{}); err != nil || c.SameRecords != n {
			t.Errorf("compared with itself: %+v, %v", c, err)
		}
		if err := s.Entries(context.Background(), inspect.Filter{Key: "k1"}, func(inspect.QueueEntry) error { return nil }); err != nil {
			t.Error(err)
		}
	})
}
