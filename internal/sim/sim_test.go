package sim

import (
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	firstSeed = flag.Uint64("seed", 1, "the first seed of TestSim")
	seeds     = flag.Int("seeds", 20, "how many seeds TestSim runs")
	length    = flag.Int("steps", 80, "how many steps a run has")
	only      = flag.String("shape", "", "run TestSim with the sets of options only whose names contain this")
	replays   = flag.Int("replays", 4, "how many seeds TestReplays runs twice")
	tries     = flag.Int("shrink", 200, "how often TestSim tries to find a shorter run that fails")
)

// play runs a plan in a bubble of its own.
func play(t *testing.T, shape Shape, plan []Step) (result Result) {
	t.Helper()
	scratch := t.TempDir()
	synctest.Test(t, func(*testing.T) { result = Run(shape, plan, scratch, synctest.Wait) })
	return result
}

// totals gathers what all runs did.
type totals struct {
	mu   sync.Mutex
	sum  Stats
	runs int
}

func (all *totals) add(s *Stats) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.runs++
	all.sum.Puts += s.Puts
	all.sum.Acked += s.Acked
	all.sum.Pulled += s.Pulled
	all.sum.Found += s.Found
	all.sum.Starts += s.Starts
	if all.sum.Crashes == nil {
		all.sum.Crashes = make(map[string]int)
	}
	for where, n := range s.Crashes {
		all.sum.Crashes[where] += n
	}
}

func (all *totals) String() string {
	s := &all.sum
	var text strings.Builder
	fmt.Fprintf(&text, "%d runs, %d crashes, %d starts; %d messages put, %d acknowledged, %d pulled, %d found by key",
		all.runs, s.Total(), s.Starts, s.Puts, s.Acked, s.Pulled, s.Found)
	for _, where := range slices.Sorted(maps.Keys(s.Crashes)) {
		fmt.Fprintf(&text, "\n%7d  %s", s.Crashes[where], where)
	}
	return text.String()
}

// TestSim runs seeds, each under the next set of options. -seed N -seeds 1 runs one again.
func TestSim(t *testing.T) {
	shapes := Shapes()
	shapes = slices.DeleteFunc(shapes, func(s Shape) bool { return !strings.Contains(s.Name, *only) })
	if len(shapes) == 0 {
		t.Fatalf("no set of options is named like %q", *only)
	}
	n := *seeds
	if testing.Short() {
		n = min(n, len(shapes))
	}
	var next atomic.Int64
	var all totals
	began := time.Now()
	t.Cleanup(func() {
		t.Logf("seeds %d to %d, %d steps each, in %v: %v", *firstSeed, *firstSeed+uint64(n)-1, *length, time.Since(began).Round(time.Second), &all)
	})
	for worker := range runtime.GOMAXPROCS(0) {
		t.Run(fmt.Sprint("worker=", worker), func(t *testing.T) {
			t.Parallel()
			for i := int(next.Add(1)) - 1; i < n && !t.Failed(); i = int(next.Add(1)) - 1 {
				seed := *firstSeed + uint64(i)
				shape := shapes[seed%uint64(len(shapes))]
				plan := Plan(seed, *length)
				result := play(t, shape, plan)
				all.add(&result.Stats)
				if result.Err != nil {
					report(t, seed, shape, plan, result)
				}
			}
		})
	}
}

// report tells of a run that failed, made as short as it can be.
func report(t *testing.T, seed uint64, shape Shape, plan []Step, result Result) {
	t.Helper()
	short := Shrink(plan, *tries, func(plan []Step) bool {
		r := play(t, shape, plan)
		if r.Err != nil {
			result = r
		}
		return r.Err != nil
	})
	t.Errorf("seed %d, options %q: %v\n%d of %d steps fail, too: %v\n%s",
		seed, shape.Name, result.Err, len(short), len(plan), short, result.Trace.Tail(120))
}

// A run depends on its seed alone: else a failure could not be seen again.
func TestReplays(t *testing.T) {
	t.Parallel()
	shapes := Shapes()
	for i := range *replays {
		shape, plan := shapes[i%len(shapes)], Plan(*firstSeed+uint64(i), 40)
		first, second := play(t, shape, plan), play(t, shape, plan)
		if a, b := first.Trace.Sum(), second.Trace.Sum(); a != b {
			t.Errorf("seed %d, options %q: two traces\n%s\n---\n%s", *firstSeed+uint64(i), shape.Name, first.Trace.Tail(1000), second.Trace.Tail(1000))
		}
	}
}

// The power goes while the dispatcher has not come past the first records of an empty log: what the mark says is flushed no record vouches for,
// and segments are written behind it.
func TestCutsBeforeTheFirstDispatch(t *testing.T) {
	t.Parallel()
	for _, shape := range Shapes() {
		for seed := range uint64(12) {
			plan := []Step{{behind, *firstSeed + seed}}
			if result := play(t, shape, plan); result.Err != nil {
				report(t, *firstSeed+seed, shape, plan, result)
			}
		}
	}
}

func TestShrink(t *testing.T) {
	t.Parallel()
	plan := Plan(7, 60)
	needs := func(plan []Step, want ...Step) bool {
		for _, s := range plan {
			if len(want) > 0 && s == want[0] {
				want = want[1:]
			}
		}
		return len(want) == 0
	}
	runs := 0
	short := Shrink(plan, 500, func(less []Step) bool {
		runs++
		return needs(less, plan[3], plan[30], plan[31], plan[59])
	})
	if want := []Step{plan[3], plan[30], plan[31], plan[59]}; !slices.Equal(short, want) {
		t.Errorf("shrunk to %v, want %v", short, want)
	}
	if runs > 500 {
		t.Errorf("%d runs, at most 500 were allowed", runs)
	}
	if got := Shrink(plan, 0, func([]Step) bool { return true }); len(got) != len(plan) {
		t.Errorf("no try is allowed, and %d steps are left", len(got))
	}
}
