package index

import (
	"bytes"
	"encoding/binary"
	"math"

	"ringmq/engine/message"
)

// A key file, RocketMQ's format. All integers are big endian and signed.
//
//	offset  0: store time of the first record, ms          int64
//	        8: store time of the last record, ms           int64
//	       16: position of the first record                int64
//	       24: position of the last record                 int64
//	       32: slots in use                                int32
//	       36: count: number of the next entry, 1 at first int32
//	       40: slots, maxHashSlotNum of them, each
//	             number of the chain's newest entry        int32, 0: none
//	   40+4s : entries, maxIndexNum of them, number 0 unused, each
//	        0:   hash of the key                           int32, not negative
//	        4:   position of the record                    int64
//	       12:   its store time, s since the file's first  int32, not negative
//	       16:   the chain's next older entry              int32, 0: none
//
// A key is topic#key, or topic#T#tags. Its hash is Java's over UTF-16 units without the sign; its slot is hash mod slots. A file is full
// when count has reached maxIndexNum. One that follows a full one begins with begin = end = the other's end, and its first entry counts
// the seconds from there, before it sets begin; so the time of entry 1 says nothing.
const (
	headerLen = 40
	slotLen   = 4
	entryLen  = 20
	nameLen   = 17 // yyyyMMddHHmmssSSS, local time
)

// header is the head of a file, and what the index knows of it while it is open.
type header struct {
	beginMS, endMS int64
	begin, end     message.Offset
	used, count    int32
}

func (h *header) put(b []byte) {
	be := binary.BigEndian
	be.PutUint64(b, uint64(h.beginMS))
	be.PutUint64(b[8:], uint64(h.endMS))
	be.PutUint64(b[16:], uint64(h.begin))
	be.PutUint64(b[24:], uint64(h.end))
	be.PutUint32(b[32:], uint32(h.used))
	be.PutUint32(b[36:], uint32(h.count))
}

func decodeHeader(b []byte) header {
	be := binary.BigEndian
	return header{
		beginMS: int64(be.Uint64(b)), endMS: int64(be.Uint64(b[8:])),
		begin: message.Offset(be.Uint64(b[16:])), end: message.Offset(be.Uint64(b[24:])),
		used: int32(be.Uint32(b[32:])), count: int32(be.Uint32(b[36:])),
	}
}

// seconds is the time of a record as its entry keeps it.
func (h *header) seconds(storeMS int64) int32 {
	if h.beginMS <= 0 || storeMS <= h.beginMS {
		return 0
	}
	return int32(min((storeMS-h.beginMS)/1000, math.MaxInt32))
}

// entry is one key of one record.
type entry struct {
	hash     int32
	offset   message.Offset
	seconds  int32
	previous int32
}

func (e *entry) append(dst []byte) []byte {
	be := binary.BigEndian
	dst = be.AppendUint32(dst, uint32(e.hash))
	dst = be.AppendUint64(dst, uint64(e.offset))
	dst = be.AppendUint32(dst, uint32(e.seconds))
	return be.AppendUint32(dst, uint32(e.previous))
}

func decodeEntry(b []byte) entry {
	be := binary.BigEndian
	return entry{
		hash: int32(be.Uint32(b)), offset: message.Offset(be.Uint64(b[4:])),
		seconds: int32(be.Uint32(b[12:])), previous: int32(be.Uint32(b[16:])),
	}
}

// geometry is how a file is divided. Its files do not tell; they are of one geometry, or are built anew.
type geometry struct{ slots, entries int32 }

func (g geometry) headLen() int64          { return headerLen + slotLen*int64(g.slots) }
func (g geometry) size() int64             { return g.headLen() + entryLen*int64(g.entries) }
func (g geometry) entryAt(n int32) int64   { return g.headLen() + entryLen*int64(n) }
func (g geometry) slotAt(hash int32) int64 { return headerLen + slotLen*int64(hash%g.slots) }

// Size is that of a file with so many slots and entries.
func Size(slots, entries int64) int64 { return headerLen + slotLen*slots + entryLen*entries }

// Kind says what a key is.
type Kind uint8

// Kinds of keys; the letters are those of the protocol's indexType.
const (
	Key    Kind = iota // K: one of KEYS, or the unique key
	Unique             // U: the unique key
	Tag                // T: the tags
)

// Hash is what an entry keeps of a key.
func Hash(topic, key []byte, kind Kind) int32 {
	h := topicHash(topic)
	if kind == Tag {
		h = tagHash(h)
	}
	return absolute(message.JavaHash(h, key))
}

func topicHash(topic []byte) int32 { return 31*message.JavaHash(0, topic) + '#' }

// tagHash continues the hash of topic# over T#.
func tagHash(h int32) int32 { return 31*(31*h+'T') + '#' }

func absolute(h int32) int32 {
	if h < 0 {
		h = -h
	}
	return max(h, 0) // the one number without an absolute value
}

// appendHashes appends the hashes of a record's keys, in the order in which they are put. Rollback records have none.
func appendHashes(dst []int32, r *message.Record) []int32 {
	if r.SysFlag&message.SysFlagRollback == message.SysFlagRollback {
		return dst
	}
	var unique, keys, tags []byte
	for name, value := range message.Properties(r.Properties) { // one pass: it is done for every message
		switch string(name) {
		case message.PropertyUniqueKey:
			unique = value
		case message.PropertyKeys:
			keys = value
		case message.PropertyTags:
			tags = value
		}
	}
	topic := topicHash(r.Topic)
	if len(unique) > 0 {
		dst = append(dst, absolute(message.JavaHash(topic, unique)))
	}
	for len(keys) > 0 {
		var key []byte
		if key, keys = cutKey(keys); len(key) > 0 {
			dst = append(dst, absolute(message.JavaHash(topic, key)))
		}
	}
	if len(tags) > 0 {
		dst = append(dst, absolute(message.JavaHash(tagHash(topic), tags)))
	}
	return dst
}

// cutKey takes the first of several keys, which blanks separate.
func cutKey(keys []byte) (key, rest []byte) {
	if i := bytes.IndexByte(keys, ' '); i >= 0 {
		return keys[:i], keys[i+1:]
	}
	return keys, nil
}

// Has tells whether a record bears a key: equal hashes are told apart by it.
func Has(r *message.Record, topic, key []byte, kind Kind) bool {
	if !bytes.Equal(r.Topic, topic) || r.SysFlag&message.SysFlagRollback == message.SysFlagRollback {
		return false
	}
	if kind == Tag {
		tags, ok := message.Property(r.Properties, message.PropertyTags)
		return ok && bytes.Equal(tags, key)
	}
	if unique, ok := message.Property(r.Properties, message.PropertyUniqueKey); ok && bytes.Equal(unique, key) {
		return true
	}
	if kind == Unique {
		return false
	}
	keys, _ := message.Property(r.Properties, message.PropertyKeys)
	for len(keys) > 0 {
		var one []byte
		if one, keys = cutKey(keys); len(one) > 0 && bytes.Equal(one, key) {
			return true
		}
	}
	return false
}
