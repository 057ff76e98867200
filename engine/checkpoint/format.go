package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"

	"ringmq/engine/message"
)

// Checkpoint, RocketMQ's format: 4096 bytes, six signed big endian longs, the rest zero. Version 4.9 knows the first three.
//
//	offset  0: time of the last flushed message of the commit log, ms
//	        8: time of the last flushed message of the consume queues, ms
//	       16: time of the last message in a flushed index file, ms
//	       24: flushed offset of the master
//	       32: confirmed offset
//	       40: offset up to which consume queues are flushed
//	       48: zero; not looked at, so a later version may use it
const (
	checkpointSize       = 4096
	checkpointFieldCount = 6
)

var checkpointFields = [checkpointFieldCount]string{
	"log time", "queue time", "index time", "master flushed offset", "confirmed offset", "queue offset",
}

func appendCheckpoint(dst []byte, c Checkpoint) []byte {
	start := len(dst)
	for _, v := range c.values() {
		dst = binary.BigEndian.AppendUint64(dst, uint64(v))
	}
	return append(dst, make([]byte, checkpointSize-(len(dst)-start))...)
}

func decodeCheckpoint(b []byte) (Checkpoint, error) {
	if len(b) != checkpointSize {
		return Checkpoint{}, fmt.Errorf("file has %d bytes, a checkpoint has %d; ignored", len(b), checkpointSize)
	}
	var values [checkpointFieldCount]int64
	var errs []error
	for i := range values {
		v := int64(binary.BigEndian.Uint64(b[8*i:]))
		if v < 0 {
			errs = append(errs, fmt.Errorf("%s at byte %d is %d, must not be negative; taken as 0", checkpointFields[i], 8*i, v))
			v = 0
		}
		values[i] = v
	}
	return checkpointOf(values), errors.Join(errs...)
}

// Mark, ringmq's format: big endian, length and checksum over the whole file. Only whole, unchanged files are believed; the
// file is always replaced, never written in place.
//
//	offset  0: "RMQMARK"                    7 bytes
//	        7: version, 2                   1 byte
//	        8: length of the whole file     uint64
//	       16: Flushed                      int64, >= 0
//	       24: Dispatched                   int64, 0..Flushed
//	       32: Last                         int64, -1..Flushed-1
//	       40: LastStoreTimeMS              int64, >= 0
//	       48: flags: bit 0 Clean           uint32, other bits zero
//	       52: number of queues             uint32
//	       56: Limit                        int64, 0 or >= Flushed
//	       64: queues, each
//	             length of topic            uint16, > 0
//	             topic
//	             QueueID                    int32, >= 0
//	             Min                        int64, 0..Max
//	             Max                        int64
//	      end: xxHash64 of all bytes before uint64
const (
	markMagic      = "RMQMARK"
	markVersion    = 2
	markHeaderLen  = 64
	markTrailerLen = 8
	markQueueLen   = 2 + 4 + 8 + 8 // without the topic
	markFlagClean  = 1 << 0
)

func (m *Mark) encodedLen() int {
	n := markHeaderLen + markTrailerLen
	for i := range m.Queues {
		n += markQueueLen + len(m.Queues[i].Topic)
	}
	return n
}

// appendMark appends the file of a mark that check has passed.
func appendMark(dst []byte, m *Mark) []byte {
	start, be := len(dst), binary.BigEndian
	dst = append(dst, markMagic...)
	dst = append(dst, markVersion)
	dst = be.AppendUint64(dst, uint64(m.encodedLen()))
	dst = be.AppendUint64(dst, uint64(m.Flushed))
	dst = be.AppendUint64(dst, uint64(m.Dispatched))
	dst = be.AppendUint64(dst, uint64(m.Last))
	dst = be.AppendUint64(dst, uint64(m.LastStoreTimeMS))
	var flags uint32
	if m.Clean {
		flags = markFlagClean
	}
	dst = be.AppendUint32(dst, flags)
	dst = be.AppendUint32(dst, uint32(len(m.Queues)))
	dst = be.AppendUint64(dst, uint64(m.Limit))
	for i := range m.Queues {
		q := &m.Queues[i]
		dst = be.AppendUint16(dst, uint16(len(q.Topic)))
		dst = append(dst, q.Topic...)
		dst = be.AppendUint32(dst, uint32(q.QueueID))
		dst = be.AppendUint64(dst, uint64(q.Min))
		dst = be.AppendUint64(dst, uint64(q.Max))
	}
	return be.AppendUint64(dst, xxhash.Sum64(dst[start:]))
}

// decodeMark accepts exactly what appendMark writes. The checksum comes before any field is believed, the version before
// the checksum, so that a file of a later version is called that and not damaged.
func decodeMark(b []byte) (Mark, error) {
	be := binary.BigEndian
	if len(b) < markHeaderLen+markTrailerLen {
		return Mark{}, fmt.Errorf("file has %d bytes, at least %d are needed", len(b), markHeaderLen+markTrailerLen)
	}
	if string(b[:len(markMagic)]) != markMagic {
		return Mark{}, fmt.Errorf("file begins with %q, want %q", b[:len(markMagic)], markMagic)
	}
	if b[7] != markVersion {
		return Mark{}, fmt.Errorf("version is %d, only %d is known", b[7], markVersion)
	}
	if n := be.Uint64(b[8:]); n != uint64(len(b)) {
		return Mark{}, fmt.Errorf("file has %d bytes, its header says %d", len(b), n)
	}
	body := b[:len(b)-markTrailerLen]
	if got, want := xxhash.Sum64(body), be.Uint64(b[len(body):]); got != want {
		return Mark{}, fmt.Errorf("checksum is %016x, file says %016x", got, want)
	}
	m := Mark{
		Flushed:         message.Offset(be.Uint64(b[16:])),
		Dispatched:      message.Offset(be.Uint64(b[24:])),
		Last:            message.Offset(be.Uint64(b[32:])),
		LastStoreTimeMS: int64(be.Uint64(b[40:])),
		Limit:           message.Offset(be.Uint64(b[56:])),
	}
	flags := be.Uint32(b[48:])
	if flags&^uint32(markFlagClean) != 0 {
		return Mark{}, fmt.Errorf("flags are %#x, only %#x is known", flags, markFlagClean)
	}
	m.Clean = flags&markFlagClean != 0
	var err error
	if m.Queues, err = decodeQueues(body, be.Uint32(b[52:])); err != nil {
		return Mark{}, err
	}
	if err := m.check(); err != nil {
		return Mark{}, err
	}
	return m, nil
}

// decodeQueues reads count queues, which must end exactly where body ends.
func decodeQueues(body []byte, count uint32) ([]QueueMark, error) {
	be, pos := binary.BigEndian, markHeaderLen
	if uint64(count) > uint64((len(body)-pos)/markQueueLen) {
		return nil, fmt.Errorf("%d queues do not fit into %d bytes", count, len(body)-pos)
	}
	var queues []QueueMark
	if count > 0 {
		queues = make([]QueueMark, count)
	}
	for i := range queues {
		if len(body)-pos < 2 {
			return nil, fmt.Errorf("queue %d at byte %d: cut short", i, pos)
		}
		topicLen := int(be.Uint16(body[pos:]))
		if len(body)-pos < markQueueLen+topicLen {
			return nil, fmt.Errorf("queue %d at byte %d: cut short", i, pos)
		}
		pos += 2
		queues[i].Topic = string(body[pos : pos+topicLen])
		pos += topicLen
		queues[i].QueueID = int32(be.Uint32(body[pos:]))
		queues[i].Min = message.QueueOffset(be.Uint64(body[pos+4:]))
		queues[i].Max = message.QueueOffset(be.Uint64(body[pos+12:]))
		pos += markQueueLen - 2
	}
	if pos != len(body) {
		return nil, fmt.Errorf("%d bytes stand behind the last queue", len(body)-pos)
	}
	return queues, nil
}

// check tells the first value that contradicts another or its range.
func (m *Mark) check() error {
	switch {
	case m.Flushed < 0:
		return fmt.Errorf("flushed is %d, must not be negative", m.Flushed)
	case m.Dispatched < 0 || m.Dispatched > m.Flushed:
		return fmt.Errorf("dispatched is %d, must be in 0..%d (flushed)", m.Dispatched, m.Flushed)
	case m.Last < -1 || m.Last >= 0 && m.Last >= m.Flushed:
		return fmt.Errorf("last record is at %d, must be -1 or before %d (flushed)", m.Last, m.Flushed)
	case m.LastStoreTimeMS < 0:
		return fmt.Errorf("store time of the last record is %d, must not be negative", m.LastStoreTimeMS)
	case m.Limit != 0 && m.Limit < m.Flushed:
		return fmt.Errorf("limit is %d, must be 0 or at least %d (flushed)", m.Limit, m.Flushed)
	case uint64(len(m.Queues)) > math.MaxUint32:
		return fmt.Errorf("%d queues, at most %d fit", len(m.Queues), uint32(math.MaxUint32))
	}
	for i := range m.Queues {
		q := &m.Queues[i]
		switch {
		case len(q.Topic) == 0 || len(q.Topic) > math.MaxUint16:
			return fmt.Errorf("queue %d: topic has %d bytes, must be in 1..%d", i, len(q.Topic), math.MaxUint16)
		case q.QueueID < 0:
			return fmt.Errorf("queue %d: id is %d, must not be negative", i, q.QueueID)
		case q.Min < 0 || q.Min > q.Max:
			return fmt.Errorf("queue %d: min is %d, must be in 0..%d (max)", i, q.Min, q.Max)
		}
	}
	return nil
}
