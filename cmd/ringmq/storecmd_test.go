package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringmq/internal/fixture"
)

// ringmq runs a command line.
func ringmq(args ...string) (out string, err error) {
	var text bytes.Buffer
	root := rootCommand()
	root.SetArgs(args)
	root.SetOut(&text)
	root.SetErr(&text)
	err = root.Execute()
	return text.String(), err
}

func TestStoreVerifyEndsWithACode(t *testing.T) {
	whole, torn := fixture.Store(t, "5.5.0", "killed_aged"), fixture.Store(t, "5.5.0", "torn/mid_corrupt")
	report := filepath.Join(t.TempDir(), "report.json")
	out, err := ringmq("store", "verify", "--json", report, whole)
	if err != nil || !strings.HasSuffix(out, "whole; unfinished, for the next start to mend or pass over: 2\n") {
		t.Errorf("%v\n%s", err, out)
	}
	var read struct {
		Whole    bool
		Records  int
		Findings []struct{ Kind, Severity string }
	}
	text, err := os.ReadFile(report)
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err != nil || !read.Whole || read.Records != 831 || len(read.Findings) != 2 || read.Findings[0].Severity != "unfinished" {
		t.Errorf("%+v, %v", read, err)
	}
	out, err = ringmq("store", "verify", torn)
	if !errors.Is(err, errNotWhole) || !strings.Contains(out, "128272 bytes behind the end of the log, which is at 1336849, of which 72 records are whole") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err = ringmq("store", "verify", "--json", "-", torn); !errors.Is(err, errNotWhole) || json.Unmarshal([]byte(out), &read) != nil || read.Whole {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestStoreStat(t *testing.T) {
	out, err := ringmq("store", "stat", fixture.Store(t, "4.9.7", "clean"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"stopped cleanly; a Java broker had it last", "0 to 4195373, 5 segments of 1048576 bytes", "mark        none", "topics.json", "TopicTest/"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestStoreDump(t *testing.T) {
	dir := fixture.Store(t, "5.5.0", "clean")
	lines := func(args ...string) []string {
		t.Helper()
		out, err := ringmq(append([]string{"store", "dump", dir}, args...)...)
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	}
	if got := lines(); len(got) != 213 || !strings.HasPrefix(got[0], "record 0 size ") {
		t.Errorf("%d records, the first %s", len(got), got[0])
	}
	for _, line := range append(lines("--format", "json", "--body"), lines("--format", "json", "--what", "entries")...) {
		var object struct {
			Type   string
			Offset *int64
		}
		if err := json.Unmarshal([]byte(line), &object); err != nil || object.Type == "" || object.Offset == nil {
			t.Fatalf("%v: %s", err, line)
		}
	}
	for _, line := range lines() {
		if strings.ContainsAny(line, "\x00\x01\x02\x1b") {
			t.Errorf("bytes for a terminal: %q", line)
		}
	}
	if got := lines("--limit", "3"); len(got) != 3 {
		t.Errorf("%d lines with a limit of 3", len(got))
	}
	if got := lines("--what", "checkpoint"); !strings.HasPrefix(got[0], "checkpoint log 20") {
		t.Error(got)
	}
	if _, err := ringmq("store", "dump", "--what", "mark", dir); err == nil || !strings.Contains(err.Error(), "no mark") {
		t.Error(err)
	}
}

func TestStoreCommandsRefuseWrongUsage(t *testing.T) {
	empty := t.TempDir()
	dir := fixture.Store(t, "4.9.7", "clean")
	for _, args := range [][]string{
		{"stroe"}, {"store", "verify"}, {"store", "stat", "a", "b"}, {"store", "vrfy"}, {"store", "stat", empty}, {"store", "verify", "--fast", empty},
		{"store", "dump", "--what", "seals", empty}, {"store", "dump", "--what", "config", "--key", "k", empty}, {"store", "dump", "--what", "mark", "--limit", "1", empty},
		{"store", "dump", "--what", "index", "--body", empty}, {"store", "verify", "--indexSlots", "5", empty},
		{"store", "repair"}, {"store", "repair", empty}, {"store", "repair", "--write", empty}, {"store", "repair", "--queueFileSize", "33", empty},
		{"store", "repair", "--force", empty}, {"store", "compare", empty}, {"store", "compare", empty, empty}, {"store", "compare", "--only", "all", empty, empty},
		{"store", "dump", "--format", "xml", empty}, {"store", "dump", "--since", "today", empty},
		{"store", "dump", "--limit", "-1", empty}, {"store", "dump", filepath.Join(empty, "none")},
		{"store", "dump", "--limit", "many", dir}, {"store", "dump", "--from", "9", "--to", "9", dir}, {"store", "dump", "--since", "9", "--until", "8", dir},
		{"store", "verify", "--noIndex=perhaps", dir}, {"store", "verify", "--commitlog", filepath.Join(empty, "none"), dir},
		{"store", "repair", "--delayLevels", "soon", dir}, {"store", "compare", "--commitlog2", filepath.Join(empty, "none"), dir, dir},
	} {
		var usage usageError
		if out, err := ringmq(args...); !errors.As(err, &usage) {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}

func TestWrongValuesOfFlagsAreNamed(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"stroe"}, `unknown command "stroe"; see ringmq --help`},
		{[]string{"store", "vrfy"}, `unknown command "vrfy"; see ringmq store --help`},
		{[]string{"store", "dump", "--limit", "many", "."}, "--limit=many: allowed is a whole number"},
		{[]string{"store", "dump", "--queue", "-1", "."}, "--queue=-1: allowed is 0 and above"},
		{[]string{"store", "dump", "--from", "10", "--to", "5", "."}, "--to=5: allowed is above --from=10"},
		{[]string{"store", "verify", "--noIndex=perhaps", "."}, "--noIndex=perhaps: allowed is true or false"},
		{[]string{"store", "repair", "--delayLevels", "soon", "."}, `--delayLevels=soon: dispatch: delay level 1 is "soon", must be a number and one of s, m, h, d`},
	} {
		if _, err := ringmq(c.args...); err == nil || err.Error() != c.want {
			t.Errorf("%v: %v, want %s", c.args, err, c.want)
		}
	}
}

func TestStoreDumpOfKeysAndSettings(t *testing.T) {
	dir := fixture.Store(t, "5.5.0", "clean")
	for _, c := range []struct {
		args  []string
		lines int
		first string
	}{
		{[]string{"--what", "index"}, 635, "key 20261129172227807 number 1 hash "},
		{[]string{"--what", "index", "--limit", "2"}, 2, "key 20261129172227807 number 1 hash "},
		{[]string{"--what", "config", "--topic", "TopicTest"}, 0, "config consumerOffset.json offsetTable TopicTest@"},
	} {
		out, err := ringmq(append([]string{"store", "dump", dir}, c.args...)...)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(out, "\n"); c.lines > 0 && got != c.lines || !strings.HasPrefix(out, c.first) {
			t.Errorf("%v: %d lines, want %d: %.200s", c.args, got, c.lines, out)
		}
		out, err = ringmq(append([]string{"store", "dump", "--format", "json", dir}, c.args...)...)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out) {
			var object struct{ Type string }
			if err := json.Unmarshal([]byte(line), &object); err != nil || object.Type == "" {
				t.Fatalf("%v: %s", err, line)
			}
		}
	}
}

func TestStoreCompareEndsWithACode(t *testing.T) {
	a, b := fixture.Store(t, "5.5.0", "killed"), fixture.Store(t, "5.5.0", "torn/cq_queue_missing")
	if out, err := ringmq("store", "compare", a, a); err != nil || !strings.HasSuffix(out, "\nequal\n") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err := ringmq("store", "compare", a, b)
	if !errors.Is(err, errDiffer) || !strings.Contains(out, "only the first store has it") || strings.Contains(out, "\nlog ") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err = ringmq("store", "compare", "--only", "log,config", a, b); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	var read struct {
		Equal       bool
		Differences []struct{ Part string }
	}
	if out, err = ringmq("store", "compare", "--json", "-", a, b); !errors.Is(err, errDiffer) || json.Unmarshal([]byte(out), &read) != nil || read.Equal || len(read.Differences) == 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestStoreRepairEndsWithACode(t *testing.T) {
	dir := fixture.Store(t, "5.5.0", "torn/mid_corrupt")
	out, err := ringmq("store", "repair", dir)
	if !errors.Is(err, errNotWritten) || !strings.Contains(out, "would cut ") || strings.Contains(out, "done:") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = ringmq("store", "repair", "--write", dir)
	if err != nil || !strings.Contains(out, "done: ") || !strings.HasSuffix(out, "\nwhole\n") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err = ringmq("store", "repair", dir); err != nil || out != "nothing to repair\n" {
		t.Errorf("%v\n%s", err, out)
	}
	var read struct{ Actions []struct{ Verb string } }
	if out, err = ringmq("store", "repair", "--json", "-", dir); err != nil || json.Unmarshal([]byte(out), &read) != nil || read.Actions == nil {
		t.Errorf("%v\n%s", err, out)
	}
}
