package main

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"strconv"
	"strings"
)

// The places of a frame that change from send to send are found by what stands there at first. No body holds these digits.
const (
	bornMark = "9999999999999"                    // born time, ms
	keyMark  = "88888888888888"                   // a key
	uniqMark = "77777777777777777777777777777777" // a unique key
)

// sumMagic begins a body that is long enough to have a checksum at its end.
const sumMagic = 0x51C0FFEE

// slot is one request in flight: its frame, and where in it what changes stands.
type slot struct {
	frame   []byte
	born    int
	uniqs   []int
	keys    []int
	bodies  []int
	sentNS  int64
	pending bool
}

// properties are those of each message.
func properties() string {
	var list []string
	if *keys {
		list = append(list, "KEYS\x01"+keyMark)
	}
	if *tags != "" {
		list = append(list, "TAGS\x01"+*tags)
	}
	if *props != "" {
		for p := range strings.SplitSeq(*props, ",") {
			name, value, _ := strings.Cut(p, "=")
			list = append(list, name+"\x01"+value)
		}
	}
	if *uniq {
		list = append(list, "UNIQ_KEY\x01"+uniqMark)
	}
	if *batch == 0 {
		list = append(list, "WAIT\x01true")
	}
	if len(list) == 0 {
		return ""
	}
	return strings.Join(list, "\x02") + "\x02"
}

// pattern is the body that slot i has but for head and checksum: it does not compress, and holds no digit of a mark.
func pattern(i int) []byte {
	body := make([]byte, *size)
	x := uint32(2463534242) + uint32(i)*977
	for j := range body {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		if body[j] = byte(x >> 24); body[j] >= '7' && body[j] <= '9' {
			body[j] = '0'
		}
	}
	return body
}

func newSlot(connection, i int) *slot {
	code, own, ofRequest := 310, properties(), properties()
	body, starts := pattern(i), []int{0}
	if *batch > 0 {
		code, ofRequest = 320, "WAIT\x01true\x02"
		body, starts = batchBody(body, own)
	}
	queue := (connection**window + i) % *queues
	f := frame(code, opaqueBase+i, []field{{"a", *group}, {"b", *topic}, {"c", "TBW102"}, {"d", "8"}, {"e", strconv.Itoa(queue)}, {"f", "0"},
		{"g", bornMark}, {"h", "0"}, {"i", ofRequest}, {"j", "0"}, {"k", "false"}, {"m", strconv.FormatBool(*batch > 0)}}, body)
	header := len(f) - len(body)
	searched := f[:header]
	if *batch > 0 {
		searched = f
	}
	s := &slot{frame: f, born: bytes.Index(f[:header], []byte(bornMark)), uniqs: placesOf(searched, uniqMark), keys: placesOf(searched, keyMark)}
	for _, at := range starts {
		s.bodies = append(s.bodies, header+at)
	}
	return s
}

// batchBody is the body of a request of several messages, and where in it theirs begin.
func batchBody(body []byte, own string) (all []byte, starts []int) {
	for range *batch {
		all = binary.BigEndian.AppendUint32(all, uint32(4*5+len(body)+2+len(own)))
		all = append(all, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) // magic, CRC, flag
		all = binary.BigEndian.AppendUint32(all, uint32(len(body)))
		starts = append(starts, len(all))
		all = append(all, body...)
		all = binary.BigEndian.AppendUint16(all, uint16(len(own)))
		all = append(all, own...)
	}
	return all, starts
}

func placesOf(b []byte, mark string) (places []int) {
	for at := 0; ; at += len(mark) {
		i := bytes.Index(b[at:], []byte(mark))
		if i < 0 {
			return places
		}
		at += i
		places = append(places, at)
	}
}

// fillBody writes head and checksum of a body.
func fillBody(b []byte, seq uint64) {
	if len(b) < 16 {
		return
	}
	binary.LittleEndian.PutUint32(b, sumMagic)
	binary.LittleEndian.PutUint64(b[4:], seq)
	binary.LittleEndian.PutUint32(b[len(b)-4:], crc32.ChecksumIEEE(b[:len(b)-4]))
}

func putDigits(b []byte, v int64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = byte('0' + v%10)
		v /= 10
	}
}

func putHex(b []byte, v uint64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = "0123456789ABCDEF"[v&15]
		v >>= 4
	}
}
