package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
	"ringmq/engine/segment"
)

const (
	// Entries held in memory for all queues together, and at most and at least for one.
	heldEntries    = 2 << 20
	maxHeldEntries = 8192
	minHeldEntries = 32

	// maxAbsent bounds how many queues that have no folder are told apart: their names come from records.
	maxAbsent = 65_536

	scheduleTopic = "SCHEDULE_TOPIC_XXXX"
)

// queueState is what a verifier knows of the queues.
type queueState struct {
	cursors    map[string]map[int32]*cursor
	order      []*cursor
	lastFound  *cursor
	absent     map[consumequeue.ID]*run // records of queues without a folder
	absentMore run
	dispatched int64 // the greatest offset of a record that has its entry, -1 if none has
	perQueue   int
	buf        []byte
}

// cursor is how far a queue has been compared with the log. Records come in the order of the log, and so, in a queue that is right, in
// the order of its entries.
type cursor struct {
	q   *queue
	end int64 // number of the first unit that is no entry

	records int64  // that belong to it
	anew    string // why its files are to be made anew, "": they are not
	next    int64  // entries below are settled: compared with their record, or found to have none

	heldFrom int64
	held     []consumequeue.Entry

	problems [problems]*run
}

// problem is a way in which entries and records do not agree.
type problem int

const (
	missingFront problem = iota // records before the queue's first file
	missingBack                 // records behind the queue's end
	twice                       // records whose number another record has the entry of
	lost                        // entries of records that are damaged
	wrong                       // entries that their record does not bear out
	beyond                      // entries of records behind the end of the log
	wrongTags
	problems
)

// run sums up what is wrong in one way.
type run struct {
	count                     int64
	firstNumber, lastNumber   int64
	lowestOffset, firstOffset int64
	why                       string // of the first
}

func (p *run) note(number, offset int64, why string) {
	if p.count == 0 {
		p.firstNumber, p.lowestOffset, p.firstOffset, p.why = number, offset, offset, why
	}
	p.count++
	p.firstNumber, p.lastNumber = min(p.firstNumber, number), max(p.lastNumber, number)
	p.lowestOffset = min(p.lowestOffset, offset)
}

func (c *cursor) note(p problem, number, offset int64, why string) {
	if c.problems[p] == nil {
		c.problems[p] = new(run)
	}
	c.problems[p].note(number, offset, why)
}

// readQueues finds the ends of all queues and checks their files.
func (v *verifier) readQueues() error {
	v.cursors, v.absent = make(map[string]map[int32]*cursor), make(map[consumequeue.ID]*run)
	v.dispatched = -1
	v.perQueue = max(min(heldEntries/max(len(v.s.queues), 1), maxHeldEntries), minHeldEntries)
	v.buf = make([]byte, maxScanRead)
	for _, q := range v.s.queues {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		c := &cursor{q: q}
		if v.cursors[q.id.Topic] == nil {
			v.cursors[q.id.Topic] = make(map[int32]*cursor)
		}
		v.cursors[q.id.Topic][q.id.QueueID] = c
		v.order = append(v.order, c)
		v.checkFiles(c)
		if err := v.readQueue(c); err != nil {
			if !errors.Is(err, fs.ErrNotExist) || !v.report.InUse {
				c.anew = fmt.Sprintf("it cannot be read: %v", err)
				v.addQueue(KindQueueFile, Damage, q.id, c.end, 0, c.anew)
			}
		}
	}
	return nil
}

func (v *verifier) checkFiles(c *cursor) {
	q := c.q
	for i := range q.files {
		f := &q.files[i]
		if f.size != v.s.queueFileSize && (i < len(q.files)-1 || !v.inTheMaking(f.size, v.s.queueFileSize)) {
			c.anew = fmt.Sprintf("%s has %d bytes, a queue file of this store has %d", f.path, f.size, v.s.queueFileSize)
			v.report.add(damaged(KindQueueFile, f.path, "it has %d bytes, a queue file of this store has %d", f.size, v.s.queueFileSize))
		}
		if i > 0 && f.base > q.files[i-1].base+v.s.queueFileSize {
			c.anew = fmt.Sprintf("no file has the entries %d to %d", q.files[i-1].limit(), f.first())
			v.addQueue(KindQueueFile, Damage, q.id, q.files[i-1].limit(), f.first()-q.files[i-1].limit(), c.anew)
		}
	}
}

func (v *verifier) readQueue(c *cursor) (err error) {
	first := c.q.first()
	front := true // no entry of a record that is still there has come
	c.next = first
	c.end, err = c.q.scanEntries(first, v.buf, func(n int64, e consumequeue.Entry) error {
		v.report.Entries++
		switch {
		case e.Filler():
			v.report.Fillers++
		case front && int64(e.Offset) < v.report.Min:
			v.report.Expired++
		default:
			front = false
		}
		if front {
			c.next = n + 1
		}
		return nil
	})
	if err != nil || v.report.InUse {
		return err
	}
	at, found, err := c.q.dataFrom(c.end, v.buf)
	if err == nil && found {
		severity := Damage
		if v.report.Unclean {
			severity = Torn
		}
		c.anew = fmt.Sprintf("its entries end at %d, but unit %d is not empty", c.end, at)
		v.addQueue(KindQueueFile, severity, c.q.id, c.end, 0, c.anew)
	}
	return err
}

// match compares a record with its entry.
func (v *verifier) match(r *message.Record) error {
	if !message.InQueue(r.SysFlag) {
		return nil
	}
	n, offset := int64(r.QueueOffset), int64(r.Offset)
	c := v.cursorOf(r)
	if c == nil {
		v.noteAbsent(r)
		return nil
	}
	c.records++
	if n >= c.end && v.report.InUse { // its queue has grown since
		end, err := c.q.scanEntries(c.end, v.buf, nil)
		if err == nil {
			c.end = end
		}
	}
	e, ok := v.entry(c, n)
	if v.report.InUse && ok && (e.Offset != r.Offset || e.Size != r.Size || !tagsRight(r, e)) {
		c.held = c.held[:0] // it may have been read while it was written, which is over now
		e, ok = v.entry(c, n)
	}
	switch {
	case !ok && n < c.q.first():
		c.note(missingFront, n, offset, "")
		return nil
	case !ok:
		c.note(missingBack, n, offset, "")
		return nil
	}
	v.settle(c, n)
	switch {
	case e.Offset == r.Offset && e.Size == r.Size:
		v.dispatched = max(v.dispatched, offset)
		if !tagsRight(r, e) {
			c.note(wrongTags, n, offset, fmt.Sprintf("entry %d has %d, its record at %d has %d", n, e.TagsCode, offset, tagsCode(r)))
		}
	case e.Offset != r.Offset && v.bears(c, n, e) == "":
		c.note(twice, n, offset, fmt.Sprintf("the record at %d has no entry: number %d is that of the record at %d", offset, n, e.Offset))
	default:
		c.note(wrong, n, offset, fmt.Sprintf("entry %d is of %d bytes at %d, its record has %d at %d", n, e.Size, e.Offset, r.Size, offset))
	}
	return nil
}

// settle looks at the entries before n that no record has come for, and is done with n.
func (v *verifier) settle(c *cursor, n int64) {
	for ; c.next < n; c.next++ {
		e, ok := v.entry(c, c.next)
		if !ok || e.Filler() {
			continue
		}
		v.judge(c, c.next, e)
	}
	c.next = max(c.next, n+1)
}

// judge looks at an entry that no record has come for.
func (v *verifier) judge(c *cursor, n int64, e consumequeue.Entry) {
	why := v.bears(c, n, e)
	switch {
	case why == "":
	case v.lost(int64(e.Offset)):
		c.note(lost, n, int64(e.Offset), why)
	default:
		c.note(wrong, n, int64(e.Offset), why)
	}
}

// finishQueues looks at the entries that no record has come for by the end of the log, and tells what was found.
func (v *verifier) finishQueues() error {
	for _, c := range v.order {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		for ; c.next < c.end; c.next++ {
			e, ok := v.entry(c, c.next)
			switch {
			case !ok || e.Filler():
			case int64(e.Offset) >= v.report.End:
				if !v.report.InUse {
					c.note(beyond, c.next, int64(e.Offset), "")
				}
			default:
				v.judge(c, c.next, e)
			}
		}
	}
	for _, c := range v.order { // only now is it known how far dispatch had come
		for p, found := range c.problems {
			if found != nil {
				v.tell(c, problem(p), found)
			}
		}
		v.report.Needs.needQueue(c)
	}
	v.tellAbsent()
	return nil
}

// bears says why the record that entry n of a queue points to is not its record, "" if it is.
func (v *verifier) bears(c *cursor, n int64, e consumequeue.Entry) (why string) {
	var fault error
	defer func() {
		if fault != nil {
			why = fmt.Sprintf("entry %d points to %d: %v", n, e.Offset, fault)
		}
	}()
	defer segment.CatchFault(&fault, "inspect: read the log", debug.SetPanicOnFault(true))
	r := &v.claimed
	if err := v.s.record(int64(e.Offset), r); err != nil {
		return fmt.Sprintf("entry %d points to %d: %v", n, e.Offset, err)
	}
	id := c.q.id
	same := string(r.Topic) == id.Topic && r.QueueID == id.QueueID && int64(r.QueueOffset) == n
	if (!same && !alsoFor(r, id.Topic)) || r.Size != e.Size {
		return fmt.Sprintf("entry %d is of %d bytes at %d, where record %d of %s stands with %d bytes",
			n, e.Size, e.Offset, r.QueueOffset, queueName(consumequeue.ID{Topic: string(r.Topic), QueueID: r.QueueID}), r.Size)
	}
	return ""
}

// alsoFor tells whether a Java broker gave the record an entry in a light queue of that name, besides the one in its own.
func alsoFor(r *message.Record, topic string) bool {
	names, ok := message.Property(r.Properties, message.PropertyMultiDispatch)
	if !ok {
		return false
	}
	for name := range bytes.SplitSeq(names, []byte(",")) {
		if string(name) == topic {
			return true
		}
	}
	return false
}

func (v *verifier) cursorOf(r *message.Record) *cursor {
	if c := v.lastFound; c != nil && c.q.id.QueueID == r.QueueID && c.q.id.Topic == string(r.Topic) {
		return c
	}
	c := v.cursors[string(r.Topic)][r.QueueID]
	if c != nil {
		v.lastFound = c
	}
	return c
}

// entry is entry n of a queue as it was when it was read first.
func (v *verifier) entry(c *cursor, n int64) (consumequeue.Entry, bool) {
	if n < c.q.first() || n >= c.end {
		return consumequeue.Entry{}, false
	}
	if i := n - c.heldFrom; i >= 0 && i < int64(len(c.held)) {
		return c.held[i], true
	}
	if c.held == nil {
		c.held = make([]consumequeue.Entry, 0, max(min(int64(v.perQueue), c.end-c.q.first()), minHeldEntries))
	}
	got, err := c.q.read(n, c.held[:min(int64(cap(c.held)), c.end-n)], v.buf)
	if err != nil || got == 0 {
		c.held = c.held[:0]
		return consumequeue.Entry{}, false
	}
	c.heldFrom, c.held = n, c.held[:got]
	return c.held[0], true
}

func (v *verifier) noteAbsent(r *message.Record) {
	id := consumequeue.ID{Topic: string(r.Topic), QueueID: r.QueueID}
	found := v.absent[id]
	if found == nil {
		if len(v.absent) >= maxAbsent {
			v.absentMore.note(int64(r.QueueOffset), int64(r.Offset), "")
			return
		}
		found = new(run)
		v.absent[id] = found
	}
	found.note(int64(r.QueueOffset), int64(r.Offset), "")
}

func tagsCode(r *message.Record) int64 {
	tags, _ := message.Property(r.Properties, message.PropertyTags)
	return message.TagsCode(tags)
}

// tagsRight tells whether an entry's tags code goes with its record. In the schedule topic it is the time of delivery; how long a level is
// only the broker's configuration tells, but no delivery lies before the store time. Below 32 bits it is a place in consumequeue_ext.
func tagsRight(r *message.Record, e consumequeue.Entry) bool {
	if string(r.Topic) == scheduleTopic {
		if text, ok := message.Property(r.Properties, message.PropertyDelay); ok {
			if level, err := strconv.Atoi(string(text)); err == nil && level > 0 {
				return e.TagsCode >= r.StoreTime
			}
		}
	}
	return e.TagsCode < math.MinInt32 || e.TagsCode == tagsCode(r)
}

// tell makes a finding of what is wrong with a queue in one way.
func (v *verifier) tell(c *cursor, p problem, found *run) {
	id, n := c.q.id, found.count
	switch p {
	case missingFront:
		v.addRun(KindMissing, Damage, id, found, fmt.Sprintf("%s without an entry, %s: the queue begins with %d",
			count(n, "record"), span(found), c.q.first()))
	case missingBack:
		v.tellMissing(id, found, fmt.Sprintf("%s without an entry, %s: the queue ends at %d", count(n, "record"), span(found), c.end))
	case twice:
		v.addLasting(KindMissing, id, found, "two records claim one number: "+found.why+andMore(n))
	case lost:
		v.addLasting(KindEntry, id, found, found.why+andMore(n))
	case wrong:
		v.addRun(KindEntry, Damage, id, found, found.why+andMore(n))
	case beyond:
		v.addRun(KindEntry, Damage, id, found, fmt.Sprintf("%s, %s, of records at %d and behind: the log ends at %d",
			count(n, "entry"), span(found), found.lowestOffset, v.report.End))
	case wrongTags:
		v.addRun(KindTags, Damage, id, found, "tags code: "+found.why+andMore(n))
	}
}

// tellMissing judges entries that are missing at the end of a queue. A Java broker dispatches in the order of the log, so after a kill they
// are those of the last records of all, not of whole segments. ringmq writes its queues one by one; its mark says up to where all of them
// are complete.
func (v *verifier) tellMissing(id consumequeue.ID, found *run, text string) {
	severity := Damage
	st := &v.s.State
	ownMark := v.markStands && st.Lock.Last == "ringmq"
	switch {
	case !v.report.Unclean:
	case ownMark:
		if found.lowestOffset >= int64(st.Mark.Dispatched) {
			severity = Unfinished
		}
	case v.report.InUse, found.lowestOffset > v.dispatched && found.lowestOffset >= v.s.segments[v.lastUsed].base:
		severity = Unfinished
	}
	if severity == Unfinished && v.report.InUse {
		v.report.Waiting += found.count
		return
	}
	v.addRun(KindMissing, severity, id, found, text)
}

func (v *verifier) tellAbsent() {
	ids := make([]consumequeue.ID, 0, len(v.absent))
	for id := range v.absent {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, compareIDs)
	for _, id := range ids {
		found := v.absent[id]
		v.report.Needs.Queues = append(v.report.Needs.Queues, QueueNeed{ID: id, Missing: found.count, Records: found.count, NoFolder: true})
		v.tellMissing(id, found, fmt.Sprintf("%s without an entry, %s: the queue has no folder", count(found.count, "record"), span(found)))
	}
	if more := &v.absentMore; more.count > 0 {
		f := damaged(KindMissing, v.s.dir, "%s of further queues that have no folder", count(more.count, "record"))
		f.Offset, f.Count = more.lowestOffset, more.count
		v.report.add(f)
	}
}

func (v *verifier) addRun(kind Kind, severity Severity, id consumequeue.ID, found *run, text string) {
	v.report.add(Finding{Kind: kind, Severity: severity, Path: v.s.queuePath(id), Topic: id.Topic, QueueID: &id.QueueID,
		Offset: found.firstOffset, Number: found.firstNumber, Count: found.count, Text: strings.TrimSpace(text)})
}

// addLasting is addRun of what the log does not allow to put right.
func (v *verifier) addLasting(kind Kind, id consumequeue.ID, found *run, text string) {
	v.report.add(Finding{Kind: kind, Severity: Damage, Path: v.s.queuePath(id), Topic: id.Topic, QueueID: &id.QueueID, Lasting: true,
		Offset: found.firstOffset, Number: found.firstNumber, Count: found.count, Text: strings.TrimSpace(text)})
}

func (v *verifier) addQueue(kind Kind, severity Severity, id consumequeue.ID, number, n int64, text string) {
	v.report.add(Finding{Kind: kind, Severity: severity, Path: v.s.queuePath(id), Topic: id.Topic, QueueID: &id.QueueID,
		Offset: -1, Number: number, Count: n, Text: text})
}

func span(found *run) string {
	if found.firstNumber == found.lastNumber {
		return fmt.Sprintf("number %d", found.firstNumber)
	}
	return fmt.Sprintf("numbers %d to %d", found.firstNumber, found.lastNumber)
}

func andMore(n int64) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n-1)
}
