package group

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringmq/internal/fastjson"
)

func open(t *testing.T, o Options) *Table {
	t.Helper()
	table, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	table := open(t, Options{Path: filepath.Join(t.TempDir(), "g.json")})
	for _, name := range []string{"TOOLS_CONSUMER", "CID_RMQ_SYS_TRANS", "SELF_TEST_C_GROUP"} {
		c := table.Get(name)
		if c == nil || !c.Consume || !c.ConsumeBroadcast || !c.ConsumeFromMin || !c.NotifyChanges || c.RetryMaxTimes != 16 ||
			c.RetryQueues != 1 || c.WhenSlow != 1 || c.ConsumeTimeout != 15 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestFindOrCreate(t *testing.T) {
	t.Parallel()
	changed := 0
	o := Options{Path: filepath.Join(t.TempDir(), "g.json"), AutoCreate: true, Changed: func() { changed++ }}
	table := open(t, o)
	long := strings.Repeat("g", 300)
	for name, good := range map[string]bool{"G": true, long[:248]: true, long[:249]: false, "": false, "a b": false, "a@b": false, "CID_RMQ_SYS_X": true} {
		if c := table.FindOrCreate([]byte(name)); (c != nil) != good {
			t.Errorf("%.20q: %+v", name, c)
		}
	}
	if changed != 3 {
		t.Errorf("%d changes told, want 3", changed)
	}
	o.AutoCreate = false
	table = open(t, o)
	if c := table.FindOrCreate([]byte("G")); c != nil {
		t.Errorf("made %+v though autoCreateSubscriptionGroup is off", c)
	}
	if c := table.FindOrCreate([]byte("CID_RMQ_SYS_X")); c == nil {
		t.Error("the broker's own group is not made")
	}
}

// Files of both versions of the Java broker; what ringmq does not know of is written back as it came.
func TestForeignFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "g.json")
	text := `{"dataVersion":{"counter":4,"stateVersion":0,"timestamp":1795972988854},"forbiddenTable":{"G":{"T":1}},"subscriptionGroupTable":{
"Old":{"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":false,"consumeFromMinEnable":true,"groupName":"Old","retryMaxTimes":3,"retryQueueNums":2,"whichBrokerWhenConsumeSlowly":1},
"New":{"attributes":{"a":"b"},"groupRetryPolicy":{"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":5000}},"groupSysFlag":7,"groupName":"New","subscriptionDataSet":[{"topic":"T"}]},
"bad name":{},"none":null}}`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	o := Options{Path: path}
	for range 2 { // as it came, and as ringmq wrote it
		table := open(t, o)
		if c := table.Get("Old"); c == nil || c.Consume || c.RetryMaxTimes != 3 || c.RetryQueues != 2 || !c.NotifyChanges {
			t.Errorf("got %+v", c)
		}
		c := table.Get("New")
		if c == nil || c.Attributes["a"] != "b" || c.SysFlag != 7 || !c.Consume || !strings.Contains(string(c.RetryPolicy), "5000") ||
			!strings.Contains(string(c.Subscriptions), `"T"`) {
			t.Errorf("got %+v", c)
		}
		if _, forbidden, _ := table.Snapshot(); !strings.Contains(string(forbidden), `"T"`) {
			t.Errorf("forbidden %s", forbidden)
		}
		if table.Get("bad name") != nil || table.Get("none") != nil {
			t.Error("took an entry that is no group")
		}
		if err := table.Save(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPut(t *testing.T) {
	t.Parallel()
	o := Options{Path: filepath.Join(t.TempDir(), "g.json")}
	table := open(t, o)
	c := Default("G")
	c.RetryMaxTimes = 5
	for _, want := range []bool{true, false} {
		if changed, err := table.Put(c); changed != want || err != nil {
			t.Fatalf("changed %v, %v; want %v", changed, err, want)
		}
	}
	for _, bad := range []Config{Default(""), Default("a b"), {Name: "G", RetryQueues: -1}} {
		if _, err := table.Put(bad); err == nil {
			t.Errorf("%+v accepted", bad)
		}
	}
	if err := table.Save(); err != nil {
		t.Fatal(err)
	}
	if c := open(t, o).Get("G"); c.RetryMaxTimes != 5 {
		t.Errorf("got %+v", c)
	}
}

func TestFindAllocatesNothing(t *testing.T) {
	table := open(t, Options{Path: filepath.Join(t.TempDir(), "g.json")})
	name := []byte("TOOLS_CONSUMER")
	if n := testing.AllocsPerRun(100, func() {
		if table.FindOrCreate(name) == nil {
			t.Fatal("not found")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"groupName":"G","retryMaxTimes":3}`))
	f.Add([]byte(`{"groupRetryPolicy":{0:1},"attributes":null}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		var c Config
		if fastjson.Unmarshal(in, &c) != nil {
			return
		}
		c.Check()
	})
}
