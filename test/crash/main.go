// Command crash kills a broker and cuts the power of its disk under load, again and again, and checks after each restart that nothing
// acknowledged is lost, doubled or out of order. It ends with code 1 at the first fault it finds.
package main

import (
	"flag"
	"fmt"
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
	points := flag.Bool("failpoints", false, "the binary is built with failpoints: use them in every other round")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of the random times and bodies")
	flag.Parse()
	fmt.Println("seed", *seed)
	if err := suite(*binary, *dir, counts{*nKills, *nCuts, *nErrors}, *points, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "FAULT:", err)
		os.Exit(1)
	}
	fmt.Println("no fault found")
}

// counts are rounds of each kind.
type counts struct{ kills, cuts, ioErrors int }

func suite(binary, dir string, n counts, points bool, seed uint64) error {
	if dir == "" {
		temporary, err := os.MkdirTemp("", "ringmq-crash")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temporary)
		dir = temporary
	}
	binary, err := filepath.Abs(binary)
	if err != nil {
		return err
	}
	if n.cuts+n.ioErrors > 0 && os.Geteuid() != 0 {
		return fmt.Errorf("power cuts and failing flushes need root (loop mounts); without: -cuts 0 -ioerrors 0")
	}
	acked, err := kills(binary, filepath.Join(dir, "kills"), n.kills, points, seed)
	summarize("kills", acked)
	if err != nil {
		return err
	}
	acked, err = cuts(binary, filepath.Join(dir, "cuts"), n.cuts, seed)
	summarize("power cuts", acked)
	if err != nil {
		return err
	}
	acked, err = ioErrors(binary, filepath.Join(dir, "ioerrors"), n.ioErrors, seed)
	summarize("failing flushes", acked)
	return err
}

func summarize(what string, acked []int) {
	if len(acked) == 0 {
		return
	}
	sorted := slices.Sorted(slices.Values(acked))
	fmt.Printf("%s: %d rounds, acknowledged sends a round: min %d, median %d, max %d\n",
		what, len(sorted), sorted[0], sorted[len(sorted)/2], sorted[len(sorted)-1])
}
