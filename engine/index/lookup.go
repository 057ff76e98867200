package index

import (
	"encoding/binary"
	"fmt"
	"io"

	"ringmq/engine/message"
)

// clockSlackMS is how far store times may go back within the log: another broker's clock was set.
const clockSlackMS = 60_000

// Lookup calls visit with the positions of records whose keys have this hash, from the newest on, until it returns false; those of records
// that were surely not stored within [beginMS, endMS] are left out. Other keys may have the same hash, and a position may come twice in a
// row. Records put meanwhile may or may not be seen. A broken chain ends; an error says that a file could not be read, and the others were.
func (x *Index) Lookup(hash int32, beginMS, endMS int64, visit func(at message.Offset) bool) error {
	x.metrics.Lookups.Add(1)
	x.mu.Lock()
	files := x.files // never changed in place but at its end
	heads := make([]header, len(files))
	for i, f := range files {
		heads[i] = f.header
	}
	x.mu.Unlock()
	var failed error
	for i := len(files) - 1; i >= 0; i-- {
		h := &heads[i]
		if h.count <= 1 || h.beginMS-clockSlackMS > endMS || h.endMS+clockSlackMS < beginMS && h.endMS > 0 {
			continue
		}
		c := chain{index: x, file: files[i], header: h, hash: hash, beginMS: beginMS, endMS: endMS}
		more, err := c.walk(visit)
		if err != nil && failed == nil {
			failed = fmt.Errorf("index: %s: %w", files[i].name, err)
		}
		if !more {
			break
		}
	}
	return failed
}

// chain is the walk along one chain of one file.
type chain struct {
	index          *Index
	file           *file
	header         *header
	hash           int32
	beginMS, endMS int64

	block   [pageSize]byte // of the file, at blockAt
	blockAt int64
	blockN  int
	buffer  [entryLen]byte
}

// walk says whether visit wants more.
func (c *chain) walk(visit func(message.Offset) bool) (more bool, err error) {
	n, err := c.newest()
	if err != nil {
		return true, err
	}
	for limit := n + 1; n > 0 && n < limit; { // a chain leads to lower numbers only: no loop is walked twice
		e, err := c.entry(n)
		if err != nil {
			return true, err
		}
		c.index.metrics.Examined.Add(1)
		if e.hash == c.hash && e.offset >= 0 && c.inTime(n, e.seconds) && !visit(e.offset) {
			return false, nil
		}
		limit, n = n, e.previous
	}
	return true, nil
}

// inTime leaves out what was surely not stored within the time.
func (c *chain) inTime(n, seconds int32) bool {
	const clamped = 1<<31 - 1
	if n == 1 { // counts from another file's time
		return true
	}
	low := c.header.beginMS + int64(seconds)*1000
	return (seconds == 0 || low <= c.endMS) && (seconds == clamped || low+999 >= c.beginMS)
}

// newest is the number of the chain's newest entry, 0 if there is none.
func (c *chain) newest() (int32, error) {
	x := c.index
	x.mu.Lock()
	if x.newest() == c.file && x.table != nil {
		n := x.table.slot(c.hash)
		x.mu.Unlock()
		return n, nil
	}
	x.mu.Unlock()
	var b [slotLen]byte
	if _, err := c.file.f.ReadAt(b[:], x.geometry.slotAt(c.hash)); err != nil {
		return 0, err
	}
	n := int32(binary.BigEndian.Uint32(b[:]))
	if n < 0 || n >= x.geometry.entries {
		return 0, fmt.Errorf("a slot points to entry %d of %d", n, c.header.count)
	}
	return n, nil
}

// entry reads an entry: neighbours are likely to be of the same chain if a key is frequent, so a block is read at once.
func (c *chain) entry(n int32) (entry, error) {
	x := c.index
	x.mu.Lock()
	if x.newest() == c.file && n >= x.written {
		i := int(n-x.written) * entryLen
		if i+entryLen > len(x.tail) {
			x.mu.Unlock()
			return entry{}, fmt.Errorf("entry %d is not there yet", n)
		}
		e := decodeEntry(x.tail[i:])
		x.mu.Unlock()
		return e, nil
	}
	x.mu.Unlock()
	at := x.geometry.entryAt(n)
	if at < c.blockAt || at+entryLen > c.blockAt+int64(c.blockN) {
		from := max(at+entryLen-pageSize, 0) // older ones stand before
		got, err := c.file.f.ReadAt(c.block[:], from)
		if err != nil && (err != io.EOF || from+int64(got) < at+entryLen) {
			return entry{}, err
		}
		c.blockAt, c.blockN = from, got
	}
	copy(c.buffer[:], c.block[at-c.blockAt:])
	return decodeEntry(c.buffer[:]), nil
}
