package seal

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"

	"ringmq/engine/message"
)

// Seal, ringmq's format: big endian, length and checksum over the whole file. Only whole, unchanged files are believed; the file is
// always replaced, never written in place.
//
//	offset  0: "RMQSEAL"                               7 bytes
//	        7: version, 1                              1 byte
//	        8: length of the whole file                uint64
//	       16: Base                                    int64, >= 0
//	       24: Size                                    int64, 1..2^31-1
//	       32: Last                                    int64, -1 or in Base..Base+Size-1
//	       40: LastStoreTimeMS                         int64, 0 without a record
//	       48: Records                                 int64, 0 exactly when Last is -1
//	       56: Digest                                  uint64, of where which records stand, see Maker.Record
//	       64: length of a block, 1 MiB                uint32
//	       68: number of damaged stretches             uint32, at most 1024
//	       72: xxHash64 of each block, the last one
//	           may be shorter                          uint64
//	         : damaged stretches, each
//	             From                                  int64, Base.., behind the one before
//	             To                                    int64, above From, at most Base+Size
//	      end: xxHash64 of all bytes before            uint64
const (
	magic      = "RMQSEAL"
	version    = 1
	headerLen  = 72
	trailerLen = 8
	stretchLen = 16

	// BlockSize is how many bytes of the segment one hash covers.
	BlockSize = 1 << 20

	maxSize    = math.MaxInt32 // what a broker can map
	maxDamaged = 1024
)

// blocksOf is how many blocks a segment of size has.
func blocksOf(size int64) int { return int((size + BlockSize - 1) / BlockSize) }

func (s *Seal) encodedLen() int {
	return headerLen + 8*len(s.Blocks) + stretchLen*len(s.Damaged) + trailerLen
}

// appendSeal appends the file of a seal that check has passed.
func appendSeal(dst []byte, s *Seal) []byte {
	start, be := len(dst), binary.BigEndian
	dst = append(dst, magic...)
	dst = append(dst, version)
	for _, v := range [...]uint64{
		uint64(s.encodedLen()), uint64(s.Base), uint64(s.Size), uint64(s.Last), uint64(s.LastStoreTimeMS), uint64(s.Records), s.Digest,
	} {
		dst = be.AppendUint64(dst, v)
	}
	dst = be.AppendUint32(dst, BlockSize)
	dst = be.AppendUint32(dst, uint32(len(s.Damaged)))
	for _, hash := range s.Blocks {
		dst = be.AppendUint64(dst, hash)
	}
	for _, d := range s.Damaged {
		dst = be.AppendUint64(dst, uint64(d.From))
		dst = be.AppendUint64(dst, uint64(d.To))
	}
	return be.AppendUint64(dst, xxhash.Sum64(dst[start:]))
}

// decode accepts exactly what appendSeal writes. The checksum comes before any field is believed, the version before the checksum, so
// that a file of a later version is called that and not damaged.
func decode(b []byte) (Seal, error) {
	be := binary.BigEndian
	if len(b) < headerLen+trailerLen {
		return Seal{}, fmt.Errorf("file has %d bytes, at least %d are needed", len(b), headerLen+trailerLen)
	}
	if string(b[:len(magic)]) != magic {
		return Seal{}, fmt.Errorf("file begins with %q, want %q", b[:len(magic)], magic)
	}
	if b[7] != version {
		return Seal{}, fmt.Errorf("version is %d, only %d is known", b[7], version)
	}
	if n := be.Uint64(b[8:]); n != uint64(len(b)) {
		return Seal{}, fmt.Errorf("file has %d bytes, its header says %d", len(b), n)
	}
	body := b[:len(b)-trailerLen]
	if got, want := xxhash.Sum64(body), be.Uint64(b[len(body):]); got != want {
		return Seal{}, fmt.Errorf("checksum is %016x, file says %016x", got, want)
	}
	s := Seal{
		Base:            message.Offset(be.Uint64(b[16:])),
		Size:            int64(be.Uint64(b[24:])),
		Last:            message.Offset(be.Uint64(b[32:])),
		LastStoreTimeMS: int64(be.Uint64(b[40:])),
		Records:         int64(be.Uint64(b[48:])),
		Digest:          be.Uint64(b[56:]),
	}
	if n := be.Uint32(b[64:]); n != BlockSize {
		return Seal{}, fmt.Errorf("length of a block is %d, must be %d", n, BlockSize)
	}
	if s.Size < 1 || s.Size > maxSize {
		return Seal{}, fmt.Errorf("size is %d, must be in 1..%d", s.Size, maxSize)
	}
	blocks, damaged := blocksOf(s.Size), int(be.Uint32(b[68:]))
	if damaged > maxDamaged || headerLen+8*blocks+stretchLen*damaged != len(body) {
		return Seal{}, fmt.Errorf("%d blocks and %d damaged stretches (at most %d) do not make a file of %d bytes", blocks, damaged, maxDamaged, len(b))
	}
	s.Blocks = make([]uint64, blocks)
	for i := range s.Blocks {
		s.Blocks[i] = be.Uint64(body[headerLen+8*i:])
	}
	for p := body[headerLen+8*blocks:]; len(p) > 0; p = p[stretchLen:] {
		s.Damaged = append(s.Damaged, Stretch{message.Offset(be.Uint64(p)), message.Offset(be.Uint64(p[8:]))})
	}
	if err := s.check(); err != nil {
		return Seal{}, err
	}
	return s, nil
}

// check tells the first value that contradicts another or its range.
func (s *Seal) check() error {
	switch {
	case s.Size < 1 || s.Size > maxSize:
		return fmt.Errorf("size is %d, must be in 1..%d", s.Size, maxSize)
	case s.Base < 0 || s.Base > math.MaxInt64-message.Offset(s.Size):
		return fmt.Errorf("base is %d, must be in 0..%d", s.Base, math.MaxInt64-s.Size)
	case s.Last != -1 && (s.Last < s.Base || s.Last >= s.End()):
		return fmt.Errorf("last record is at %d, must be -1 or in %d..%d", s.Last, s.Base, s.End()-1)
	case s.Records < 0 || (s.Records == 0) != (s.Last == -1):
		return fmt.Errorf("%d records, the last one at %d: -1 goes with 0 of them and nothing else", s.Records, s.Last)
	case s.Last == -1 && s.LastStoreTimeMS != 0:
		return fmt.Errorf("store time of the last record is %d, must be 0 without one", s.LastStoreTimeMS)
	case len(s.Blocks) != blocksOf(s.Size):
		return fmt.Errorf("%d blocks, a segment of %d bytes has %d", len(s.Blocks), s.Size, blocksOf(s.Size))
	case len(s.Damaged) > maxDamaged:
		return fmt.Errorf("%d damaged stretches, at most %d fit", len(s.Damaged), maxDamaged)
	}
	from := s.Base
	for _, d := range s.Damaged {
		if d.From < from || d.To <= d.From || d.To > s.End() {
			return fmt.Errorf("damaged stretch is %d to %d, must lie in %d to %d", d.From, d.To, from, s.End())
		}
		from = d.To
	}
	return nil
}
