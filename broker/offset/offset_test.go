package offset

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"ringmq/engine/message"
)

func open(t *testing.T, path string) *Table {
	t.Helper()
	table, err := Open(Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestCommitQuerySave(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.json")
	table := open(t, path)
	topic, group := []byte("T"), []byte("G")
	if got := table.Query(topic, group, 0); got != None {
		t.Fatalf("offset of nobody: %d", got)
	}
	if err := table.Save(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Fatal("saved though nothing changed")
	}
	table.Commit(topic, group, 0, 0)
	table.Commit(topic, group, 3, 7)
	table.Commit([]byte("U"), group, 1, 9)
	if a, b, c := table.Query(topic, group, 0), table.Query(topic, group, 3), table.Query(topic, group, 1); a != 0 || b != 7 || c != None {
		t.Fatalf("got %d %d %d", a, b, c)
	}
	if got := table.Topics("G"); !slices.Equal(got, []string{"T", "U"}) {
		t.Fatalf("topics %q", got)
	}
	if err := table.Save(); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(path)
	for _, want := range []string{`"T@G"`, `"3": 7`, `"groupTopicMap"`, `"counter": 1`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the file has no %s: %s", want, text)
		}
	}
	again := open(t, path)
	if a, b := again.Query(topic, group, 0), again.Query([]byte("U"), group, 1); a != 0 || b != 9 {
		t.Fatalf("read back %d %d", a, b)
	}
	before, _ := os.Stat(path)
	again.Commit(topic, group, 0, 0) // no change
	if err := again.Save(); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.Stat(path); !os.SameFile(before, after) {
		t.Error("saved though nothing changed")
	}
}

func TestForeignFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.json")
	text := "{\n\t\"dataVersion\":{\"counter\":7,\"stateVersion\":0,\"timestamp\":1795972922387},\n\t\"groupTopicMap\":{},\n\t\"offsetTable\":{\n" +
		"\t\t\"TopicTest@G_off\":{0:1,1:2,2:3,3:4\n\t\t},\n\t\t\"X@G\":{0:-1,-3:5}\n\t},\n\t\"pullOffsetTable\":{\"T@P\":{0:3}}\n}"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	table := open(t, path)
	for q, want := range []message.QueueOffset{1, 2, 3, 4, None} {
		if got := table.Query([]byte("TopicTest"), []byte("G_off"), int32(q)); got != want {
			t.Errorf("queue %d: %d, want %d", q, got, want)
		}
	}
	if got := table.Query([]byte("X"), []byte("G"), 0); got != None {
		t.Errorf("a negative offset was taken: %d", got)
	}
	table.Commit([]byte("X"), []byte("G"), 0, 1)
	if err := table.Save(); err != nil {
		t.Fatal(err)
	}
	saved, _ := os.ReadFile(path)
	if !strings.Contains(string(saved), `"T@P"`) || !strings.Contains(string(saved), `"counter": 8`) {
		t.Errorf("saved %s", saved)
	}
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.json")
	table := open(t, path)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			group := fmt.Append(nil, "G", g%2)
			for i := range 200 {
				table.Commit(fmt.Append(nil, "T", i%5), group, int32(g/2), message.QueueOffset(i))
				if i%50 == 0 {
					if err := table.Save(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if err := table.Save(); err != nil {
		t.Fatal(err)
	}
	again := open(t, path)
	for g := range 2 {
		for i := range 5 {
			for q := range 4 {
				if got := again.Query(fmt.Append(nil, "T", i), fmt.Append(nil, "G", g), int32(q)); got != message.QueueOffset(195+i) {
					t.Errorf("T%d G%d %d: %d", i, g, q, got)
				}
			}
		}
	}
}

func TestCommitAllocatesNothing(t *testing.T) {
	table := open(t, filepath.Join(t.TempDir(), "o.json"))
	topic, group := []byte("Topic"), []byte("Group")
	table.Commit(topic, group, 0, 0)
	at := message.QueueOffset(0)
	if n := testing.AllocsPerRun(100, func() {
		at++
		table.Commit(topic, group, 0, at)
		table.Query(topic, group, 0)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkCommit(b *testing.B) {
	table, err := Open(Options{Path: filepath.Join(b.TempDir(), "o.json")})
	if err != nil {
		b.Fatal(err)
	}
	topic, group := []byte("Topic"), []byte("Group")
	b.ReportAllocs()
	at := message.QueueOffset(0)
	for b.Loop() {
		at++
		table.Commit(topic, group, 3, at)
	}
}
