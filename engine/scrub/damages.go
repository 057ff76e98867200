package scrub

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"ringmq/engine/message"
	"ringmq/engine/seal"
	"ringmq/engine/segment"
)

// maxDamages bounds what is kept of damage, and so what is told of it: a disk that dies has no end of it.
const maxDamages = 1000

// Damage is a stretch of the log that is not what it was, or never was whole.
type Damage struct {
	File        string // path of the segment
	Block, Last int    // the blocks of 1 MiB of the file that it lies in, counted from 0
	From, To    message.Offset
	Reason      string

	base   message.Offset
	sealed bool // it stands in the segment's seal
}

// Blocks names the blocks.
func (d *Damage) Blocks() string {
	if d.Block == d.Last {
		return fmt.Sprint(d.Block)
	}
	return fmt.Sprintf("%d to %d", d.Block, d.Last)
}

func (d *Damage) String() string {
	return fmt.Sprintf("%s block %s, offset %d to %d: %s", d.File, d.Blocks(), d.From, d.To, d.Reason)
}

// damages are those told in this run. Each is told once, not in each round.
type damages struct {
	logger  *slog.Logger
	metrics *Metrics

	mu     sync.Mutex // short
	found  []Damage
	silent bool // that there are too many was told
}

func (d *damages) list() []Damage {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.found)
}

// add keeps a damage; false if it lies in one that is known, or there are too many.
func (d *damages) add(n Damage) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.found {
		if d.found[i].From <= n.From && n.To <= d.found[i].To {
			return false
		}
	}
	if len(d.found) < maxDamages {
		d.metrics.Damaged.Add(1)
		d.found = append(d.found, n)
		return true
	}
	if !d.silent {
		d.silent = true
		d.logger.Error("the commit log is damaged in very many places, no further ones are told in this run", "told", maxDamages)
	}
	return false
}

// forget lets go of what was damaged in the segment that begins at base, but for what stands in its seal if that is to stay, and tells how many
// stretches that were.
func (d *damages) forget(base message.Offset, sealedStay bool) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := len(d.found)
	d.found = slices.DeleteFunc(d.found, func(f Damage) bool { return f.base == base && !(sealedStay && f.sealed) })
	return before - len(d.found)
}

// tell logs damage, names file, blocks and offset, and keeps it for metrics and health. What it has said in this run it does not say
// again, and of a segment that was removed meanwhile nothing. sealed tells that it stands in the segment's seal.
func (s *Scrubber) tell(f *segment.File, at seal.Stretch, reason string, sealed bool) {
	base := message.Offset(f.Base())
	d := Damage{
		File: s.file(base), Block: int((at.From - base) / seal.BlockSize), Last: int((at.To - 1 - base) / seal.BlockSize),
		From: at.From, To: at.To, Reason: reason, base: base, sealed: sealed,
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	if !s.removed(f) && s.damages.add(d) {
		s.o.Logger.Error("the commit log is damaged", "file", d.File, "block", d.Blocks(), "offset", int64(d.From), "to", int64(d.To), "reason", reason)
	}
}
