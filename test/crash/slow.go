package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	slowTime     = 10 * time.Second // how long the disk is slow
	hangTime     = 8 * time.Second  // how long a sync hangs: longer than the broker waits for it (syncFlushTimeout 5 s)
	inTime       = 7 * time.Second  // the latest answer to a send whose flush hangs
	readTime     = 5 * time.Second  // the latest answer to a pull meanwhile
	slowResident = 128 << 20        // bytes that the process may grow by: what waits for room (64 MiB at most), once more for the collector
)

// trickles are what a slow disk lets through: in the first, flushes wait for each other; in the second they take longer than the broker waits.
var trickles = []struct{ bytes, writes int }{{200 << 10, 20}, {8 << 10, 1}}

// slows runs n rounds on a disk that is slow for a while, but does not fail: a loop device throttled by a cgroup, or, on a volatile disk, a sync that hangs. Each
// send has to be answered, nothing may latch, and when the disk is fast again all is well without a restart.
func slows(p plan, dir string, n int) (acked []int, err error) {
	rng := rand.New(rand.NewPCG(p.seed, 4))
	for round := range n {
		l := newLedger()
		what, err := "throttled", error(nil)
		folder := filepath.Join(dir, strconv.Itoa(round))
		if p.disk.name == "loop" {
			err = slowRound(p, folder, round, l, rng)
		} else {
			what, err = "hanging sync", hangRound(p, folder, l, rng)
		}
		if errors.Is(err, errNoThrottle) {
			fmt.Println("slow disk: skipped:", err)
			return acked, nil
		}
		if err != nil {
			return acked, fmt.Errorf("slow disk %d (%s): %w", round, what, err)
		}
		acked = append(acked, l.count)
	}
	return acked, nil
}

// slowRound floods a broker whose disk is throttled.
func slowRound(p plan, dir string, round int, l *ledger, rng *rand.Rand) (err error) {
	d, err := newDisk(dir)
	if err != nil {
		return err
	}
	b := &broker{binary: p.binary, dir: d.mount, settings: p.mode.settings()}
	t, err := newThrottle(fmt.Sprintf("ringmq-crash-%d", os.Getpid()), d.mount)
	if err != nil {
		return errors.Join(err, d.detach())
	}
	defer func() { err = errors.Join(err, cleanUp(b, d, t)) }()
	if err := firstStart(b); err != nil {
		return err
	}
	if err := t.join(b.cmd.Process.Pid); err != nil {
		return err
	}
	if err := healthy(l, b, "before", rng); err != nil {
		return err
	}
	before, err := resident(b.cmd.Process.Pid)
	if err != nil {
		return err
	}
	trickle := trickles[round%len(trickles)]
	if err := t.limit(trickle.bytes, trickle.writes); err != nil {
		return err
	}
	flood, stop := begin(l, b, "flood", 4, 6000, rng)
	peak, err := watch(b)
	err = errors.Join(err, t.free())
	close(stop)
	got := <-flood
	if err = errors.Join(err, got.err); err != nil {
		return fmt.Errorf("%w\n%s", err, b.out)
	}
	fmt.Printf("slow %2d: %d KB/s, %d writes/s: %v; resident %d MB before, %d MB at most\n",
		round, trickle.bytes>>10, trickle.writes, &got.tally, before>>20, peak>>20)
	switch {
	case got.tally.count[answerBusy] == 0 || got.tally.count[answerFlushTimeout] == 0:
		return fmt.Errorf("the disk was not slow enough, the round shows nothing: %v", &got.tally)
	case peak > before+slowResident:
		return fmt.Errorf("the process grew from %d to %d bytes, allowed are %d more", before, peak, slowResident)
	}
	if err := got.tally.only(answerOK, answerFlushTimeout, answerBusy); err != nil {
		return err
	}
	if err := healthy(l, b, "after", rng); err != nil {
		return fmt.Errorf("the disk is fast again: %w", err)
	}
	b.kill()
	return restart(l, b, rng)
}

// hangRound lets one sync hang, and cuts the power when all is well again.
func hangRound(p plan, dir string, l *ledger, rng *rand.Rand) (err error) {
	made, err := p.disk.make(dir, p.seed)
	if err != nil {
		return err
	}
	d := made.(*volatileDisk)
	b := &broker{binary: p.binary, dir: d.folder(), settings: p.mode.settings()}
	defer func() { err = errors.Join(err, cleanUp(b, d, nil)) }()
	if err := firstStart(b); err != nil {
		return err
	}
	if err := healthy(l, b, "before", rng); err != nil {
		return err
	}
	load, stop := begin(l, b, "load", senders, 1, rng)
	err = d.hang(hangTime)
	if err == nil {
		_, err = watch(b)
	}
	close(stop)
	got := <-load
	if err = errors.Join(err, got.err); err != nil {
		return fmt.Errorf("%w\n%s", err, b.out)
	}
	fmt.Printf("hang   : a sync of %v: %v\n", hangTime, &got.tally)
	if got.tally.count[answerFlushTimeout] == 0 || got.tally.slowest[answerFlushTimeout] > inTime {
		return fmt.Errorf("want answers with code %d within %v: %v", answerFlushTimeout, inTime, &got.tally)
	}
	if err := got.tally.only(answerOK, answerFlushTimeout); err != nil {
		return err
	}
	if err := healthy(l, b, "after", rng); err != nil {
		return fmt.Errorf("the sync has ended: %w", err)
	}
	if err := d.cut(); err != nil {
		return err
	}
	b.kill()
	if err := d.detach(); err != nil {
		return err
	}
	if err := d.attach(); err != nil {
		return err
	}
	return restart(l, b, rng)
}

type result struct {
	tally tally
	err   error
}

// begin starts streams, which go on until stop is closed.
func begin(l *ledger, b *broker, name string, n, window int, rng *rand.Rand) (<-chan result, chan struct{}) {
	done, stop, seed := make(chan result, 1), make(chan struct{}), rng.Uint64()
	go func() {
		sum, err := l.streams(b.port, n, name, window, seed, stop)
		done <- result{sum, err}
	}()
	return done, stop
}

// healthy sends for a second and insists that everything is stored.
func healthy(l *ledger, b *broker, name string, rng *rand.Rand) error {
	load, stop := begin(l, b, name, senders, 1, rng)
	time.Sleep(time.Second)
	close(stop)
	got := <-load
	if got.err != nil {
		return fmt.Errorf("%w\n%s", got.err, b.out)
	}
	if got.tally.count[answerOK] < senders {
		return fmt.Errorf("%d sends in a second", got.tally.count[answerOK])
	}
	return got.tally.only(answerOK)
}

// watch pulls what was stored before for as long as the disk is slow, and tells the most memory that the broker had.
func watch(b *broker) (peak int64, err error) {
	c, err := dial(b.port)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	for begun := time.Now(); time.Since(begun) < slowTime; time.Sleep(100 * time.Millisecond) {
		asked := time.Now()
		a, err := c.pull(topic, 0, 0)
		if err != nil {
			return peak, fmt.Errorf("a pull on a slow disk: %w", err)
		}
		if took := time.Since(asked); a.Code != answerOK || len(a.body) == 0 || took > readTime {
			return peak, fmt.Errorf("a pull on a slow disk: code %d, %d bytes after %v: %s", a.Code, len(a.body), took, a.Remark)
		}
		now, err := resident(b.cmd.Process.Pid)
		if err != nil {
			return peak, err
		}
		peak = max(peak, now)
	}
	return peak, nil
}

// resident is VmRSS in bytes.
func resident(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, found := strings.CutPrefix(line, "VmRSS:"); found {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("no VmRSS of process %d", pid)
}

func restart(l *ledger, b *broker, rng *rand.Rand) error {
	before := b.out.String()
	if err := b.start(); err != nil {
		return err
	}
	if err := l.audit(b, rng, 0); err != nil {
		return fmt.Errorf("%w\nbefore the restart:\n%s\nafter it:\n%s", err, before, b.out)
	}
	return nil
}

// cleanUp ends the broker, then frees what it used.
func cleanUp(b *broker, d powerDisk, t *throttle) error {
	if b.cmd != nil {
		b.kill()
	}
	var err error
	if t != nil {
		err = t.remove()
	}
	return errors.Join(err, d.detach())
}
