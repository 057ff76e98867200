package inspect

import (
	"bytes"
	"context"
	"fmt"
	"runtime/debug"

	"ringmq/engine/message"
	"ringmq/engine/segment"
)

// Part of a store that is compared by itself.
type Part string

// The parts.
const (
	PartLog    Part = "log"
	PartQueues Part = "queues"
	PartIndex  Part = "index"
	PartConfig Part = "config"
)

// CompareOptions of one Compare.
type CompareOptions struct {
	Parts    []Part                  // nil: all
	Progress func(done, total int64) // of the log of the first store; may be nil
}

// Difference is one place where two stores part.
type Difference struct {
	Part   Part   `json:"part"`
	Place  string `json:"place"`
	Offset int64  `json:"offset"` // in the first store's log, or -1
	Text   string `json:"text"`
}

// Side is what Compare has seen of one store.
type Side struct {
	Dir         string `json:"dir"`
	InUse       bool   `json:"inUse"`
	SegmentSize int64  `json:"segmentSize"`
	Min         int64  `json:"min"`
	End         int64  `json:"end"` // behind the last whole record
	Records     int64  `json:"records"`
	HoleBytes   int64  `json:"holeBytes"` // that hold no whole record
	Queues      int    `json:"queues"`
	IndexFiles  int    `json:"indexFiles"`
	Keys        int64  `json:"keys"`
}

// Comparison is where two stores part.
type Comparison struct {
	A     Side `json:"a"`
	B     Side `json:"b"`
	Equal bool `json:"equal"`

	// ByOffset tells that records were compared at their places. Stores with segments of different sizes have other places: there record
	// after record is compared, but for the offsets in them.
	ByOffset    bool         `json:"byOffset"`
	SameRecords int64        `json:"sameRecords"`
	Differences []Difference `json:"differences"`
	Unlisted    int64        `json:"unlisted"` // differences beyond those that are listed
}

// comparer is one Compare.
type comparer struct {
	ctx    context.Context
	a, b   *Store
	o      CompareOptions
	report Comparison
}

// Compare says where two stores part. Of a store in use, what stands behind the end of the other one is not judged.
func Compare(ctx context.Context, a, b *Store, o CompareOptions) (*Comparison, error) {
	c := &comparer{ctx: ctx, a: a, b: b, o: o}
	c.report = Comparison{A: sideOf(a), B: sideOf(b), ByOffset: a.segmentSize == b.segmentSize || len(a.segments) == 0 || len(b.segments) == 0, Differences: []Difference{}}
	if len(o.Parts) == 0 {
		c.o.Parts = []Part{PartLog, PartQueues, PartIndex, PartConfig}
	}
	compare := map[Part]func() error{PartLog: c.log, PartQueues: c.queues, PartIndex: c.index, PartConfig: c.config}
	for _, part := range c.o.Parts {
		run, ok := compare[part]
		if !ok {
			return nil, fmt.Errorf("inspect: compare: no part %q", part)
		}
		if err := run(); err != nil {
			return nil, err
		}
	}
	c.report.Equal = len(c.report.Differences) == 0
	return &c.report, nil
}

func sideOf(s *Store) Side {
	return Side{Dir: s.dir, InUse: s.State.InUse(), SegmentSize: s.segmentSize, Min: s.logMin(), Queues: len(s.queues), IndexFiles: len(s.keyFiles)}
}

func (c *comparer) differ(part Part, place string, offset int64, format string, args ...any) {
	if len(c.report.Differences) >= maxFindings {
		c.report.Unlisted++
		return
	}
	c.report.Differences = append(c.report.Differences, Difference{part, place, offset, fmt.Sprintf(format, args...)})
}

// head is the record that a side of a comparison has come to.
type head struct {
	cursor *logCursor
	side   *Side
	record *message.Record
	bytes  []byte
	ok     bool
}

func (h *head) next() (err error) {
	if h.record, h.bytes, h.ok, err = h.cursor.next(); h.ok {
		h.side.Records++
	}
	h.side.End, h.side.HoleBytes = h.cursor.end, h.cursor.holes
	return err
}

// alone counts records that only one side has.
type alone struct {
	count, first, last int64 // records, and offsets
}

func (a *alone) note(h *head) {
	if a.count++; a.count == 1 {
		a.first = int64(h.record.Offset)
	}
	a.last = int64(h.record.Offset)
}

func (c *comparer) log() error {
	a := &head{cursor: newLogCursor(c.ctx, c.a), side: &c.report.A}
	b := &head{cursor: newLogCursor(c.ctx, c.b), side: &c.report.B}
	defer a.cursor.close()
	defer b.cursor.close()
	for _, h := range []*head{a, b} {
		if err := h.next(); err != nil {
			return err
		}
	}
	if c.report.ByOffset {
		return c.byOffset(a, b)
	}
	return c.inTurn(a, b)
}

// byOffset compares records at their places.
func (c *comparer) byOffset(a, b *head) error {
	var onlyA, onlyB alone
	differing := int64(0)
	for a.ok || b.ok {
		var err error
		switch {
		case !b.ok || a.ok && a.record.Offset < b.record.Offset:
			onlyA.note(a)
			err = a.next()
		case !a.ok || b.record.Offset < a.record.Offset:
			onlyB.note(b)
			err = b.next()
		default:
			if fields := unequal(a, b, true); fields == "" {
				c.report.SameRecords++
			} else if differing++; differing == 1 {
				c.differ(PartLog, "record", int64(a.record.Offset), "the first record that differs stands at %d: %s", a.record.Offset, fields)
			}
			if err = a.next(); err == nil {
				err = b.next()
			}
		}
		if err != nil {
			return err
		}
		c.progress(a)
	}
	if differing > 1 {
		c.differ(PartLog, "record", -1, "%d records differ in all", differing)
	}
	c.tellAlone(&onlyA, "first", "second", &c.report.B)
	c.tellAlone(&onlyB, "second", "first", &c.report.A)
	return nil
}

// tellAlone tells of records that one side has and the other, whose log is from Min to End, has not.
func (c *comparer) tellAlone(found *alone, has, lacks string, other *Side) {
	if found.count == 0 {
		return
	}
	why := ""
	switch {
	case found.last < other.Min:
		why = fmt.Sprintf(", whose log begins at %d", other.Min)
	case found.first >= other.End:
		if c.report.A.InUse || c.report.B.InUse {
			return // it moves
		}
		why = fmt.Sprintf(", whose log ends at %d", other.End)
	case other.HoleBytes > 0:
		why = fmt.Sprintf(", of whose log %s hold no whole record", count(other.HoleBytes, "byte"))
	}
	c.differ(PartLog, "record", found.first, "%s of the %s store, at %d to %d, %s not in the %s%s",
		count(found.count, "record"), has, found.first, found.last, isAre(found.count), lacks, why)
}

func isAre(n int64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// inTurn compares record after record, whatever their places.
func (c *comparer) inTurn(a, b *head) error {
	if err := c.align(a, b); err != nil {
		return err
	}
	for a.ok && b.ok {
		if fields := unequal(a, b, false); fields != "" {
			c.differ(PartLog, "record", int64(a.record.Offset), "behind %d equal records the stores part: the first has a record at %d, the second one at %d: %s",
				c.report.SameRecords, a.record.Offset, b.record.Offset, fields)
			break
		}
		c.report.SameRecords++
		if err := a.next(); err != nil {
			return err
		}
		if err := b.next(); err != nil {
			return err
		}
		c.progress(a)
	}
	restA, err := c.rest(a)
	if err != nil {
		return err
	}
	restB, err := c.rest(b)
	if err != nil {
		return err
	}
	if moving := c.report.A.InUse || c.report.B.InUse; restA != restB && !(moving && (restA == 0 || restB == 0)) {
		c.differ(PartLog, "end", -1, "from there on the first store has %s, the second %s", count(restA, "record"), count(restB, "record"))
	}
	return nil
}

// rest counts the records that are left.
func (c *comparer) rest(h *head) (n int64, err error) {
	for ; h.ok; n++ {
		if err := h.next(); err != nil {
			return n, err
		}
	}
	return n, nil
}

// align passes over the records that only one side has at its beginning, since retention has removed them from the other. The side whose
// first record was stored earlier has more.
func (c *comparer) align(a, b *head) error {
	if !a.ok || !b.ok || same(a.record, b.record) {
		return nil
	}
	longer, shorter, name := a, b, "first"
	if b.record.StoreTime < a.record.StoreTime {
		longer, shorter, name = b, a, "second"
	}
	n := int64(0)
	for longer.ok && longer.record.StoreTime <= shorter.record.StoreTime && !same(longer.record, shorter.record) {
		n++
		if err := longer.next(); err != nil {
			return err
		}
	}
	c.differ(PartLog, "begin", -1, "%s at the beginning of the %s store %s not in the other", count(n, "record"), name, isAre(n))
	return nil
}

// same tells whether two records have one place in their queues.
func same(a, b *message.Record) bool {
	return a.QueueOffset == b.QueueOffset && a.QueueID == b.QueueID && a.StoreTime == b.StoreTime && bytes.Equal(a.Topic, b.Topic)
}

func (c *comparer) progress(a *head) {
	if c.o.Progress != nil && a.side.Records%4096 == 0 {
		c.o.Progress(a.cursor.at-c.report.A.Min, int64(len(c.a.segments))*c.a.segmentSize)
	}
}

// unequal names the fields in which two records differ, with both values; "" when they do not. Without places, what tells of places is not
// looked at.
func unequal(a, b *head, places bool) (fields string) {
	if places && bytes.Equal(a.bytes, b.bytes) {
		return ""
	}
	var fault error
	defer func() {
		if fault != nil {
			fields = fault.Error()
		}
	}()
	defer segment.CatchFault(&fault, "inspect: read the log", debug.SetPanicOnFault(true))
	return fieldsOf(a.record, b.record, places)
}
