package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"ringmq/engine/index"
	"ringmq/engine/message"
)

// indexState is what a verifier knows of the key files. They are in the order of the log, so one walk over both tells for every entry
// whether its record bears such a key, and for every record whether its keys are there.
type indexState struct {
	own     bool // ringmq's own file says how far to judge
	files   []*keyFile
	reader  *index.Reader // of files[0], nil: not begun
	file    *os.File
	partly  bool // files[0] is read as far as ringmq has made it durable; its head and slots may be newer
	entry   index.Entry
	has     bool // entry is the next one
	last    message.Offset
	hashes  []int32
	holes   []Hole // of the log, in order
	missing run    // records that lack keys
	early   run    // of these, records before the place up to which the index is said to be complete
	faults  [indexFaults]run
}

// indexFault is a way in which a key file is wrong.
type indexFault int

const (
	wrongChain indexFault = iota
	wrongHash
	wrongTime
	noRecord   // entries that point to no record
	behindLog  // entries of records behind the end of the log
	outOfOrder // entries before those they follow
	indexFaults
)

// planIndex decides which key files are judged, and how far.
func (v *verifier) planIndex() {
	s, x, st := v.s, &v.index, &v.s.State
	v.report.IndexFiles = len(s.keyFiles)
	x.own = s.OwnIndex()
	if st.IndexedError != nil {
		v.addIndex(Damage, filepath.Join(s.dir, "ringmq", "indexed"), -1, 0, st.IndexedError.Error())
	}
	if x.own && st.Indexed.Name != "" && !slices.ContainsFunc(s.keyFiles, func(f keyFile) bool { return f.name == st.Indexed.Name }) && !v.report.InUse {
		v.addIndex(Damage, filepath.Join(s.dir, "index", st.Indexed.Name), -1, 0, "it is missing")
	}
	if st.Lock.Last == "ringmq" && !st.HasIndexed && v.report.Unclean { // a kill before ringmq had kept how far they go
		if len(s.keyFiles) > 0 && !v.report.InUse {
			v.addIndex(Unfinished, filepath.Join(s.dir, "index"), -1, int64(len(s.keyFiles)), "it is not known how far the key files go: the next start makes them anew")
			v.report.Needs.needIndex(IndexAnew, "it is not known how far the key files go")
		}
		return
	}
	for i := range s.keyFiles {
		f := &s.keyFiles[i]
		switch {
		case x.own && f.name > st.Indexed.Name && v.report.Unclean: // in the making
			continue
		case f.err == nil:
			x.files = append(x.files, f)
			continue
		case v.report.InUse && (errors.Is(f.err, fs.ErrNotExist) || i == len(s.keyFiles)-1):
			continue // removed, or in the making
		case s.IndexSlots == 0:
			v.addIndex(Damage, f.path, -1, 0, fmt.Sprintf("it has %d bytes, which is no file of %d entries to a slot (name maxHashSlotNum and maxIndexNum if they are others)", f.size, slotEntries))
			continue
		}
		v.addIndex(Damage, f.path, -1, 0, f.err.Error())
	}
}

// matchKeys compares a record with the entries of its keys.
func (v *verifier) matchKeys(r *message.Record) {
	x := &v.index
	x.hashes = index.AppendHashes(x.hashes[:0], r)
	found := 0
	for v.nextKey() && x.entry.Offset <= r.Offset {
		x.has = false
		e := &x.entry
		if e.Offset < r.Offset {
			v.recordless(e)
			continue
		}
		if found >= len(x.hashes) || e.Hash != x.hashes[found] {
			x.note(wrongHash, e, fmt.Sprintf("entry %d has the hash %d, no key number %d of the record at %d has it", e.Number, e.Hash, found+1, r.Offset))
		} else if header := &x.files[0].header; e.Number > 1 && e.Seconds != header.SecondsOf(r.StoreTime) {
			x.note(wrongTime, e, fmt.Sprintf("entry %d is %d s behind the file's first, its record %d s", e.Number, e.Seconds, header.SecondsOf(r.StoreTime)))
		}
		found++
	}
	if found >= len(x.hashes) || found == len(x.hashes)-1 && !x.own && hasTags(r) { // 4.9.7 puts no tags
		return
	}
	x.missing.note(int64(r.QueueOffset), int64(r.Offset), "")
	if x.own && r.Offset < v.s.State.Indexed.Position {
		x.early.note(int64(r.QueueOffset), int64(r.Offset), "")
	}
}

func hasTags(r *message.Record) bool {
	_, ok := message.Property(r.Properties, message.PropertyTags)
	return ok
}

// nextKey makes entry the next one of all files, and says whether there is one.
func (v *verifier) nextKey() bool {
	x := &v.index
	for !x.has && len(x.files) > 0 {
		if x.reader == nil && !v.beginKeys() {
			continue
		}
		e, why, ok, err := x.reader.Next()
		switch {
		case err != nil:
			v.addIndex(Damage, x.files[0].path, int64(e.Number), 0, fmt.Sprintf("it cannot be read: %v", err))
			v.endKeys(false)
			continue
		case !ok:
			v.endKeys(!x.partly)
			continue
		}
		v.report.IndexEntries++
		if why != "" {
			x.note(wrongChain, &e, why)
		}
		if e.Offset < x.last {
			x.note(outOfOrder, &e, fmt.Sprintf("entry %d of the record at %d follows one of the record at %d", e.Number, e.Offset, x.last))
			continue
		}
		x.last, x.entry, x.has = e.Offset, e, true
	}
	return x.has
}

// beginKeys opens the first file that is left.
func (v *verifier) beginKeys() bool {
	x, known := &v.index, &v.s.State.Indexed
	f := x.files[0]
	r, file, err := f.reader(v.s.IndexSlots, v.s.IndexEntries)
	if err != nil {
		if !v.report.InUse {
			v.addIndex(Damage, f.path, -1, 0, err.Error())
		}
		x.files = x.files[1:]
		return false
	}
	x.reader, x.file = r, file
	last := len(x.files) == 1
	switch newest := x.own && f.name == known.Name; {
	case newest && v.report.Unclean:
		x.partly = true
		r.Limit(known.Header.Count)
	case newest && r.Header() != known.Header:
		v.addIndex(Damage, f.path, -1, 0, fmt.Sprintf("its head says %+v, it was %+v when ringmq stopped", r.Header(), known.Header))
	case last && v.report.InUse: // slots are newer than the head that was read
		x.partly = true
		r.Limit(f.header.Count)
	}
	return true
}

// endKeys is done with a file.
func (v *verifier) endKeys(slots bool) {
	x := &v.index
	f := x.files[0]
	if slots {
		wrong, why, err := x.reader.Slots()
		switch {
		case err != nil:
			v.addIndex(Damage, f.path, -1, 0, fmt.Sprintf("it cannot be read: %v", err))
		case wrong > 0:
			v.addIndex(Damage, f.path, -1, wrong, why+andMore(wrong))
		}
	}
	for i := range x.faults {
		if found := &x.faults[i]; found.count > 0 {
			severity := Damage
			if indexFault(i) == behindLog && v.report.Unclean {
				severity = Torn
			}
			v.addIndex(severity, f.path, found.firstNumber, found.count, found.why+andMore(found.count))
			*found = run{}
		}
	}
	x.reader.Close()
	x.file.Close()
	x.reader, x.file, x.partly = nil, nil, false
	x.files = x.files[1:]
}

func (x *indexState) note(fault indexFault, e *index.Entry, why string) {
	x.faults[fault].note(int64(e.Number), int64(e.Offset), why)
}

// recordless judges an entry whose record has not come.
func (v *verifier) recordless(e *index.Entry) {
	x := &v.index
	at := int64(e.Offset)
	switch {
	case at < v.report.Min:
		v.report.IndexExpired++
	case v.lost(at): // it is the record that is damaged
	default:
		x.note(noRecord, e, fmt.Sprintf("entry %d points to %d, where no record begins", e.Number, at))
	}
}

// lost tells whether a place lies in a stretch of the log that holds no whole record.
func (v *verifier) lost(at int64) bool {
	i, ok := slices.BinarySearchFunc(v.index.holes, at, func(h Hole, at int64) int { return cmp.Compare(h.From, at) })
	if !ok {
		i--
	}
	return i >= 0 && at < v.index.holes[i].To
}

// finishIndex judges the entries that are left when the log has ended, and what records lack.
func (v *verifier) finishIndex() {
	x, r := &v.index, &v.report
	for v.nextKey() {
		x.has = false
		switch e := &x.entry; {
		case int64(e.Offset) < r.End:
			v.recordless(e)
		case !r.InUse:
			x.note(behindLog, e, fmt.Sprintf("entry %d is of a record at %d: the log ends at %d", e.Number, e.Offset, r.End))
		}
	}
	if x.early.count > 0 && !r.InUse {
		v.addIndex(Damage, filepath.Join(v.s.dir, "index"), -1, x.early.count, fmt.Sprintf(
			"%s, the first at %d, without their keys: ringmq had all before %d", count(x.early.count, "record"), x.early.firstOffset, v.s.State.Indexed.Position))
	}
	if r.KeysMissing = x.missing.count - x.early.count; r.KeysMissing > 0 && !r.InUse {
		v.addIndex(Unfinished, filepath.Join(v.s.dir, "index"), -1, r.KeysMissing, fmt.Sprintf(
			"%s, the first at %d, without their keys", count(r.KeysMissing, "record"), x.missing.firstOffset))
	}
}

// closeIndex gives back what a walk that was broken off has open.
func (v *verifier) closeIndex() {
	if x := &v.index; x.reader != nil {
		x.reader.Close()
		x.file.Close()
	}
}

func (v *verifier) addIndex(severity Severity, path string, number, n int64, text string) {
	v.report.add(Finding{Kind: KindIndex, Severity: severity, Path: path, Offset: -1, Number: number, Count: n, Text: text})
	if severity == Unfinished {
		v.report.Needs.needIndex(IndexComplete, text)
		return
	}
	v.report.Needs.needIndex(IndexAnew, text)
}
