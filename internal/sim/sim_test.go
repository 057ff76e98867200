package sim

import (
	"flag"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

var (
	firstSeed = flag.Uint64("seed", 1, "the first seed of TestSim")
	seeds     = flag.Int("seeds", 30, "how many seeds TestSim runs")
	steps_    = flag.Int("steps", 80, "how many steps a run has")
	shapeName = flag.String("shape", "", "run TestSim under this set of options only")
)

// play runs a plan in a bubble of its own.
func play(t *testing.T, shape Shape, plan []Step) (result Result) {
	t.Helper()
	scratch := t.TempDir()
	synctest.Test(t, func(*testing.T) { result = Run(shape, plan, scratch, synctest.Wait) })
	return result
}

func TestSim(t *testing.T) {
	shapes := Shapes()
	var next atomic.Int64
	for worker := range runtime.GOMAXPROCS(0) {
		t.Run(fmt.Sprint("worker=", worker), func(t *testing.T) {
			t.Parallel()
			for i := int(next.Add(1)) - 1; i < *seeds && !t.Failed(); i = int(next.Add(1)) - 1 {
				seed := *firstSeed + uint64(i)
				shape := shapes[seed%uint64(len(shapes))]
				result := play(t, shape, Plan(seed, *steps_))
				if result.Err != nil {
					t.Errorf("seed %d, shape %q: %v\n%s", seed, shape.Name, result.Err, result.Trace.Tail(60))
				}
			}
		})
	}
}
