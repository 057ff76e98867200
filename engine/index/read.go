package index

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"

	"ringmq/engine/message"
)

// This file is for those who read key files without an Index. The files may be of a Java broker, in use, or damaged: nothing they claim is
// believed.

// Header is the head of a key file.
type Header struct {
	BeginMS, EndMS int64          // store times of the first and the last record
	Begin, End     message.Offset // and where they stand
	Used, Count    int32          // slots in use; number of the next entry, 1 at first
}

func (h *header) exported() Header {
	return Header{h.beginMS, h.endMS, h.begin, h.end, h.used, h.count}
}

// Entry is one key of one record.
type Entry struct {
	Number   int32
	Hash     int32
	Offset   message.Offset
	Seconds  int32 // since the file's first record; number 1 counts from another time
	Previous int32 // the chain's next older entry, 0: none
}

// Known is what ringmq's own file says the device has of an index.
type Known struct {
	Position       message.Offset // every record before it has its keys
	Slots, Entries int32          // of a file
	Name           string         // of the newest file, "": there is none
	Header         Header         // of that file
}

// LoadKnown reads that file. Without one, ok is false and err nil; with one that cannot be believed, ok is false and err says why.
func LoadKnown(path string) (k Known, ok bool, err error) {
	p, ok, err := loadProgress(path)
	if !ok || err != nil {
		return Known{}, false, err
	}
	return Known{p.position, p.geometry.slots, p.geometry.entries, p.name, p.header.exported()}, true, nil
}

// IsName tells whether a file of the folder is a key file by its name.
func IsName(name string) bool { return isName(name) }

// AppendHashes appends the hashes of a record's keys, in the order in which they are put: the unique key, KEYS, and last the tags, which
// 4.9.7 leaves out.
func AppendHashes(dst []int32, r *message.Record) []int32 { return appendHashes(dst, r) }

// Reader reads the entries of a key file one after the other and makes the chains of them anew, to compare them with the file's.
type Reader struct {
	file     io.ReaderAt
	geometry geometry
	header   header
	entries  *bufio.Reader
	table    *table // what the head must be; nil until the first entry
	next     int32
	limit    int32
	used     int32
}

// ReadHeader reads the head of a key file of size bytes, which must be of so many slots and entries.
func ReadHeader(file io.ReaderAt, size int64, slots, entries int32) (Header, error) {
	r, err := NewReader(file, size, slots, entries)
	if err != nil {
		return Header{}, err
	}
	return r.Header(), nil
}

// NewReader begins with a file's first entry.
func NewReader(file io.ReaderAt, size int64, slots, entries int32) (*Reader, error) {
	g := geometry{slots, entries}
	if slots < 1 || entries < 2 || size != g.size() {
		return nil, fmt.Errorf("it has %d bytes, one with %d slots and %d entries has %d", size, slots, entries, g.size())
	}
	var head [headerLen]byte
	if _, err := file.ReadAt(head[:], 0); err != nil {
		return nil, err
	}
	r := &Reader{file: file, geometry: g, header: decodeHeader(head[:]), next: 1}
	h := &r.header
	if *h == (header{}) { // just made
		h.count = 1
	}
	if h.count < 1 || h.count > entries || h.used < 0 || h.used > slots || h.begin < 0 || h.begin > h.end {
		return nil, fmt.Errorf("its head says %d entries in %d slots for records at %d to %d, allowed are up to %d and %d",
			int64(h.count)-1, h.used, h.begin, h.end, entries-1, slots)
	}
	r.limit = h.count
	return r, nil
}

// Header is the file's head as it was read.
func (r *Reader) Header() Header { return r.header.exported() }

// Limit leaves out the entries from number count on: they may be in the making. It comes before the first Next.
func (r *Reader) Limit(count int32) { r.limit = min(r.limit, max(count, 1)) }

// Next reads an entry; ok is false when there is none left. why says what is wrong with the entry's place in its chain, "" if nothing is.
func (r *Reader) Next() (e Entry, why string, ok bool, err error) {
	if r.next >= r.limit {
		return Entry{}, "", false, nil
	}
	if r.table == nil {
		if r.table, err = newTable(r.geometry); err != nil {
			return Entry{}, "", false, err
		}
		from := r.geometry.entryAt(1)
		r.entries = bufio.NewReaderSize(io.NewSectionReader(r.file, from, r.geometry.entryAt(r.limit)-from), 256<<10)
	}
	b, err := r.entries.Peek(entryLen)
	if err != nil {
		return Entry{}, "", false, err
	}
	read := decodeEntry(b)
	_, _ = r.entries.Discard(entryLen) // which it has
	e = Entry{r.next, read.hash, read.offset, read.seconds, read.previous}
	r.next++
	if e.Hash < 0 {
		return e, fmt.Sprintf("entry %d has the hash %d, which no key has", e.Number, e.Hash), true, nil
	}
	before := r.table.slot(e.Hash)
	if before == 0 {
		r.used++
	}
	if e.Previous != before {
		why = fmt.Sprintf("entry %d leads to entry %d of its chain, must to %d", e.Number, e.Previous, before)
	}
	r.table.setSlot(e.Hash, e.Number)
	return e, why, true, nil
}

// Slots compares the file's slots with those that its entries make, after the last Next: how many differ, and why the first one does.
func (r *Reader) Slots() (wrong int64, why string, err error) {
	if r.used != r.header.used {
		wrong, why = 1, fmt.Sprintf("its head says that %d slots are in use, %d are", r.header.used, r.used)
	}
	if r.table == nil { // no entry
		if r.table, err = newTable(r.geometry); err != nil {
			return wrong, why, err
		}
	}
	err = r.table.pages(r.file, func(at int64, page []byte) {
		for i := max(headerLen-int(at), 0); i+slotLen <= len(page); i += slotLen {
			is, must := int32(binary.BigEndian.Uint32(page[i:])), int32(binary.BigEndian.Uint32(r.table.head[at+int64(i):]))
			if is == must {
				continue
			}
			if wrong++; wrong == 1 {
				why = fmt.Sprintf("slot %d leads to entry %d, must to %d", (at+int64(i)-headerLen)/slotLen, is, must)
			}
		}
	})
	return wrong, why, err
}

// Close gives memory back; the file is the caller's.
func (r *Reader) Close() {
	if r.table != nil {
		r.table.free()
		r.table = nil
	}
}

// SecondsOf is what an entry keeps of a store time in a file with this head.
func (h *Header) SecondsOf(storeMS int64) int32 {
	return (&header{beginMS: h.BeginMS}).seconds(storeMS)
}
