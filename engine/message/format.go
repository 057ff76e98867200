package message

import "math"

// One record, big endian, without padding; the next record follows at once:
//
//	  at          bytes
//	   0  size        4  whole record, this field included
//	   4  magic       4  MagicV1, MagicV2
//	   8  body CRC    4  CRC-32 (IEEE) of the stored body, top bit cleared; 0 for an empty body
//	  12  queue id    4
//	  16  flag        4  the user's
//	  20  queue off.  8  entry number in the consume queue        ┐ stamped
//	  28  offset      8  position of this record's first byte     ┘ under the put lock
//	  36  sysflag     4  SysFlag... bits
//	  40  born time   8  ms
//	  48  born host   b  b = 8 (IPv4) or 20 (IPv6): address, then port in 4 bytes
//	48+b  store time  8  ms                                         stamped under the put lock
//	56+b  store host  s  s = 8 or 20
//	  …   reconsume   4
//	  …   prepared    8  position of the half message, for commit and rollback
//	  …   body        4 + n
//	  …   topic       1 + n (V1), 2 + n (V2)
//	  …   properties  2 + n
//
// An end record closes a segment that has no room for the next record and 8 bytes more: size 4 (all that remains of the
// segment), MagicBlank 4. What follows it in the segment has no meaning.
const (
	MagicV1    uint32 = 0xdaa320a7 // topic length in one signed byte
	MagicV2    uint32 = 0xdaa320ab // topic length in two signed bytes; written by 5.x only, for topics above MaxTopicV1
	MagicBlank uint32 = 0xcbd43194
)

// Limits of the format itself, in bytes. What a broker allows is its own policy.
const (
	MaxTopicV1    = math.MaxInt8
	MaxTopic      = math.MaxInt16
	MaxProperties = math.MaxInt16
	BlankLen      = 8 // an end record; a record goes into a segment only if this much room stays behind it
)

// Bits of the sysflag.
const (
	SysFlagCompressed      int32 = 0x1
	SysFlagMultiTags       int32 = 0x2
	SysFlagTransactionMask int32 = 0xC // a field of two bits:
	SysFlagPrepared        int32 = 0x4
	SysFlagCommit          int32 = 0x8
	SysFlagRollback        int32 = 0xC
	SysFlagBornHostV6      int32 = 0x10
	SysFlagStoreHostV6     int32 = 0x20
	SysFlagNeedUnwrap      int32 = 0x40
	SysFlagInnerBatch      int32 = 0x80
	SysFlagCompressionMask int32 = 0x700 // 0 is the old zlib
	SysFlagLZ4             int32 = 0x100
	SysFlagZSTD            int32 = 0x200
	SysFlagZLIB            int32 = 0x300
)

// HeadLen is the longest prefix of a record that ends with its store time: enough bytes for StoreTime.
const HeadLen = bornHostAt + hostLenV6 + 8

const (
	sizeAt        = 0
	magicAt       = 4
	bodyCRCAt     = 8
	queueIDAt     = 12
	flagAt        = 16
	queueOffsetAt = 20
	offsetAt      = 28
	sysFlagAt     = 36
	bornTimeAt    = 40
	bornHostAt    = 48

	hostLenV4 = 4 + 4
	hostLenV6 = 16 + 4

	// fixedLen is a V1 record without body, topic, properties and hosts: the 48 bytes before the born host, store time,
	// reconsume times, prepared offset and the three lengths.
	fixedLen = bornHostAt + 8 + 4 + 8 + 4 + 1 + 2

	// minRecordLen is the shortest whole record: IPv4 hosts and a topic of one byte.
	minRecordLen = fixedLen + 2*hostLenV4 + 1

	maxRecordLen = math.MaxInt32

	crcMask = 0x7fffffff // the original keeps the CRC in a signed int and clears its sign
)

// InQueue tells whether a record with this sysflag gets an entry, and so a number, in its queue: prepared and rollback
// records do not.
func InQueue(sysFlag int32) bool { return sysFlag&SysFlagPrepared == 0 }

func hostLen(sysFlag, v6Bit int32) int {
	if sysFlag&v6Bit != 0 {
		return hostLenV6
	}
	return hostLenV4
}
