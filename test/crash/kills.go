package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// failpoints are the places at which a binary built with them kills itself.
var failpoints = []string{"beforeStamp", "afterCopy", "beforeWrite", "afterWrite", "beforeSync", "afterSync", "midRoll", "midCut"}

// storeRounds is how many rounds one store has: each audit reads all of it.
const storeRounds = 20

// kills runs n rounds of load and kill -9, at random times and at named places, and audits after each restart. It returns how many sends
// each round had acknowledged.
func kills(p plan, dir string, n int) (acked []int, err error) {
	rng := rand.New(rand.NewPCG(p.seed, 1))
	for first := 0; first < n && err == nil; first += storeRounds {
		store := filepath.Join(dir, strconv.Itoa(first))
		var some []int
		some, err = killsOf(p, store, first, min(first+storeRounds, n), rng)
		acked = append(acked, some...)
		if err == nil {
			err = os.RemoveAll(store)
		}
	}
	return acked, err
}

// killsOf runs the rounds from first up to end on one store.
func killsOf(p plan, dir string, first, end int, rng *rand.Rand) ([]int, error) {
	b := &broker{binary: p.binary, dir: dir, settings: p.mode.settings()}
	l := newLedger()
	if err := firstStart(b); err != nil {
		return nil, err
	}
	var acked []int
	for round := first; round < end; round++ {
		point := ""
		if p.points && round%2 == 1 {
			point = failpointOf(round/2, rng)
			if err := beginAt(b, point, rng); err != nil {
				return acked, fmt.Errorf("round %d (%s): %w", round, point, err)
			}
		}
		l.count = 0
		if !b.gone() {
			loadUntilGone(l, b, rng, p.loadTime(rng), point != "")
		}
		l.struck = time.Now()
		acked = append(acked, l.count)
		if round%3 == 2 {
			if err := tearTail(b.store(), rng); err != nil {
				return acked, err
			}
		}
		if round%5 == 4 { // once more within 200 ms of the start
			if err := b.begin(""); err != nil {
				return acked, err
			}
			time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
			b.kill()
		}
		begun := time.Now()
		if err := b.start(); err != nil {
			return acked, fmt.Errorf("round %d (%s): %w", round, point, err)
		}
		started := time.Since(begun)
		if err := l.audit(b, rng, p.mode.window(false)); err != nil {
			return acked, fmt.Errorf("round %d (%s): %w\n%s", round, point, err, b.out)
		}
		fmt.Printf("kill %2d: %-16s %5d acknowledged, %s, start %d ms\n", round, point, l.count, l.losses, started.Milliseconds())
	}
	return acked, b.stop()
}

// failpointOf is the n-th failpoint and after how many passes it strikes: rare places at once, those of every message later.
func failpointOf(n int, rng *rand.Rand) string {
	switch name := failpoints[n%len(failpoints)]; name {
	case "midRoll", "midCut":
		return name
	default:
		return fmt.Sprintf("%s:%d", name, 200+rng.IntN(300))
	}
}

// beginAt restarts the broker so that it kills itself at point. midCut strikes in the recovery of a torn tail: it is gone afterwards.
func beginAt(b *broker, point string, rng *rand.Rand) error {
	if point == "midCut" {
		b.kill()
		if err := tearTail(b.store(), rng); err != nil {
			return err
		}
	} else if err := b.stop(); err != nil {
		return err
	}
	if err := b.begin(point); err != nil {
		return err
	}
	up, err := b.ready()
	if err != nil {
		return err
	}
	if !up && point != "midCut" {
		return fmt.Errorf("the broker ended before it was up:\n%s", b.out)
	}
	return nil
}

func firstStart(b *broker) error {
	if err := b.start(); err != nil {
		return err
	}
	c, err := dial(b.port)
	if err != nil {
		return err
	}
	defer c.Close()
	if ok, err := c.createTopic(topic, queues); err != nil || !ok {
		return fmt.Errorf("topic %s was not made (%v):\n%s", topic, err, b.out)
	}
	return nil
}

// loadUntilGone sends until the broker is killed: by itself at a failpoint, or by us after wait.
func loadUntilGone(l *ledger, b *broker, rng *rand.Rand, wait time.Duration, itself bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.run(b.port, rng.Uint64(), b.ended)
	}()
	if itself {
		wait = 10 * time.Second // a place that is not passed (midCut without a torn tail) is a kill at a random time
	}
	select {
	case <-b.ended:
	case <-time.After(wait):
		b.kill()
	}
	<-done
}

// tearTail writes what a power cut may leave behind the end of the log: the first half of a record, and behind it another whole one.
func tearTail(store string, rng *rand.Rand) error {
	folder := filepath.Join(store, "commitlog")
	end, err := walk(store)
	if err != nil || end < 0 {
		return nil // the kill has torn a write by itself, or the log ends with its last segment
	}
	base := end / segmentSize * segmentSize
	name := filepath.Join(folder, fmt.Sprintf("%020d", base))
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	first := make([]byte, 4096)
	n, err := f.ReadAt(first, 0)
	if err != nil {
		return err
	}
	size := int(uint32(first[0])<<24 | uint32(first[1])<<16 | uint32(first[2])<<8 | uint32(first[3]))
	if size < 91 || size > n || end-base+2*int64(size)+8 > segmentSize {
		return nil
	}
	torn := slices.Concat(first[:size/2], make([]byte, size-size/2), first[:size])
	if rng.IntN(2) == 0 {
		torn = first[:size/2]
	}
	if _, err := f.WriteAt(torn, end-base); err != nil {
		return err
	}
	return f.Sync()
}
