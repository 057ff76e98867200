// Command crash kills a broker and cuts the power of its disk under load, again and again, and checks after each restart that nothing
// acknowledged is lost, doubled or out of order. It ends with code 1 at the first fault it finds.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"
)

func main() {
	binary := flag.String("ringmq", "bin/ringmq", "the broker's `binary`")
	dir := flag.String("dir", "", "`folder` for stores and disk images; default: a new temporary one, removed at the end")
	nKills := flag.Int("kills", 50, "rounds of kill -9")
	nCuts := flag.Int("cuts", 10, "rounds of power cuts (needs root)")
	nErrors := flag.Int("ioerrors", 3, "rounds of failing flushes (needs root)")
	length := flag.Duration("soak", 0, "how long to soak, after the rounds")
	p := plan{mode: syncFlush}
	flag.Var(&p.mode, "mode", "how the broker flushes: `sync`, async, or pool (async with the transient pool)")
	flag.BoolVar(&p.points, "failpoints", false, "the binary is built with failpoints: use them in every other round")
	flag.DurationVar(&p.longest, "longest", 3*time.Second, "the longest time of load before a kill or a cut")
	flag.Uint64Var(&p.seed, "seed", uint64(time.Now().UnixNano()), "seed of the random times and bodies")
	nSlow := flag.Int("slow", 0, "rounds on a disk that is slow for a while (needs root): throttled, or with -disk volatile one whose sync hangs")
	flag.StringVar(&p.disk.name, "disk", "loop", "what the power is cut of: `loop` (an ext4 is shut down), volatile (a disk with a volatile cache below the ext4),\nor nobarrier (the same without flushes: the suite has to fail)")
	flag.StringVar(&p.disk.volatile, "volatile", "", "the `binary` of test/volatile, for -disk volatile and nobarrier")
	flag.Parse()
	fmt.Println("seed", p.seed, "mode", p.mode)
	if err := suite(*binary, *dir, counts{*nKills, *nCuts, *nErrors, *nSlow, *length}, p); err != nil {
		fmt.Fprintln(os.Stderr, "FAULT:", err)
		os.Exit(1)
	}
	fmt.Println("no fault found")
}

// counts are rounds of each kind, and the length of the soak.
type counts struct {
	kills, cuts, ioErrors, slow int
	soak                        time.Duration
}

// plan is what all rounds of a run have in common.
type plan struct {
	binary  string
	mode    mode
	disk    diskKind
	points  bool
	longest time.Duration
	seed    uint64
}

// loadTime is how long a round sends before it strikes.
func (p plan) loadTime(rng *rand.Rand) time.Duration {
	least := p.longest / 6
	return least + time.Duration(rng.Int64N(int64(p.longest-least)))
}

func suite(binary, dir string, n counts, p plan) error {
	if err := p.disk.check(); err != nil {
		return err
	}
	if p.longest < 100*time.Millisecond {
		return fmt.Errorf("-longest is %v, must be at least 100ms", p.longest)
	}
	if n.ioErrors+n.slow > 0 && p.mode != syncFlush {
		return fmt.Errorf("rounds of failing flushes and slow disks are for -mode sync; otherwise: -ioerrors 0 -slow 0")
	}
	if dir == "" {
		temporary, err := os.MkdirTemp("", "ringmq-crash")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temporary)
		dir = temporary
	}
	var err error
	if p.binary, err = filepath.Abs(binary); err != nil {
		return err
	}
	if n.cuts+n.ioErrors+n.slow > 0 && os.Geteuid() != 0 {
		return fmt.Errorf("power cuts, failing flushes and slow disks need root (loop mounts); without: -cuts 0 -ioerrors 0 -slow 0")
	}
	acked, err := kills(p, filepath.Join(dir, "kills"), n.kills)
	summarize("kills", acked)
	if err != nil {
		return err
	}
	acked, err = cuts(p, filepath.Join(dir, "cuts"), n.cuts)
	summarize("power cuts", acked)
	if err != nil {
		return err
	}
	acked, err = ioErrors(p, filepath.Join(dir, "ioerrors"), n.ioErrors)
	summarize("failing flushes", acked)
	if err != nil {
		return err
	}
	acked, err = slows(p, filepath.Join(dir, "slow"), n.slow)
	summarize("slow disks", acked)
	if err != nil {
		return err
	}
	return soak(p, filepath.Join(dir, "soak"), n.soak)
}

func summarize(what string, acked []int) {
	if len(acked) == 0 {
		return
	}
	sorted := slices.Sorted(slices.Values(acked))
	fmt.Printf("%s: %d rounds, acknowledged sends a round: min %d, median %d, max %d\n",
		what, len(sorted), sorted[0], sorted[len(sorted)/2], sorted[len(sorted)-1])
}
