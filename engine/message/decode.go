package message

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// ErrNotWhole is wrapped by every error of Check.
var ErrNotWhole = errors.New("not a whole record")

// ErrZerosInText is an ErrNotWhole: all of the record agrees, but there are zeros where its properties should be. A Java broker takes such
// a record for whole.
var ErrZerosInText = fmt.Errorf("zeros where properties should be: %w", ErrNotWhole)

// Size is the total size field of the record at the start of b. b has at least 4 bytes. What it returns may be
// anything, also negative, until Check or Peek has said that a record stands there.
func Size(b []byte) int { return int(int32(binary.BigEndian.Uint32(b[sizeAt:]))) }

// Check decodes what stands at the start of b, which is at position at of the log and ends with its segment. A Whole
// record has size, magic, own offset, body CRC, topic and property lengths that all agree, and no zeros where text should
// be. For Blank r.Size is set; its size must be exactly what remains of the segment. r is undefined for Bad and Zero, but
// complete with ErrZerosInText. Only errors allocate.
//
// Of a host's port, which the format keeps in four bytes, Record has the low two: no port is larger.
func Check(b []byte, at Offset, r *Record) (Kind, error) {
	if len(b) < BlankLen {
		return Bad, notWhole(at, "segment ends", len(b), BlankLen, maxRecordLen)
	}
	switch head := binary.BigEndian.Uint64(b); {
	case head == 0:
		return Zero, nil
	case uint32(head) == MagicBlank:
		if size := Size(b); size != len(b) {
			return Bad, notWhole(at, "end record size", size, len(b), len(b))
		}
		*r = Record{Size: int32(len(b)), Magic: MagicBlank, Offset: at}
		return Blank, nil
	}
	if err := decode(b, at, r); err != nil {
		return Bad, err
	}
	if r.Offset != at {
		return Bad, notWhole(at, "own offset", int(r.Offset), int(at), int(at))
	}
	if crc := BodyCRC(r.Body); r.BodyCRC != crc {
		return Bad, fmt.Errorf("message: record at %d: body CRC %08x, but the body has %08x: %w", at, r.BodyCRC, crc, ErrNotWhole)
	}
	if err := checkText(at, r); err != nil {
		return Bad, err
	}
	return Whole, nil
}

// Decode reads the one record that rec consists of, such as one of a batch on its way to the log, and checks its
// structure, not its body CRC and not its own offset.
func Decode(rec []byte, r *Record) error {
	if len(rec) < minRecordLen {
		return notWhole(0, "bytes", len(rec), minRecordLen, maxRecordLen)
	}
	if size := Size(rec); size != len(rec) {
		return notWhole(0, "size", size, len(rec), len(rec))
	}
	if err := decode(rec, 0, r); err != nil {
		return err
	}
	return checkText(0, r)
}

// decode fills in r from the record at the start of b. It checks magic and that the lengths add up to the size exactly;
// at is for errors. len(b) >= BlankLen.
func decode(b []byte, at Offset, r *Record) error {
	be := binary.BigEndian
	magic := be.Uint32(b[magicAt:])
	if magic != MagicV1 && magic != MagicV2 {
		return fmt.Errorf("message: record at %d: magic %08x, known are %08x, %08x and %08x: %w",
			at, magic, MagicV1, MagicV2, MagicBlank, ErrNotWhole)
	}
	size := Size(b)
	if size < minRecordLen || size > len(b) {
		return notWhole(at, "size", size, minRecordLen, len(b))
	}
	b = b[:size:size]
	r.Size = int32(size)
	r.Magic = magic
	r.BodyCRC = be.Uint32(b[bodyCRCAt:])
	r.QueueID = int32(be.Uint32(b[queueIDAt:]))
	r.Flag = int32(be.Uint32(b[flagAt:]))
	r.QueueOffset = QueueOffset(be.Uint64(b[queueOffsetAt:]))
	r.Offset = Offset(be.Uint64(b[offsetAt:]))
	r.SysFlag = int32(be.Uint32(b[sysFlagAt:]))
	r.BornTime = int64(be.Uint64(b[bornTimeAt:]))

	bornLen, storeLen := hostLen(r.SysFlag, SysFlagBornHostV6), hostLen(r.SysFlag, SysFlagStoreHostV6)
	if fixed := fixedLen + bornLen + storeLen; size <= fixed {
		return notWhole(at, "size", size, fixed+1, len(b))
	}
	p := b[bornHostAt:]
	r.BornHost, p = host(p[:bornLen]), p[bornLen:]
	r.StoreTime, p = int64(be.Uint64(p)), p[8:]
	r.StoreHost, p = host(p[:storeLen]), p[storeLen:]
	r.ReconsumeTimes, p = int32(be.Uint32(p)), p[4:]
	r.PreparedOffset, p = Offset(be.Uint64(p)), p[8:]
	return decodeTail(p, at, r)
}

// decodeTail reads body, topic and properties from p, the last bytes of the record, which must be used up by them. p has
// room for the three lengths at least.
func decodeTail(p []byte, at Offset, r *Record) error {
	be := binary.BigEndian
	bodyLen, p := int(int32(be.Uint32(p))), p[4:]
	topicLenLen := 1
	if r.Magic == MagicV2 {
		topicLenLen = 2
	}
	room := len(p) - topicLenLen - 1 - 2 // a topic of one byte and the properties' length follow
	if bodyLen < 0 || bodyLen > room {
		return notWhole(at, "body length", bodyLen, 0, room)
	}
	r.Body, p = p[:bodyLen:bodyLen], p[bodyLen:]

	topicLen := int(int8(p[0]))
	if r.Magic == MagicV2 {
		topicLen = int(int16(be.Uint16(p)))
	}
	p = p[topicLenLen:]
	if topicLen < 1 || topicLen > len(p)-2 {
		return notWhole(at, "topic length", topicLen, 1, len(p)-2)
	}
	r.Topic, p = p[:topicLen:topicLen], p[topicLen:]

	propertiesLen, p := int(int16(be.Uint16(p))), p[2:]
	if propertiesLen != len(p) {
		return notWhole(at, "properties length", propertiesLen, len(p), len(p))
	}
	r.Properties = p
	return nil
}

// checkText is the last of all checks, so that with ErrZerosInText everything else is known to agree.
func checkText(at Offset, r *Record) error {
	if bytes.IndexByte(r.Topic, 0) >= 0 {
		return fmt.Errorf("message: record at %d: a zero byte in the topic: %w", at, ErrNotWhole)
	}
	if torn(r.Properties) {
		return fmt.Errorf("message: record at %d: %w", at, ErrZerosInText)
	}
	return nil
}

// tornRun is a row of zeros that properties of a sender do not have, but pages that were not written do.
const tornRun = 256

// torn tells whether properties look as if some of their pages had not reached the device: no checksum covers them. A name
// never begins with a zero byte, and no value ends with one but for a sender that means harm; AppendRecord refuses both.
func torn(props []byte) bool {
	if len(props) == 0 {
		return false
	}
	if props[0] == 0 || props[len(props)-1] == 0 {
		return true
	}
	if len(props) < tornRun {
		return false
	}
	var zeros [tornRun]byte
	return bytes.Contains(props, zeros[:])
}

func host(b []byte) netip.AddrPort {
	ip, port := b[:len(b)-4], uint16(binary.BigEndian.Uint32(b[len(b)-4:]))
	if len(ip) == 4 {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(ip)), port)
	}
	return netip.AddrPortFrom(netip.AddrFrom16([16]byte(ip)), port)
}

func notWhole(at Offset, field string, value, lo, hi int) error {
	if lo == hi {
		return fmt.Errorf("message: record at %d: %s %d, must be %d: %w", at, field, value, lo, ErrNotWhole)
	}
	return fmt.Errorf("message: record at %d: %s %d, allowed are %d to %d: %w", at, field, value, lo, hi, ErrNotWhole)
}

// Peek is the light check of a pull: size, magic and own offset. b, at position at, must hold the whole record.
func Peek(b []byte, at Offset) (size int, ok bool) {
	if len(b) < minRecordLen {
		return 0, false
	}
	be := binary.BigEndian
	size = Size(b)
	magic := be.Uint32(b[magicAt:])
	if size < minRecordLen || size > len(b) || magic != MagicV1 && magic != MagicV2 || Offset(be.Uint64(b[offsetAt:])) != at {
		return 0, false
	}
	return size, true
}

// StoreTime reads the store time of a record, in ms, from its first bytes; HeadLen of them always do.
func StoreTime(head []byte) (ms int64, ok bool) {
	if len(head) < bornHostAt {
		return 0, false
	}
	at := bornHostAt + hostLen(SysFlag(head), SysFlagBornHostV6)
	if len(head) < at+8 {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(head[at:])), true
}
