package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"time"

	"ringmq/engine/checkpoint"
	"ringmq/engine/message"
	"ringmq/engine/segment"
)

// VerifyOptions of one Verify.
type VerifyOptions struct {
	// Progress, which may be nil, is told how many of total bytes of the log have been walked. The queues are read before that.
	Progress func(done, total int64)

	NoIndex bool // key files are not looked at, nor missed
}

// progressStep is how many bytes are walked between two calls of Progress, and two looks whether the caller has had enough.
const progressStep = 8 << 20

// Verify checks every record, every queue entry against its record and every record against its entry, and what checkpoint and mark say
// against the log. The error is that of a context that ended or of a folder that cannot be read; what is wrong with the store is in the report.
//
// The order matters for a store in use: small files first, then queues, then the log. So whatever was claimed or pointed to when it was
// read has a record in the log that is read later.
func (s *Store) Verify(ctx context.Context, o VerifyOptions) (*Report, error) {
	began := time.Now()
	v := &verifier{ctx: ctx, s: s, o: o}
	r := &v.report
	*r = Report{
		Dir: s.dir, InUse: s.State.InUse(), Unclean: s.State.Unclean(), Segments: len(s.segments), SegmentSize: s.segmentSize,
		Min: s.logMin(), Queues: len(s.queues), QueueFileSize: s.queueFileSize, Findings: []Finding{},
	}
	for _, path := range s.strays {
		f := damaged(KindStray, path, "no file of a store is called so; it is not read")
		f.Severity = Unfinished
		r.add(f)
	}
	r.Needs.Abort = s.State.Abort
	r.Needs.planSegments(s)
	v.plan()
	if !o.NoIndex {
		v.planIndex()
	}
	defer v.closeIndex()
	v.planSeals()
	if err := v.readQueues(); err != nil {
		return nil, err
	}
	if err := v.walkLog(); err != nil {
		return nil, err
	}
	if err := v.finishQueues(); err != nil {
		return nil, err
	}
	if !o.NoIndex {
		v.finishIndex()
	}
	v.finishSeals()
	v.checkCheckpoint()
	v.checkMark()
	r.finish(began)
	return r, nil
}

// verifier is one Verify.
type verifier struct {
	ctx    context.Context
	s      *Store
	o      VerifyOptions
	report Report

	markStands bool   // the mark is of this log
	markWhy    string // why not
	lastUsed   int
	boundary   int64 // from here on what is not whole is the end, below it is damage
	ended      bool  // the walk has come to the end of the log
	told       int64
	claimed    message.Record // of the record that an entry claims

	queueState
	index indexState
	seals sealState
}

// plan decides, as recovery does, from where on a record that is not whole is the torn end.
func (v *verifier) plan() {
	s, st := v.s, &v.s.State
	v.lastUsed = s.lastUsed()
	if v.lastUsed >= 0 {
		v.boundary = s.segments[v.lastUsed].base
	}
	if !st.HasMark {
		return
	}
	if v.markStands, v.markWhy = v.stands(&st.Mark); v.markStands {
		v.boundary = int64(st.Mark.Boundary(message.Offset(v.boundary), st.Lock.Last == "java"))
	}
}

// stands tells whether a mark is of this log, and else why not; "": it names no record, and that it is of this log nobody can say.
func (v *verifier) stands(m *checkpoint.Mark) (ok bool, why string) {
	if m.Last >= 0 {
		switch ms, err := v.s.storedAt(int64(m.Last)); {
		case err != nil:
			return false, err.Error()
		case ms != m.LastStoreTimeMS:
			return false, fmt.Sprintf("the record at %d was stored at %d, the mark says %d", m.Last, ms, m.LastStoreTimeMS)
		}
		return true, ""
	}
	end := int64(0)
	if n := len(v.s.segments); n > 0 {
		end = v.s.segments[n-1].base + v.s.segmentSize
	}
	switch {
	case v.s.State.Lock.Last != "ringmq":
		return false, ""
	case int64(m.Flushed) > end:
		return false, fmt.Sprintf("the log ends before %d, up to which it says that all is there", m.Flushed)
	}
	return true, ""
}

// walkLog walks the segments.
func (v *verifier) walkLog() error {
	s, r := v.s, &v.report
	r.End = r.Min
	next := r.Min
	for i := range s.segments {
		f := &s.segments[i]
		if f.base > next {
			v.report.add(Finding{Kind: KindSegment, Severity: Damage, Path: s.logDir, Offset: next, Number: -1, Count: f.base - next, Lasting: true,
				Text: fmt.Sprintf("no segment has the bytes %d to %d of the log", next, f.base)})
			v.index.holes = append(v.index.holes, Hole{From: next, To: f.base})
		}
		next = f.base + s.segmentSize
		if i < len(s.segments)-1 || !v.inTheMaking(f.size, s.segmentSize) {
			v.checkSize(f)
		}
		if err := v.segment(i, f); err != nil {
			return err
		}
	}
	v.progress(next, true)
	return nil
}

// inTheMaking tells that the last file of its kind may be one that the broker, which has the store open, was just making when its size was
// read: it has a name before it has its size.
func (v *verifier) inTheMaking(size, whole int64) bool { return v.report.InUse && size < whole }

func (v *verifier) checkSize(f *segmentFile) {
	size := v.s.segmentSize
	switch {
	case f.size == 0:
		v.report.add(damaged(KindSegment, f.path, "it has 0 bytes"))
	case f.size != size:
		v.report.add(damaged(KindSegment, f.path, "it has %d bytes, a segment of this log has %d", f.size, size))
	case f.base%size != 0:
		v.report.add(damaged(KindSegment, f.path, "its name is no multiple of the size of segments, %d", size))
	}
}

// segment walks one segment, and looks at what stands behind the end of the log in it.
func (v *verifier) segment(i int, f *segmentFile) error {
	m, err := mapFile(f.path, sequential)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) && v.report.InUse {
			return nil // retention has removed it meanwhile
		}
		unreadable := damaged(KindSegment, f.path, "it cannot be read: %v", err)
		unreadable.Lasting = true
		v.report.add(unreadable)
		v.index.holes = append(v.index.holes, Hole{From: f.base, To: f.end()})
		return nil
	}
	defer m.close()
	w := &walk{f: f, b: m.bytes, foreign: v.s.State.Lock.Last != "ringmq"}
	end := f.base
	if !v.ended {
		v.beginSeal(f)
		end, err = w.run(f.base, v)
		v.report.Bytes += end - f.base
		switch {
		case errors.Is(err, segment.ErrUnreadable):
			v.report.add(Finding{Kind: KindSegment, Severity: Damage, Path: f.path, Offset: end, Number: -1, Text: err.Error(), Lasting: true})
			v.index.holes = append(v.index.holes, Hole{From: end, To: f.end()})
			v.ended = i >= v.lastUsed
			v.report.End = max(v.report.End, end)
			return nil
		case err != nil:
			return err
		}
		v.report.End = max(v.report.End, end)
		v.ended = end < f.base+int64(len(m.bytes))
		v.endSeal(w, !v.ended && i < v.lastUsed)
	}
	if v.ended && !v.report.InUse {
		v.tail(w, end)
	}
	return nil
}

// whole takes a record: see visitor.
func (v *verifier) whole(w *walk, r *message.Record) error {
	report := &v.report
	report.Records++
	if report.FirstTimeMS == 0 {
		report.FirstTimeMS = r.StoreTime
	}
	report.LastTimeMS = max(report.LastTimeMS, r.StoreTime)
	if int64(r.Offset)-v.told >= progressStep {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		v.progress(int64(r.Offset), false)
	}
	sound := true
	if bytes.Contains(r.Properties[max(len(r.Properties)-propertyCRCLen, 0):], []byte(message.PropertyCRC)) {
		at := int64(r.Offset) - w.f.base
		if present, ok := message.VerifyPropertyCRC(w.b[at : at+int64(r.Size)]); present && !ok {
			sound = false // who knows which keys it had
			report.add(Finding{Kind: KindRecord, Severity: Damage, Path: w.f.path, Offset: int64(r.Offset), Number: -1, Count: int64(r.Size), Lasting: true,
				Text: fmt.Sprintf("the record at %d has another checksum than its properties say", r.Offset)})
		}
	}
	if w.zeros {
		report.add(Finding{Kind: KindRecord, Severity: Unfinished, Path: w.f.path, Offset: int64(r.Offset), Number: -1, Count: int64(r.Size), Lasting: true,
			Text: fmt.Sprintf("the record at %d has zeros in its properties; a Java broker went on behind it, so it counts as whole", r.Offset)})
	}
	if v.seals.maker != nil {
		v.seals.maker.Record(r)
	}
	switch {
	case v.o.NoIndex:
	case sound:
		v.matchKeys(r)
	default:
		v.index.holes = append(v.index.holes, Hole{From: int64(r.Offset), To: int64(r.Offset) + int64(r.Size)})
	}
	return v.match(r)
}

// propertyCRCLen is the length of the item with the checksum that a 5.x broker may have put last: only there is it looked for.
const propertyCRCLen = len(message.PropertyCRC) + 1 + 10 + 1

// broken takes a place that is not whole: see visitor.
func (v *verifier) broken(w *walk, at int64, why string) (int64, error) {
	if at >= v.boundary {
		return at, nil
	}
	if err := v.ctx.Err(); err != nil {
		return at, err
	}
	next := w.resync(at+1, v.boundary)
	v.index.holes = append(v.index.holes, Hole{From: at, To: next})
	v.report.add(Finding{Kind: KindRecord, Severity: Damage, Path: w.f.path, Offset: at, Number: -1, Count: next - at, Lasting: true,
		Text: fmt.Sprintf("%s hold no whole record: %s", count(next-at, "byte"), why)})
	return next, nil
}

// tail looks for bytes from the end of the log on: there must be zeros.
func (v *verifier) tail(w *walk, end int64) {
	var err error
	var from, to, records int64
	first := int64(-1)
	func() {
		defer segment.CatchFault(&err, "inspect: segment "+w.f.name, debug.SetPanicOnFault(true))
		rest := w.b[end-w.f.base:]
		from, to = end+int64(firstData(rest)), end+int64(dataEnd(rest))
		for at := w.resync(from, to); from < to && at < to; at = w.resync(at, to) {
			if first < 0 {
				first = at
			}
			records++
			at += int64(message.Size(w.b[at-w.f.base:]))
		}
	}()
	if err != nil {
		v.report.add(damaged(KindSegment, w.f.path, "%v", err))
		return
	}
	if from >= to {
		return
	}
	v.report.Needs.Tail = append(v.report.Needs.Tail, Stretch{w.f.path, end, to, records})
	f := Finding{Kind: KindTail, Severity: Damage, Path: w.f.path, Offset: end, Number: -1, Count: to - end, Records: records,
		Text: fmt.Sprintf("%s behind the end of the log, which is at %d, are no record", count(to-end, "byte"), v.report.End)}
	if v.report.Unclean {
		f.Severity = Torn
	}
	if records > 0 {
		f.Text = fmt.Sprintf("%s behind the end of the log, which is at %d, of which %s whole (the first at %d)",
			count(to-end, "byte"), v.report.End, are(records, "record"), first)
	}
	v.report.add(f)
}

func are(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun + " is"
	}
	return count(n, noun) + " are"
}

func (v *verifier) progress(at int64, last bool) {
	v.told = at
	if v.o.Progress == nil {
		return
	}
	total := int64(len(v.s.segments)) * v.s.segmentSize
	done := min(at-v.report.Min, total)
	if last {
		done = total
	}
	v.o.Progress(done, total)
}
