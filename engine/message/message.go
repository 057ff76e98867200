// Package message knows the bytes of one stored message: the record codec, properties, message ids and the two
// offset types. It imports nothing of ringmq and does no input or output.
//
// format.go holds the layout, encode.go writes it outside the put lock and stamps it under the lock, decode.go reads it
// and trusts nothing: every length is checked against the bytes at hand before it is used, and no length makes memory.
package message

import (
	"fmt"
	"net/netip"
)

// Offset is a byte position in the logical commit log that all segments form together.
type Offset int64

// QueueOffset is an entry number in one consume queue.
type QueueOffset int64

// Message is one message on its way into the log. The slices are borrowed until AppendRecord returns.
type Message struct {
	Topic          string
	QueueID        int32
	Flag           int32
	SysFlag        int32 // host family bits are set by AppendRecord from the addresses
	BornTime       int64 // ms since 1970
	BornHost       netip.AddrPort
	StoreHost      netip.AddrPort
	ReconsumeTimes int32
	PreparedOffset Offset
	Body           []byte
	Properties     []byte // name 0x01 value 0x02 repeated
}

// Record is a decoded record. Its slices point into the bytes that were decoded.
type Record struct {
	Size           int32
	Magic          uint32
	BodyCRC        uint32
	QueueID        int32
	Flag           int32
	QueueOffset    QueueOffset
	Offset         Offset
	SysFlag        int32
	BornTime       int64
	BornHost       netip.AddrPort
	StoreTime      int64
	StoreHost      netip.AddrPort
	ReconsumeTimes int32
	PreparedOffset Offset
	Body           []byte
	Topic          []byte
	Properties     []byte
}

// Kind tells what stands at a place in the log.
type Kind uint8

const (
	Bad   Kind = iota // not whole: the error says why
	Whole             // a record
	Blank             // an end record: go on at the next segment
	Zero              // nothing written here: the first 8 bytes are zero
)

// String names the kind for logs and test output.
func (k Kind) String() string {
	switch k {
	case Bad:
		return "bad"
	case Whole:
		return "whole"
	case Blank:
		return "blank"
	case Zero:
		return "zero"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// LimitError says which field of a message cannot be stored as it is.
type LimitError struct {
	Field string // "topic", "properties", "record"
	Len   int    // bytes it has
	Min   int    // bytes it must have
	Max   int    // bytes it may have
}

// Error names the field, its length and what is allowed.
func (e *LimitError) Error() string {
	return fmt.Sprintf("message: %s of %d bytes, allowed are %d to %d", e.Field, e.Len, e.Min, e.Max)
}
