package inspect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"ringmq/engine/consumequeue"
)

// compareChunk is how many entries of a queue are read at a time.
const compareChunk = 4096

// queues compares minimum, maximum and entries of all queues.
func (c *comparer) queues() error {
	byID := make(map[consumequeue.ID][2]*queue)
	for i, s := range []*Store{c.a, c.b} {
		for _, q := range s.queues {
			pair := byID[q.id]
			pair[i] = q
			byID[q.id] = pair
		}
	}
	buf := make([]byte, maxScanRead)
	for _, id := range slices.SortedFunc(maps.Keys(byID), compareIDs) {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if err := c.queue(id, byID[id], buf); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparer) queue(id consumequeue.ID, pair [2]*queue, buf []byte) error {
	var sums [2]QueueSummary
	for i, s := range []*Store{c.a, c.b} {
		if pair[i] == nil {
			continue
		}
		sums[i] = QueueSummary{First: pair[i].first()}
		if _, err := sums[i].find(pair[i], s.logMin(), buf); err != nil && !(s.State.InUse() && errors.Is(err, fs.ErrNotExist)) {
			c.differ(PartQueues, queueName(id), -1, "it cannot be read: %v", err)
			return nil
		}
	}
	a, b := &sums[0], &sums[1]
	moving := c.a.State.InUse() || c.b.State.InUse()
	switch {
	case pair[0] == nil || pair[1] == nil:
		has, with := "first", a
		if pair[0] == nil {
			has, with = "second", b
		}
		if with.Max > with.Min && !moving {
			c.differ(PartQueues, queueName(id), -1, "only the %s store has it, with %d to %d", has, with.Min, with.Max)
		}
		return nil
	case a.Min != b.Min || a.Max != b.Max && !moving:
		c.differ(PartQueues, queueName(id), -1, "it is %d to %d and %d to %d", a.Min, a.Max, b.Min, b.Max)
	}
	return c.entries(id, pair, max(a.Min, b.Min), min(a.Max, b.Max), buf)
}

// entries compares the entries that both sides have.
func (c *comparer) entries(id consumequeue.ID, pair [2]*queue, from, to int64, buf []byte) error {
	var chunks [2][compareChunk]consumequeue.Entry
	differing, first, text := int64(0), int64(0), ""
	for from < to {
		n := int(min(to-from, compareChunk))
		for i, q := range pair {
			got, err := q.read(from, chunks[i][:n], buf)
			if err != nil {
				c.differ(PartQueues, queueName(id), -1, "it cannot be read: %v", err)
				return nil
			}
			n = min(n, got)
		}
		if n == 0 {
			break // a hole, which verify tells
		}
		for i := range n {
			x, y := chunks[0][i], chunks[1][i]
			if !c.report.ByOffset {
				x.Offset, y.Offset = 0, 0
			}
			if x == y {
				continue
			}
			if differing++; differing == 1 {
				first, text = from+int64(i), fmt.Sprintf("%d bytes at %d with tags %d and %d bytes at %d with tags %d",
					x.Size, chunks[0][i].Offset, x.TagsCode, y.Size, chunks[1][i].Offset, y.TagsCode)
			}
		}
		from += int64(n)
	}
	if differing > 0 {
		c.differ(PartQueues, queueName(id), -1, "%s, the first is number %d: %s", differOf(differing), first, text)
	}
	return nil
}

func differOf(n int64) string {
	if n == 1 {
		return "1 entry differs"
	}
	return fmt.Sprintf("%d entries differ", n)
}

// index compares for which part of the log there are keys, and how many. Files are named and divided by when they were made, so they are
// not compared one by one.
func (c *comparer) index() error {
	type coverage struct {
		keys, begin, end int64
	}
	var sides [2]coverage
	for i, s := range []*Store{c.a, c.b} {
		x := &sides[i]
		for j := range s.keyFiles {
			f := &s.keyFiles[j]
			if f.err != nil {
				c.differ(PartIndex, f.path, -1, "it cannot be read: %v", f.err)
				continue
			}
			if f.header.Count <= 1 {
				continue
			}
			if x.keys == 0 {
				x.begin = int64(f.header.Begin)
			}
			x.keys += int64(f.header.Count) - 1
			x.end = max(x.end, int64(f.header.End))
		}
	}
	c.report.A.Keys, c.report.B.Keys = sides[0].keys, sides[1].keys
	if !c.report.ByOffset {
		for i := range sides {
			sides[i].begin, sides[i].end = 0, 0
		}
	}
	if a, b := sides[0], sides[1]; a != b && !c.a.State.InUse() && !c.b.State.InUse() {
		c.differ(PartIndex, "keys", -1, "%d keys of records at %d to %d and %d of records at %d to %d", a.keys, a.begin, a.end, b.keys, b.begin, b.end)
	}
	return nil
}

// config compares settings row by row; that one file was written more often than the other is no difference.
func (c *comparer) config() error {
	type place struct{ file, table, key string }
	var sides [2]map[place]string
	all := make(map[place]bool)
	for i, s := range []*Store{c.a, c.b} {
		sides[i] = make(map[place]string)
		err := s.Config(func(item ConfigItem) error {
			if item.Table == "" && (item.Key == "dataVersion" || item.Key == "stateVersion") {
				return nil
			}
			p := place{item.File, item.Table, item.Key}
			sides[i][p], all[p] = canonical(item.Value), true
			return nil
		}, func(file string, err error) {
			if !errors.Is(err, fs.ErrNotExist) {
				c.differ(PartConfig, file, -1, "in the %s store: %v", []string{"first", "second"}[i], err)
			}
		})
		if err != nil {
			return err
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(all), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.table, b.table), cmp.Compare(a.key, b.key))
	}) {
		x, hasA := sides[0][p]
		y, hasB := sides[1][p]
		where := p.file + " " + p.key
		switch {
		case !hasB:
			c.differ(PartConfig, where, -1, "only the first store has it")
		case !hasA:
			c.differ(PartConfig, where, -1, "only the second store has it")
		case x != y:
			c.differ(PartConfig, where, -1, "%s and %s", short(x), short(y))
		}
	}
	return nil
}

// canonical is JSON whose equal values have equal texts.
func canonical(value json.RawMessage) string {
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	var v any
	if decoder.Decode(&v) != nil {
		return string(value)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return string(value)
	}
	return string(b)
}

func short(text string) string {
	const enough = 160
	if len(text) <= enough {
		return text
	}
	return text[:enough] + "…"
}
