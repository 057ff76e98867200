package topic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func options(t *testing.T) Options {
	return Options{
		Path: filepath.Join(t.TempDir(), "topics.json"), ClusterName: "DefaultCluster", BrokerName: "broker-a",
		AutoCreate: true, DefaultQueues: 8, ClusterTopic: true, BrokerTopic: true, DelayLevels: 18,
	}
}

func open(t *testing.T, o Options) *Table {
	t.Helper()
	table, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestSystemTopics(t *testing.T) {
	t.Parallel()
	table := open(t, options(t))
	for _, want := range []struct {
		name         string
		queues, perm int32
	}{
		{"TBW102", 8, 7}, {"SELF_TEST_TOPIC", 1, 6}, {"BenchmarkTest", 1024, 6}, {"DefaultCluster", 16, 7}, {"broker-a", 1, 7},
		{"OFFSET_MOVED_EVENT", 1, 6}, {"SCHEDULE_TOPIC_XXXX", 18, 6}, {"RMQ_SYS_TRANS_HALF_TOPIC", 1, 6},
		{"RMQ_SYS_TRANS_OP_HALF_TOPIC", 1, 6}, {"DefaultCluster_REPLY_TOPIC", 1, 6},
	} {
		c := table.Get(want.name)
		if c == nil || c.ReadQueues != want.queues || c.WriteQueues != want.queues || c.Perm != want.perm || c.FilterType != "SINGLE_TAG" {
			t.Errorf("%s: got %+v, want %+v", want.name, c, want)
		}
	}
	if names := table.SystemTopics(); !slices.Contains(names, "broker-a") || slices.Contains(names, "T") || !slices.IsSorted(names) {
		t.Errorf("system topics %q", names)
	}
	if c := table.Get("RMQ_SYS_TRACE_TOPIC"); c != nil {
		t.Errorf("a trace topic that nobody asked for: %+v", c)
	}
}

func TestCheckName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 256)
	for name, good := range map[string]bool{
		"a": true, "%RETRY%g": true, "A-b_9|%": true, long[:127]: true, long[:128]: false, long[:255]: false,
		"%RETRY%" + long[:200]: true, "%RETRY%" + long[:248]: true, "%RETRY%" + long[:249]: false, "%DLQ%" + long[:250]: true,
		"": false, "a b": false, "a*b": false, "ä": false, "a\x00": false, "../x": false, "a/b": false, "a\n": false, "$(id)": false, "a@b": false,
	} {
		if err := CheckName(name); (err == nil) != good {
			t.Errorf("CheckName(%q): %v", name, err)
		}
		if err := CheckName([]byte(name)); (err == nil) != good {
			t.Errorf("CheckName of bytes (%q): %v", name, err)
		}
	}
}

func TestCreate(t *testing.T) {
	t.Parallel()
	o := options(t)
	changed := 0
	o.Changed = func() { changed++ }
	table := open(t, o)
	for i, c := range []struct {
		template             string
		clientQueues, queues int32
	}{{"TBW102", 4, 4}, {"TBW102", 16, 8}, {"TBW102", 0, 1}, {"TBW102", -5, 1}, {"DefaultCluster", 32, 16}} {
		before := table.Version()
		got, err := table.Create(fmt.Append(nil, "T", i), []byte(c.template), c.clientQueues, FlagUnit)
		if err != nil || got.ReadQueues != c.queues || got.WriteQueues != c.queues || got.Perm != 6 || got.SysFlag != FlagUnit {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
		if v := table.Version(); v.Counter != before.Counter+1 || v.Timestamp < before.Timestamp {
			t.Errorf("version %+v after %+v", v, before)
		}
	}
	if changed != 5 {
		t.Errorf("%d changes told, want 5", changed)
	}
	for _, c := range []struct{ name, template string }{{"a b", "TBW102"}, {"X", "nothing"}, {"X", "BenchmarkTest"}, {"", "TBW102"}} {
		if got, err := table.Create([]byte(c.name), []byte(c.template), 4, 0); err == nil {
			t.Errorf("%v: made %+v", c, got)
		}
	}
	if again, err := table.Create([]byte("T0"), []byte("TBW102"), 1, 0); err != nil || again.WriteQueues != 4 {
		t.Errorf("an existing topic was changed: %+v, %v", again, err)
	}
}

func TestCreateSwitchedOff(t *testing.T) {
	t.Parallel()
	o := options(t)
	table := open(t, o)
	if err := table.Save(); err != nil {
		t.Fatal(err)
	}
	o.AutoCreate = false // the template stays in the file
	table = open(t, o)
	if got, err := table.Create([]byte("X"), []byte(Template), 4, 0); err == nil || !strings.Contains(err.Error(), "autoCreateTopicEnable") {
		t.Errorf("made %+v, %v", got, err)
	}
}

func TestPut(t *testing.T) {
	t.Parallel()
	table := open(t, options(t))
	good := Config{Name: "T", ReadQueues: 4, WriteQueues: 8, Perm: 6}
	for _, want := range []bool{true, false} {
		if changed, err := table.Put(good); changed != want || err != nil {
			t.Fatalf("changed %v, %v; want %v", changed, err, want)
		}
	}
	for _, bad := range []Config{
		{Name: "T", ReadQueues: -1, WriteQueues: 1, Perm: 6}, {Name: "T", ReadQueues: 1, WriteQueues: 65537, Perm: 6},
		{Name: "T", ReadQueues: 1, WriteQueues: 1, Perm: 8}, {Name: "T", Perm: -1}, {Name: "a b", Perm: 6},
	} {
		if changed, err := table.Put(bad); changed || err == nil {
			t.Errorf("%+v: changed %v, %v", bad, changed, err)
		}
	}
	if got := table.Get("T"); got.WriteQueues != 8 || got.Queues() != 8 {
		t.Errorf("got %+v", got)
	}
}

func TestSaveAndOpen(t *testing.T) {
	t.Parallel()
	o := options(t)
	table := open(t, o)
	if _, err := table.Put(Config{Name: "T", ReadQueues: 4, WriteQueues: 4, Perm: 6, Order: true, Attributes: map[string]string{"a": "b"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := table.CreateRetry("G", 1, FlagUnitSubscription); err != nil {
		t.Fatal(err)
	}
	if err := table.Save(); err != nil {
		t.Fatal(err)
	}
	before := table.Version()
	again := open(t, o)
	if c := again.Get("T"); !c.equal(table.Get("T")) {
		t.Errorf("got %+v", c)
	}
	if c := again.Get("%RETRY%G"); c == nil || c.SysFlag != 2 || c.ReadQueues != 1 {
		t.Errorf("got %+v", c)
	}
	if v := again.Version(); v.Counter <= before.Counter || v.Timestamp < before.Timestamp {
		t.Errorf("version %+v after %+v", v, before)
	}
}

// The file as both versions of the Java broker write it, and one with entries that are no topics.
func TestOpenForeignFile(t *testing.T) {
	t.Parallel()
	o := options(t)
	text := "{\n\t\"dataVersion\":{\n\t\t\"counter\":15,\n\t\t\"timestamp\":1795969898156\n\t},\n\t\"topicConfigTable\":{\n" +
		"\t\t\"TopicBatch\":{\n\t\t\t\"order\":false,\n\t\t\t\"perm\":6,\n\t\t\t\"readQueueNums\":4,\n\t\t\t\"topicFilterType\":\"SINGLE_TAG\"," +
		"\n\t\t\t\"topicName\":\"TopicBatch\",\n\t\t\t\"topicSysFlag\":0,\n\t\t\t\"writeQueueNums\":4\n\t\t},\n" +
		"\t\t\"TBW102\":{\"attributes\":{},\"order\":false,\"perm\":7,\"readQueueNums\":3,\"topicFilterType\":\"SINGLE_TAG\",\"topicName\":\"TBW102\",\"topicSysFlag\":0,\"writeQueueNums\":3},\n" +
		"\t\t\"bad name\":{\"perm\":6},\"none\":null,\"Many\":{\"perm\":6,\"readQueueNums\":99999999,\"writeQueueNums\":1}\n\t}\n}"
	if err := os.WriteFile(o.Path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	o.Now = func() int64 { return 5 } // the clock was set back
	table := open(t, o)
	if c := table.Get("TopicBatch"); c == nil || c.WriteQueues != 4 || c.Attributes == nil {
		t.Errorf("got %+v", c)
	}
	if c := table.Get(Template); c.WriteQueues != 3 {
		t.Errorf("the file's own template was replaced: %+v", c)
	}
	if v := table.Version(); v.Counter != 16 || v.Timestamp != 1795969898156 {
		t.Errorf("version %+v", v)
	}
	if n := strings.Count(log.String(), "left out"); n != 2 {
		t.Errorf("%d entries named, want 2: %s", n, log.String())
	}
}

func TestRecover(t *testing.T) {
	t.Parallel()
	table := open(t, options(t))
	if _, err := table.Put(Config{Name: "Known", ReadQueues: 2, WriteQueues: 2, Perm: 2}); err != nil {
		t.Fatal(err)
	}
	table.Recover("Lost", 3)
	table.Recover("Known", 5)
	table.Recover("TBW102", 0)
	table.Recover("bad name", 0)
	table.Recover("Hostile", 1<<31-1)
	if c := table.Get("Hostile"); c == nil || c.ReadQueues != maxQueues {
		t.Errorf("got %+v", c)
	}
	if c := table.Get("Lost"); c == nil || c.ReadQueues != 4 || c.WriteQueues != 4 || c.Perm != 6 {
		t.Errorf("got %+v", c)
	}
	if c := table.Get("Known"); c.ReadQueues != 2 || c.WriteQueues != 2 || c.Perm != 2 {
		t.Errorf("got %+v", c)
	}
	if c := table.Get("TBW102"); c.ReadQueues != 8 {
		t.Errorf("got %+v", c)
	}
}

func TestConcurrentCreate(t *testing.T) {
	t.Parallel()
	table := open(t, options(t))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 50 {
				name := fmt.Append(nil, "T", i)
				if _, err := table.Create(name, []byte(Template), 4, 0); err != nil {
					t.Error(err)
				}
				table.Find(name)
				if i%10 == 0 {
					table.Save()
				}
			}
		})
	}
	wg.Wait()
	if v, want := table.Version(), int64(1+50); v.Counter != want {
		t.Errorf("counter %d, want %d", v.Counter, want)
	}
	if err := table.Save(); err != nil {
		t.Fatal(err)
	}
	var content fileContent
	text, _ := os.ReadFile(table.opts.Path)
	if err := json.Unmarshal(text, &content); err != nil || len(content.Topics) != 10+50 {
		t.Errorf("%d topics in the file, %v", len(content.Topics), err)
	}
}

func TestFindAllocatesNothing(t *testing.T) {
	table := open(t, options(t))
	name := []byte("BenchmarkTest")
	if n := testing.AllocsPerRun(100, func() {
		if table.Find(name) == nil || CheckName(name) != nil || SendForbidden(name) {
			t.Fatal("not found")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
