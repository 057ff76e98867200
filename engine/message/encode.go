package message

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net/netip"
	"slices"
	"strings"
)

// RecordLen is the size in bytes of m's record.
func (m *Message) RecordLen() int {
	sysFlag := m.hostFlags()
	n := fixedLen + hostLen(sysFlag, SysFlagBornHostV6) + hostLen(sysFlag, SysFlagStoreHostV6) +
		len(m.Body) + len(m.Topic) + len(m.Properties)
	if len(m.Topic) > MaxTopicV1 {
		n++
	}
	return n
}

// AppendRecord appends m's record to dst; queue offset, own offset and store time stay zero until Stamp. Errors name the
// field, its size and the limit, and leave dst as it was. An address that is not set is written as 0.0.0.0:0, an IPv4
// address mapped into IPv6 as IPv4. Nothing is allocated when dst has room for RecordLen bytes more.
func AppendRecord(dst []byte, m *Message) ([]byte, error) {
	n := m.RecordLen()
	if err := m.check(n); err != nil {
		return dst, err
	}
	dst = slices.Grow(dst, n)
	start := len(dst)
	magic := MagicV1
	if len(m.Topic) > MaxTopicV1 {
		magic = MagicV2
	}
	be := binary.BigEndian
	dst = be.AppendUint32(dst, uint32(n))
	dst = be.AppendUint32(dst, magic)
	dst = be.AppendUint32(dst, BodyCRC(m.Body))
	dst = be.AppendUint32(dst, uint32(m.QueueID))
	dst = be.AppendUint32(dst, uint32(m.Flag))
	dst = be.AppendUint64(dst, 0) // queue offset
	dst = be.AppendUint64(dst, 0) // own offset
	dst = be.AppendUint32(dst, uint32(m.hostFlags()))
	dst = be.AppendUint64(dst, uint64(m.BornTime))
	dst = appendHost(dst, m.BornHost)
	dst = be.AppendUint64(dst, 0) // store time
	dst = appendHost(dst, m.StoreHost)
	dst = be.AppendUint32(dst, uint32(m.ReconsumeTimes))
	dst = be.AppendUint64(dst, uint64(m.PreparedOffset))
	dst = be.AppendUint32(dst, uint32(len(m.Body)))
	dst = append(dst, m.Body...)
	if magic == MagicV1 {
		dst = append(dst, byte(len(m.Topic)))
	} else {
		dst = be.AppendUint16(dst, uint16(len(m.Topic)))
	}
	dst = append(dst, m.Topic...)
	dst = be.AppendUint16(dst, uint16(len(m.Properties)))
	dst = append(dst, m.Properties...)
	if len(dst)-start != n {
		panic(fmt.Sprintf("BUG: message: record of %d bytes was announced as %d", len(dst)-start, n))
	}
	return dst, nil
}

// What a record must not have, since recovery could not tell it from one that a power cut has torn.
var (
	errZeroTopic      = errors.New("message: topic has a zero byte, none is allowed")
	errZeroProperties = fmt.Errorf("message: properties begin or end with a zero byte or have %d in a row, none of that is allowed", tornRun)
)

func (m *Message) check(recordLen int) error {
	if len(m.Topic) == 0 || len(m.Topic) > MaxTopic {
		return &LimitError{Field: "topic", Len: len(m.Topic), Min: 1, Max: MaxTopic}
	}
	if len(m.Properties) > MaxProperties {
		return &LimitError{Field: "properties", Len: len(m.Properties), Max: MaxProperties}
	}
	if strings.IndexByte(m.Topic, 0) >= 0 {
		return errZeroTopic
	}
	if torn(m.Properties) {
		return errZeroProperties
	}
	if recordLen > maxRecordLen {
		return &LimitError{Field: "record", Len: recordLen, Min: minRecordLen, Max: maxRecordLen}
	}
	return nil
}

// hostFlags is the sysflag with the two host family bits as the addresses want them.
func (m *Message) hostFlags() int32 {
	f := m.SysFlag &^ (SysFlagBornHostV6 | SysFlagStoreHostV6)
	if isV6(m.BornHost) {
		f |= SysFlagBornHostV6
	}
	if isV6(m.StoreHost) {
		f |= SysFlagStoreHostV6
	}
	return f
}

func isV6(h netip.AddrPort) bool { return h.Addr().Is6() && !h.Addr().Is4In6() }

func appendHost(dst []byte, h netip.AddrPort) []byte {
	switch {
	case isV6(h):
		ip := h.Addr().As16()
		dst = append(dst, ip[:]...)
	case h.Addr().IsValid():
		ip := h.Addr().As4()
		dst = append(dst, ip[:]...)
	default:
		dst = append(dst, 0, 0, 0, 0)
	}
	return binary.BigEndian.AppendUint32(dst, uint32(h.Port()))
}

// BodyCRC is the checksum that a record keeps of its stored body.
func BodyCRC(body []byte) uint32 { return crc32.ChecksumIEEE(body) & crcMask }

// Stamp fills in what is only known under the put lock: three stores. rec is a record as AppendRecord made it. A record
// that gets no entry in a queue (see InQueue) keeps queue offset 0, whatever q is.
func Stamp(rec []byte, q QueueOffset, at Offset, storeTimeMS int64) {
	_ = rec[minRecordLen-1]
	be := binary.BigEndian
	sysFlag := int32(be.Uint32(rec[sysFlagAt:]))
	if InQueue(sysFlag) {
		be.PutUint64(rec[queueOffsetAt:], uint64(q))
	}
	be.PutUint64(rec[offsetAt:], uint64(at))
	be.PutUint64(rec[bornHostAt+hostLen(sysFlag, SysFlagBornHostV6):], uint64(storeTimeMS))
}

// SysFlag is the sysflag of the record at the start of rec, which has at least 40 bytes.
func SysFlag(rec []byte) int32 { return int32(binary.BigEndian.Uint32(rec[sysFlagAt:])) }

// AppendBlank appends the 8 bytes of an end record that covers the remaining bytes of a segment.
func AppendBlank(dst []byte, remaining int) []byte {
	if remaining < BlankLen || remaining > maxRecordLen {
		panic(fmt.Sprintf("BUG: message: an end record over %d bytes", remaining))
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(remaining))
	return binary.BigEndian.AppendUint32(dst, MagicBlank)
}
