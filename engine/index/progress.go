package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/cespare/xxhash/v2"

	"ringmq/engine/message"
	"ringmq/internal/durable"
)

// progress is what the device has of the index, ringmq's own file. Big endian; believed only if it is whole. It may lag behind the files,
// it never leads them: it is saved after the sync it speaks of.
//
//	offset  0: "RMQINDX", version 1             8 bytes
//	        8: every record before is indexed   int64
//	       16: slots, entries of a file         int32 each
//	       24: header of the newest file        40 bytes
//	       64: name of the newest file          17 bytes, zeros: there is none
//	       81: zeros                            7 bytes
//	       88: state of the xxHash64 over the newest file's entries, number 1 to count-1, 76 bytes
//	      164: zeros                            4 bytes
//	      168: xxHash64 of all bytes before     uint64
type progress struct {
	position message.Offset
	geometry geometry
	header   header
	name     string
	entries  [digestLen]byte // what the file's own format lacks: entries bear no checksum
}

const (
	progressMagic = "RMQINDX\x01"
	progressLen   = 176
	digestLen     = 76
)

func (p *progress) append(dst []byte) []byte {
	be := binary.BigEndian
	start := len(dst)
	dst = append(dst, progressMagic...)
	dst = be.AppendUint64(dst, uint64(p.position))
	dst = be.AppendUint32(dst, uint32(p.geometry.slots))
	dst = be.AppendUint32(dst, uint32(p.geometry.entries))
	dst = append(dst, make([]byte, progressLen-8-24)...)
	p.header.put(dst[start+24:])
	copy(dst[start+64:start+64+nameLen], p.name)
	copy(dst[start+88:], p.entries[:])
	return be.AppendUint64(dst, xxhash.Sum64(dst[start:]))
}

func decodeProgress(b []byte) (progress, error) {
	if len(b) != progressLen || string(b[:len(progressMagic)]) != progressMagic {
		return progress{}, fmt.Errorf("%d bytes that do not begin with %q, want %d that do", len(b), progressMagic, progressLen)
	}
	be := binary.BigEndian
	body := b[:progressLen-8]
	if got, want := xxhash.Sum64(body), be.Uint64(b[len(body):]); got != want {
		return progress{}, fmt.Errorf("checksum is %016x, file says %016x", got, want)
	}
	p := progress{
		position: message.Offset(be.Uint64(b[8:])),
		geometry: geometry{int32(be.Uint32(b[16:])), int32(be.Uint32(b[20:]))},
		header:   decodeHeader(b[24:]),
	}
	p.entries = [digestLen]byte(b[88:])
	if b[64] != 0 {
		p.name = string(b[64 : 64+nameLen])
	}
	h := &p.header
	switch {
	case p.position < 0 || p.geometry.slots < 1 || p.geometry.entries < 2:
		return progress{}, fmt.Errorf("position %d, %d slots, %d entries", p.position, p.geometry.slots, p.geometry.entries)
	case p.name != "" && (!isName(p.name) || h.count < 1 || h.count > p.geometry.entries || h.begin < 0 || h.begin > h.end || h.end >= p.position && h.count > 1):
		return progress{}, fmt.Errorf("file %q with header %+v, position %d", p.name, *h, p.position)
	}
	return p, nil
}

func loadProgress(path string) (p progress, ok bool, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return progress{}, false, nil
	}
	if err == nil {
		p, err = decodeProgress(b)
	}
	if err != nil {
		return progress{}, false, fmt.Errorf("index: %s: %w", path, err)
	}
	return p, true, nil
}

func (p *progress) save(path string) error { return durable.WriteFile(path, p.append(nil)) }

func isName(s string) bool {
	if len(s) != nameLen {
		return false
	}
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
