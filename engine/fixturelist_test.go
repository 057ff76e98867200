package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"ringmq/engine"
	"ringmq/internal/fixture"
)

// outcome is what a broker makes of a damaged store.
type outcome struct {
	low, end int64
	messages int
	refused  bool
}

func (o outcome) String() string {
	if o.refused {
		return "does not start"
	}
	return fmt.Sprintf("%d..%d, %d", o.low, o.end, o.messages)
}

// differences are, for each kind of damage, how ringmq and the broker that made the store differ about it; with an entry if they do not.
type differences struct {
	mu  sync.Mutex
	how map[string][]string
}

func (d *differences) add(t *testing.T, version, name string, java, ours outcome) {
	t.Helper()
	if ours.messages < java.messages {
		t.Errorf("ringmq: %v, Apache: %v: that is worse", ours, java)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.how[name]; !ok {
		d.how[name] = nil
	}
	if java != ours {
		d.how[name] = append(d.how[name], fmt.Sprintf("%s: Apache %v, ringmq %v", version, java, ours))
	}
}

// compareList: every damaged store stands in the list of docs/format.md, and those about which the two differ are marked there.
func (d *differences) compareList(t *testing.T) {
	t.Helper()
	same, marked := listedOutcomes(t)
	for name, how := range d.how {
		switch {
		case !slices.Contains(same, name) && !slices.Contains(marked, name):
			t.Errorf("docs/format.md does not list %s", name)
		case len(how) > 0 && !slices.Contains(marked, name):
			t.Errorf("docs/format.md lists %s as the same: %q", name, how)
		}
	}
	for _, name := range slices.Concat(same, marked) {
		if _, ok := d.how[name]; !ok {
			t.Errorf("docs/format.md lists %s, which is no fixture", name)
		}
	}
	if len(d.how) != 26 {
		t.Errorf("%d kinds of damage, want 26", len(d.how))
	}
}

// listedOutcomes reads the table of section 12: its rows name the stores, and those in bold letters differ.
func listedOutcomes(t *testing.T) (same, marked []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", "format.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "| case | Java brokers | ringmq |")
	if !ok {
		t.Fatal("docs/format.md has no table of the damaged stores")
	}
	name := regexp.MustCompile(`[a-z]+(_[a-z]+)+`)
	for _, row := range strings.Split(table, "\n")[2:] {
		cells := strings.Split(row, "|")
		if len(cells) < 4 {
			break
		}
		list := name.FindAllString(cells[1], -1)
		if strings.HasPrefix(strings.TrimSpace(cells[1]), "**") {
			marked = append(marked, list...)
		} else {
			same = append(same, list...)
		}
	}
	return same, marked
}

func javaOutcome(want *fixture.Expectation) outcome {
	if want.Failure != "" {
		return outcome{refused: true}
	}
	own := map[int64]bool{} // written by the broker after its start
	for _, r := range want.AppendedAfterStart.Records {
		own[r.CommitLogOffset] = true
	}
	o := outcome{low: max(want.AfterLoad.Min, 0), end: max(want.AfterLoad.Max, 0)}
	for _, m := range append(want.Messages, want.NotServed.Records...) {
		if !own[m.CommitLogOffset] {
			o.messages++
		}
	}
	return o
}

func ringmqOutcome(t *testing.T, s *engine.Store) outcome {
	p := s.Positions()
	o := outcome{low: int64(p.Min), end: int64(p.End)}
	for _, id := range queueIDs(s) {
		o.messages += len(records(t, s, id.Topic, id.QueueID))
	}
	return o
}
