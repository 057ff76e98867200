package inspect_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringmq/engine/inspect"
	"ringmq/internal/fixture"
)

func compare(t testing.TB, a, b string, parts ...inspect.Part) *inspect.Comparison {
	t.Helper()
	c, err := inspect.Compare(context.Background(), open(t, a), open(t, b), inspect.CompareOptions{Parts: parts})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A copy is equal, also of what a real broker left; nothing is written.
func TestCopiesAreEqual(t *testing.T) {
	t.Parallel()
	dirs := []string{written(t, 300), fixture.Store(t, "5.5.0", "clean"), fixture.Store(t, "4.9.7", "killed")}
	for _, dir := range dirs {
		other := filepath.Join(t.TempDir(), "copy")
		if err := os.CopyFS(other, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		before := treeOf(t, dir)
		c := compare(t, dir, other)
		if !c.Equal || !c.ByOffset || c.SameRecords == 0 || c.SameRecords != c.A.Records || c.A.End != c.B.End || c.A.Keys != c.B.Keys || c.A.Keys == 0 {
			t.Errorf("%+v", c)
		}
		if treeOf(t, dir) != before {
			t.Error("the store was changed")
		}
	}
	if c := compare(t, dirs[1], dirs[2]); c.Equal || len(c.Differences) == 0 {
		t.Errorf("stores of different brokers: %+v", c)
	}
}

func TestDifferencesAreFound(t *testing.T) {
	t.Parallel()
	whole := written(t, 300)
	log := filepath.Join("commitlog", "00000000000000000000")
	queue := filepath.Join("consumequeue", "Topic0", "0", "00000000000000000000")
	first := int(verifyFirst(t, whole))
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		part   inspect.Part
		text   string
	}{
		"a body": {func(t *testing.T, dir string) { patch(t, filepath.Join(dir, log), 100, 'X') }, inspect.PartLog,
			"1 record of the first store, at 0 to 0, is not in the second, of whose log "},
		"a flag": {func(t *testing.T, dir string) { patch(t, filepath.Join(dir, log), int64(first)+19, 7) }, inspect.PartLog,
			fmt.Sprintf("the first record that differs stands at %d: flag 0 and 7", first)},
		"properties": {func(t *testing.T, dir string) {
			i := strings.Index(string(read(t, filepath.Join(dir, log))), "TAGS\x01t0")
			patch(t, filepath.Join(dir, log), int64(i)+5, 'T')
		}, inspect.PartLog, `stands at 0: properties "TAGS"`},
		"a segment gone": {func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, log)) }, inspect.PartLog,
			"are not in the second, whose log begins at 65536"},
		"an entry": {func(t *testing.T, dir string) { patch(t, filepath.Join(dir, queue), 79, 9) }, inspect.PartQueues,
			"1 entry differs, the first is number 3"},
		"a queue gone":  {func(t *testing.T, dir string) { os.RemoveAll(filepath.Join(dir, "consumequeue", "Topic1", "1")) }, inspect.PartQueues, "only the first store has it, with 0 to 75"},
		"a queue's end": {func(t *testing.T, dir string) { patch(t, filepath.Join(dir, queue), 20*74, make([]byte, 20)...) }, inspect.PartQueues, "it is 0 to 75 and 0 to 74"},
		"keys gone":     {func(t *testing.T, dir string) { os.RemoveAll(filepath.Join(dir, "index")) }, inspect.PartIndex, "and 0 of records at 0 to 0"},
		"a topic": {func(t *testing.T, dir string) {
			writeConfig(t, dir, "topics.json", `{"dataVersion":{"counter":9},"topicConfigTable":{"T":{"perm":6}}}`)
		}, inspect.PartConfig, "only the second store has it"},
		"a broken file": {func(t *testing.T, dir string) { writeConfig(t, dir, "topics.json", `{"topicConfig`) }, inspect.PartConfig, "in the second store: inspect: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			c.change(t, dir)
			got := compare(t, whole, dir)
			if got.Equal {
				t.Error("they are said to be equal")
			}
			found := false
			for _, d := range got.Differences {
				found = found || d.Part == c.part && strings.Contains(d.Text, c.text)
			}
			if !found {
				t.Errorf("no %q in %+v", c.text, got.Differences)
			}
		})
	}
}

// verifyFirst is where the second record begins.
func verifyFirst(t *testing.T, dir string) int64 {
	t.Helper()
	var at []int64
	if err := open(t, dir).Entries(context.Background(), inspect.Filter{Topic: "Topic1"}, func(e inspect.QueueEntry) error {
		at = append(at, int64(e.Offset))
		return inspect.ErrEnough
	}); err != nil || len(at) == 0 {
		t.Fatal(err)
	}
	return at[0]
}

func writeConfig(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, "config", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Records of stores with other segments are compared in turn, all but their places.
func TestSegmentsOfAnotherSize(t *testing.T) {
	t.Parallel()
	a := written(t, 300)
	b := rewritten(t, a, 2*segmentSize, 0)
	if c := compare(t, a, b, inspect.PartLog, inspect.PartQueues); !c.Equal || c.ByOffset || c.SameRecords != 300 {
		t.Errorf("%+v", c)
	}
	shorter := rewritten(t, a, 2*segmentSize, 40)
	c := compare(t, a, shorter, inspect.PartLog)
	if c.Equal || c.SameRecords != 260 || len(c.Differences) != 1 || !strings.Contains(c.Differences[0].Text, "40 records at the beginning of the first store are not in the other") {
		t.Errorf("%+v", c)
	}
	if c := compare(t, shorter, a, inspect.PartLog); c.Equal || c.SameRecords != 260 {
		t.Errorf("%+v", c)
	}
}

func TestConfigRows(t *testing.T) {
	t.Parallel()
	dir := fixture.Store(t, "5.5.0", "clean")
	topics, offsets := 0, 0
	visit := func(item inspect.ConfigItem) error {
		if item.Topic() == "TopicTest" {
			if item.File == "topics.json" {
				topics++
			} else if item.File == "consumerOffset.json" {
				offsets++
			}
		}
		return nil
	}
	broken := func(file string, err error) { t.Errorf("%s: %v", file, err) }
	if err := open(t, dir).Config(visit, broken); err != nil || topics != 1 || offsets == 0 {
		t.Errorf("%d topics, %d offsets, %v", topics, offsets, err)
	}
	for _, change := range []func(path string) error{
		func(path string) error { return os.WriteFile(path, []byte("null"), 0o644) },
		func(path string) error { return os.Truncate(path, 50) },
		os.Remove,
	} {
		if err := change(filepath.Join(dir, "config", "topics.json")); err != nil {
			t.Fatal(err)
		}
		topics, told := 0, 0
		err := open(t, dir).Config(func(item inspect.ConfigItem) error {
			if item.File == "topics.json" {
				topics++
			}
			return nil
		}, func(file string, err error) { told++ })
		if err != nil || topics == 0 || told != 1 {
			t.Errorf("%d topics of the backup, told %d times, %v", topics, told, err)
		}
	}
}

func TestKeysOfFilesAreVisited(t *testing.T) {
	t.Parallel()
	s := open(t, written(t, 100))
	for name, c := range map[string]struct {
		f    inspect.Filter
		want int
	}{
		"all": {inspect.Filter{}, 400}, "topic": {inspect.Filter{Topic: "Topic1"}, 200}, "key": {inspect.Filter{Key: "k17"}, 4}, "first": {inspect.Filter{To: 1}, 4},
	} {
		n := 0
		if err := s.Keys(context.Background(), c.f, func(inspect.KeyEntry) error { n++; return nil }); err != nil || n != c.want {
			t.Errorf("%s: %d entries, want %d, %v", name, n, c.want, err)
		}
	}
}

// A store that is written to is not said to differ for what came meanwhile.
func TestCompareWithAStoreInUse(t *testing.T) {
	t.Parallel()
	dir := written(t, 100)
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	s := start(t, dir)
	p := newPutter(s)
	for i := range 50 {
		p.put(t, i)
	}
	if c := compare(t, copied, dir, inspect.PartLog, inspect.PartQueues); !c.Equal || !c.B.InUse || c.SameRecords != 100 {
		t.Errorf("%+v", c)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if c := compare(t, copied, dir, inspect.PartLog, inspect.PartQueues); c.Equal || len(c.Differences) != 5 {
		t.Errorf("%+v", c)
	}
}
