package main

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sort"
	"strconv"
)

const (
	magicV1    = 0xdaa320a7
	magicBlank = 0xcbd43194
)

// walk reads the commit log from the first segment to its end: every record has to be whole and at its own place, and
// everything behind the end has to be zero. It returns the end.
func walk(store string) (int64, error) {
	folder := filepath.Join(store, "commitlog")
	entries, err := os.ReadDir(folder)
	if err != nil {
		return 0, err
	}
	var bases []int64
	for _, e := range entries {
		base, err := strconv.ParseInt(e.Name(), 10, 64)
		if err != nil || len(e.Name()) != 20 {
			return 0, fmt.Errorf("stray file %s in the commit log", e.Name())
		}
		bases = append(bases, base)
	}
	sort.Slice(bases, func(i, j int) bool { return bases[i] < bases[j] })
	end := int64(-1)
	for i, base := range bases {
		if i > 0 && base != bases[i-1]+segmentSize {
			return 0, fmt.Errorf("gap before segment %d", base)
		}
		b, err := os.ReadFile(filepath.Join(folder, fmt.Sprintf("%020d", base)))
		if err != nil {
			return 0, err
		}
		if len(b) != segmentSize {
			return 0, fmt.Errorf("segment %d has %d bytes", base, len(b))
		}
		used, full, err := walkSegment(b, base)
		if err != nil {
			return 0, err
		}
		switch {
		case end >= 0 && used > 0:
			return 0, fmt.Errorf("segment %d holds records, but the log ends at %d", base, end)
		case end < 0 && !full:
			end = base + int64(used)
		}
		for at := used; !full && at < len(b); at++ {
			if b[at] != 0 {
				return 0, fmt.Errorf("byte %d behind the end %d of the log is not zero", base+int64(at), end)
			}
		}
	}
	return end, nil
}

func walkSegment(b []byte, base int64) (used int, full bool, err error) {
	at := 0
	for at+8 <= len(b) {
		size, magic := int(binary.BigEndian.Uint32(b[at:])), binary.BigEndian.Uint32(b[at+4:])
		switch {
		case size == 0 && magic == 0:
			return at, false, nil
		case magic == magicBlank && size == len(b)-at:
			return len(b), true, nil
		case magic != magicV1 || size < 91 || at+size > len(b):
			return at, false, fmt.Errorf("no record at %d: size %d, magic %08x", base+int64(at), size, magic)
		}
		if err := checkRecord(b[at:at+size], base+int64(at)); err != nil {
			return at, false, err
		}
		at += size
	}
	return at, true, nil
}

// checkRecord checks a V1 record with IPv4 hosts: own offset, body checksum, and that the lengths add up.
func checkRecord(r []byte, at int64) error {
	if own := int64(binary.BigEndian.Uint64(r[28:])); own != at {
		return fmt.Errorf("record at %d says it is at %d", at, own)
	}
	bodyLen := int(binary.BigEndian.Uint32(r[84:]))
	if 88+bodyLen+1 > len(r) {
		return fmt.Errorf("record at %d: body of %d bytes in a record of %d", at, bodyLen, len(r))
	}
	if sum := crc32.ChecksumIEEE(r[88:88+bodyLen]) & 0x7fffffff; sum != binary.BigEndian.Uint32(r[8:]) {
		return fmt.Errorf("record at %d: body checksum is wrong", at)
	}
	topicAt := 88 + bodyLen
	propertiesAt := topicAt + 1 + int(r[topicAt])
	if propertiesAt+2 > len(r) || propertiesAt+2+int(binary.BigEndian.Uint16(r[propertiesAt:])) != len(r) {
		return fmt.Errorf("record at %d: topic and properties do not fill it", at)
	}
	return nil
}
