package commitlog

import (
	"bytes"
	"encoding/binary"
	"os"
	"runtime/debug"
	"unsafe"

	"ringmq/engine/message"
	"ringmq/engine/segment"
)

// runBytes bounds a stretch that is touched before it is looked at, so that it is still in memory then.
const runBytes = 1 << 20

// NextWhole returns where in b, at from or behind it but before limit, the next whole record begins; limit if there is none. b stands at
// position at of the log and ends with its segment. A record is found by its magic and believed if all of it checks; what the device
// cannot read is passed over.
func NextWhole(b []byte, at message.Offset, from, limit int) int {
	prefix := magicPrefix()
	for pos := from + 4; pos < len(b) && pos-4 < limit; {
		start, end := readableRun(b, pos)
		if found, ok := wholeBetween(b, at, start, end, prefix); ok {
			return min(found, limit)
		}
		next := end - len(prefix) + 1 // a magic may lie across two runs
		if next <= pos {
			next = end
		}
		pos = next
	}
	return limit
}

// wholeBetween finds the first whole record whose magic stands in b[start:end].
func wholeBetween(b []byte, at message.Offset, start, end int, prefix []byte) (found int, ok bool) {
	var unreadable error // what could be read a moment ago, too, is passed over then
	defer segment.CatchFault(&unreadable, "commitlog", debug.SetPanicOnFault(true))
	for start < end {
		i := bytes.Index(b[start:end], prefix)
		if i < 0 {
			break
		}
		if found = start + i - 4; isWhole(b[found:], at+message.Offset(found)) {
			return found, true
		}
		start += i + 1
	}
	return 0, false
}

// isWhole tells whether a whole record begins b. One that cannot be read to its end is not.
func isWhole(b []byte, at message.Offset) (whole bool) {
	var unreadable error
	defer segment.CatchFault(&unreadable, "commitlog", debug.SetPanicOnFault(true))
	if _, ok := message.Peek(b, at); !ok {
		return false
	}
	var record message.Record
	kind, _ := message.Check(b, at, &record)
	return kind == message.Whole
}

// magicPrefix is what the magics of both record versions begin with.
func magicPrefix() []byte {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], message.MagicV1)
	return b[:3]
}

// readableRun is the next stretch of b, at from or behind it, that can be read, or a first part of it. Start and end are len(b) if there
// is none.
func readableRun(b []byte, from int) (start, end int) {
	for start = from; start < len(b); start = nextPage(b, start) {
		if end = firstUnreadable(b, start, min(start+runBytes, len(b))); end > start {
			return start, end
		}
	}
	return len(b), len(b)
}

// firstUnreadable is where in [from, to) the first page begins that cannot be read, to if all can.
func firstUnreadable(b []byte, from, to int) int {
	at, sum := from, byte(0)
	touchAll := func() {
		var unreadable error
		defer segment.CatchFault(&unreadable, "commitlog", debug.SetPanicOnFault(true))
		for at < to {
			sum ^= b[at]
			at = nextPage(b, at)
		}
	}
	touchAll()
	touched(sum)
	return min(at, to)
}

// nextPage is the place in b where the page behind that of byte at begins. b may begin within a page.
func nextPage(b []byte, at int) int {
	page := os.Getpagesize()
	within := int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (page - 1)
	return (within+at)/page*page + page - within
}

// touched keeps the compiler from leaving the reads away.
//
//go:noinline
func touched(byte) {}

// lastUsed returns where the last byte of b stands that is not zero, or cannot be read; -1 if there is none. It reads forward, as the
// kernel reads ahead.
func lastUsed(b []byte) int {
	last := -1
	for at := 0; at < len(b); {
		start, end := readableRun(b, at)
		if start > at {
			last = start - 1
		}
		if i := lastNonZero(b[start:end]); i >= 0 {
			last = start + i
		}
		at = end
	}
	return last
}
