package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"ringmq/engine/message"
)

// clockSlackMS is how far store times may go back within the log: another broker's clock was set.
const clockSlackMS = 60_000

// ErrBroken is wrapped by what Lookup says of a file whose chains are not as they were written, or that the device cannot read.
var ErrBroken = errors.New("the key file is broken")

// Lookup calls visit with the positions of records whose keys have this hash, from the newest on, until it returns false; those of records
// that were surely not stored within [beginMS, endMS] are left out. Other keys may have the same hash, and a position may come twice in a
// row. Records put meanwhile may or may not be seen. An error says that a file is broken or could not be read, so that messages of it may be
// missing; the others were looked through.
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
	for n > 0 {
		e, err := c.entry(n)
		if err != nil {
			return true, err
		}
		c.index.metrics.Examined.Add(1)
		if err := c.check(n, &e); err != nil {
			return true, err
		}
		if e.hash == c.hash && c.inTime(n, e.seconds) && !visit(e.offset) {
			return false, nil
		}
		n = e.previous
	}
	return true, nil
}

// check tells what is wrong with entry n, which the chain has led to. A chain leads to lower numbers only, so that it ends.
func (c *chain) check(n int32, e *entry) error {
	g, h := c.index.geometry, c.header
	growing := c.entriesGrow() // then the header is older than the entry may be
	switch {
	case e.hash < 0 || g.slotAt(e.hash) != g.slotAt(c.hash):
		return fmt.Errorf("%w: entry %d has hash %d, which is of another chain than %d", ErrBroken, n, e.hash, c.hash)
	case e.previous < 0 || e.previous >= n:
		return fmt.Errorf("%w: entry %d leads to entry %d", ErrBroken, n, e.previous)
	case e.offset < h.begin || e.offset > h.end && !growing:
		return fmt.Errorf("%w: entry %d is of position %d, the file of %d to %d", ErrBroken, n, e.offset, h.begin, h.end)
	case e.seconds < 0:
		return fmt.Errorf("%w: entry %d is of second %d", ErrBroken, n, e.seconds)
	}
	return nil
}

// entriesGrow tells whether it is the newest file.
func (c *chain) entriesGrow() bool {
	x := c.index
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.newest() == c.file || c.header.count < x.geometry.entries
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
		return 0, unread(err)
	}
	n := int32(binary.BigEndian.Uint32(b[:]))
	if n < 0 || n >= x.geometry.entries {
		return 0, fmt.Errorf("%w: a slot points to entry %d of %d", ErrBroken, n, c.header.count)
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
			return entry{}, unread(err)
		}
		c.blockAt, c.blockN = from, got
	}
	copy(c.buffer[:], c.block[at-c.blockAt:])
	return decodeEntry(c.buffer[:]), nil
}

// unread is an error of reading a file; one that was closed has been removed, which is no fault of its.
func unread(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrBroken, err)
}
