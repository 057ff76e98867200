package seal

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"ringmq/engine/message"
)

// Maker makes the seal of one segment from its blocks and records, each in their order; the two may be ahead of each other.
type Maker struct {
	seal   Seal
	digest xxhash.Digest
}

// NewMaker begins the seal of a segment.
func NewMaker(base message.Offset, size int64) *Maker {
	m := &Maker{seal: Seal{Base: base, Size: size, Last: -1, Blocks: make([]uint64, 0, blocksOf(size))}}
	m.digest.Reset()
	return m
}

// Next is the stretch of the segment, counted from its first byte, that Block wants next; to is from at its end.
func (m *Maker) Next() (from, to int64) {
	from = int64(len(m.seal.Blocks)) * BlockSize
	return min(from, m.seal.Size), min(from+BlockSize, m.seal.Size)
}

// Block takes the bytes of Next.
func (m *Maker) Block(b []byte) { m.seal.Blocks = append(m.seal.Blocks, xxhash.Sum64(b)) }

// Record takes a whole record. The digest is xxHash64 over 16 bytes of each: position 8, size 4, body checksum 4. Two segments whose
// records are all whole have the same digest only if they hold the same bodies at the same places: what differs between them is then
// something that no checksum of a record covers.
func (m *Maker) Record(r *message.Record) {
	var item [16]byte
	binary.BigEndian.PutUint64(item[:], uint64(r.Offset))
	binary.BigEndian.PutUint32(item[8:], uint32(r.Size))
	binary.BigEndian.PutUint32(item[12:], r.BodyCRC)
	_, _ = m.digest.Write(item[:]) // never fails
	m.seal.Records++
	m.seal.Last, m.seal.LastStoreTimeMS = r.Offset, r.StoreTime
}

// Damaged takes a stretch that holds no whole record. When there are very many, the last one reaches over those that follow.
func (m *Maker) Damaged(from, to message.Offset) {
	s := &m.seal
	if n := len(s.Damaged); n == maxDamaged {
		s.Damaged[n-1].To = to
		return
	}
	s.Damaged = append(s.Damaged, Stretch{from, to})
}

// Seal is the seal of what was taken, all of it.
func (m *Maker) Seal() Seal {
	if len(m.seal.Blocks) != blocksOf(m.seal.Size) {
		panic("BUG: seal: taken before its last block")
	}
	m.seal.Digest = m.digest.Sum64()
	return m.seal
}
