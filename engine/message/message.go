// Package message knows the bytes of one stored message: the record codec, properties, message ids and the two
// offset types. It imports nothing of ringmq and does no input or output.
package message

import "net/netip"

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

// RecordLen is the size in bytes of m's record.
func (m *Message) RecordLen() int { panic("unbuilt") }

// AppendRecord appends m's record to dst; queue offset, own offset and store time stay zero until Stamp. Errors name the
// field, its size and the limit.
func AppendRecord(dst []byte, m *Message) ([]byte, error) { panic("unbuilt") }

// Stamp fills in what is only known under the put lock.
func Stamp(rec []byte, q QueueOffset, at Offset, storeTimeMS int64) { panic("unbuilt") }

// Size is the total size field of the record at the start of b. b has at least 4 bytes.
func Size(b []byte) int { panic("unbuilt") }

// AppendBlank appends the 8 bytes of an end record that covers the remaining bytes of a segment.
func AppendBlank(dst []byte, remaining int) []byte { panic("unbuilt") }

// Kind tells what stands at a place in the log.
type Kind uint8

const (
	Bad   Kind = iota // not whole: the error says why
	Whole             // a record
	Blank             // an end record: go on at the next segment
	Zero              // nothing written here: the first 8 bytes are zero
)

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

// Check decodes what stands at the start of b, which is at position at of the log and ends with its segment. A Whole
// record has size, magic, own offset, body CRC, topic and property lengths that all agree. For Blank r.Size is set.
func Check(b []byte, at Offset, r *Record) (Kind, error) { panic("unbuilt") }

// Peek is the light check of a pull: size, magic and own offset.
func Peek(b []byte, at Offset) (size int, ok bool) { panic("unbuilt") }
