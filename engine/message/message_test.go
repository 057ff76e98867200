package message_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"net/netip"
	"strings"
	"testing"

	"ringmq/engine/message"
)

// unhex reads hex with comments: everything from # to the end of a line is one.
func unhex(t testing.TB, text string) []byte {
	t.Helper()
	var digits strings.Builder
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const goldenV1 = `
	00000063 # size 99
	daa320a7 # V1
	3610a686 # CRC-32 of "hello"
	00000003 # queue 3
	ffffffff # flag -1
	0000000000000007 # queue offset
	0000000000001000 # own offset
	00000001 # compressed
	0000018bcfe56800 # born 1700000000000
	7f000001 00000401 # 127.0.0.1:1025
	0000018bcfe56801 # stored one ms later
	0a000002 00002a9f # 10.0.0.2:10911
	00000002 # reconsumed twice
	0000000000000000
	00000005 68656c6c6f
	02 546f # "To"
	0001 58 # properties "X"
`

const goldenV6 = `
	0000007c # size 124
	daa320a7
	00000000 # empty body
	00000000
	00000000
	0000000000000000 # rollback: no queue offset
	0000000000002000
	0000003c # rollback, both hosts IPv6
	0000018bcfe56800
	00000000000000000000000000000001 00000050 # [::1]:80
	0000018bcfe56801
	20010db8000000000000000000000001 00002a9f
	00000000
	0000000000001000 # half message
	00000000
	01 54
	0008 414141 01 424242 02 # AAA=BBB
`

func messageV1() *message.Message {
	return &message.Message{
		Topic: "To", QueueID: 3, Flag: -1, SysFlag: message.SysFlagCompressed | message.SysFlagBornHostV6,
		BornTime: 1700000000000, BornHost: netip.MustParseAddrPort("127.0.0.1:1025"),
		StoreHost: netip.MustParseAddrPort("[::ffff:10.0.0.2]:10911"), ReconsumeTimes: 2,
		Body: []byte("hello"), Properties: []byte("X"),
	}
}

func messageV6() *message.Message {
	return &message.Message{
		Topic: "T", SysFlag: message.SysFlagRollback, BornTime: 1700000000000,
		BornHost: netip.MustParseAddrPort("[::1]:80"), StoreHost: netip.MustParseAddrPort("[2001:db8::1]:10911"),
		PreparedOffset: 0x1000, Properties: []byte("AAA\x01BBB\x02"),
	}
}

func messageV2(topicLen int) *message.Message {
	m := messageV1()
	m.Topic = strings.Repeat("t", topicLen)
	return m
}

func record(t testing.TB, m *message.Message, q message.QueueOffset, at message.Offset, storeTime int64) []byte {
	t.Helper()
	rec, err := message.AppendRecord(nil, m)
	if err != nil {
		t.Fatal(err)
	}
	message.Stamp(rec, q, at, storeTime)
	return rec
}

func TestGoldenRecords(t *testing.T) {
	f := func(golden string, m *message.Message, q message.QueueOffset, at message.Offset) {
		t.Helper()
		want := unhex(t, golden)
		got := record(t, m, q, at, 1700000000001)
		if !bytes.Equal(got, want) {
			t.Fatalf("record\n got %x\nwant %x", got, want)
		}
		if n := m.RecordLen(); n != len(want) {
			t.Fatalf("RecordLen %d, want %d", n, len(want))
		}
		if size, ok := message.Peek(got, at); size != len(want) || !ok {
			t.Fatalf("Peek %d %v, want %d", size, ok, len(want))
		}
		if ms, ok := message.StoreTime(got[:min(len(got), message.HeadLen)]); ms != 1700000000001 || !ok {
			t.Fatalf("StoreTime %d %v", ms, ok)
		}
	}
	f(goldenV1, messageV1(), 7, 0x1000)
	f(goldenV6, messageV6(), 99, 0x2000)
}

func TestCheckDecodesEveryField(t *testing.T) {
	var r message.Record
	rec := unhex(t, goldenV6)
	kind, err := message.Check(append(rec, 0xff, 0xff), 0x2000, &r)
	if kind != message.Whole || err != nil {
		t.Fatalf("Check: %v, %v", kind, err)
	}
	want := message.Record{
		Size: 124, Magic: message.MagicV1, Offset: 0x2000, SysFlag: 0x3c, BornTime: 1700000000000,
		BornHost: netip.MustParseAddrPort("[::1]:80"), StoreTime: 1700000000001,
		StoreHost: netip.MustParseAddrPort("[2001:db8::1]:10911"), PreparedOffset: 0x1000,
	}
	if string(r.Topic) != "T" || string(r.Properties) != "AAA\x01BBB\x02" || len(r.Body) != 0 {
		t.Errorf("topic %q, properties %q, body %q", r.Topic, r.Properties, r.Body)
	}
	r.Topic, r.Properties, r.Body = nil, nil, nil
	if got, want := r, want; !sameHead(got, want) {
		t.Errorf("record\n got %+v\nwant %+v", got, want)
	}
}

func sameHead(a, b message.Record) bool {
	return a.Size == b.Size && a.Magic == b.Magic && a.BodyCRC == b.BodyCRC && a.QueueID == b.QueueID && a.Flag == b.Flag &&
		a.QueueOffset == b.QueueOffset && a.Offset == b.Offset && a.SysFlag == b.SysFlag && a.BornTime == b.BornTime &&
		a.BornHost == b.BornHost && a.StoreTime == b.StoreTime && a.StoreHost == b.StoreHost &&
		a.ReconsumeTimes == b.ReconsumeTimes && a.PreparedOffset == b.PreparedOffset
}

func TestTopicLengthDecidesVersion(t *testing.T) {
	f := func(topicLen int, magic uint32, fixed int) {
		t.Helper()
		m := messageV2(topicLen)
		rec := record(t, m, 1, 0, 5)
		var r message.Record
		if kind, err := message.Check(rec, 0, &r); kind != message.Whole {
			t.Fatalf("topic of %d bytes: %v, %v", topicLen, kind, err)
		}
		if r.Magic != magic || string(r.Topic) != m.Topic || len(rec) != fixed+topicLen+6 {
			t.Fatalf("topic of %d bytes: magic %08x, record of %d bytes", topicLen, r.Magic, len(rec))
		}
	}
	f(1, message.MagicV1, 91)
	f(127, message.MagicV1, 91)
	f(128, message.MagicV2, 92)
	f(255, message.MagicV2, 92)
	f(32767, message.MagicV2, 92)
}

func TestLimits(t *testing.T) {
	f := func(change func(*message.Message), want string) {
		t.Helper()
		m := messageV1()
		change(m)
		dst := []byte("before")
		got, err := message.AppendRecord(dst, m)
		var limit *message.LimitError
		if !errors.As(err, &limit) || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
		if string(got) != "before" {
			t.Errorf("dst is changed to %d bytes", len(got))
		}
	}
	f(func(m *message.Message) { m.Topic = "" }, "message: topic of 0 bytes, allowed are 1 to 32767")
	f(func(m *message.Message) { m.Topic = strings.Repeat("t", 32768) }, "message: topic of 32768 bytes, allowed are 1 to 32767")
	f(func(m *message.Message) { m.Properties = make([]byte, 32768) }, "message: properties of 32768 bytes, allowed are 0 to 32767")
	m := messageV1()
	m.Properties = bytes.Repeat([]byte("p"), 32767)
	if _, err := message.AppendRecord(nil, m); err != nil {
		t.Errorf("properties of 32767 bytes: %v", err)
	}
}

// No checksum covers topic and properties, so zeros tell that some of their pages never reached the device. What is refused when
// it is written cannot be taken for that later.
func TestZerosInText(t *testing.T) {
	f := func(properties string, ok bool) {
		t.Helper()
		m := messageV1()
		m.Properties = []byte(properties)
		if _, err := message.AppendRecord(nil, m); (err == nil) != ok {
			t.Errorf("append with properties of %d bytes: %v", len(properties), err)
		}
		m.Properties = bytes.Repeat([]byte("p"), len(properties))
		rec := record(t, m, 1, 1000, 2)
		copy(rec[len(rec)-len(properties):], properties)
		var r message.Record
		if kind, err := message.Check(rec, 1000, &r); (kind == message.Whole) != ok || !ok && !(errors.Is(err, message.ErrNotWhole) && errors.Is(err, message.ErrZerosInText)) {
			t.Errorf("check with properties of %d bytes: %v, %v", len(properties), kind, err)
		}
		if string(r.Properties) != properties || r.Offset != 1000 || int(r.Size) != len(rec) {
			t.Errorf("check with properties of %d bytes: the record is not complete: %+v", len(properties), r)
		}
		rec[bytes.Index(rec, m.Body)] ^= 1
		if _, err := message.Check(rec, 1000, &r); !errors.Is(err, message.ErrNotWhole) || errors.Is(err, message.ErrZerosInText) {
			t.Errorf("check with properties of %d bytes and a wrong body: %v", len(properties), err)
		}
	}
	zeros := func(n int) string { return strings.Repeat("\x00", n) }
	f("", true)
	f("a\x01b\x02", true)
	f("a\x01b\x00c\x02", true)
	f("a\x01"+zeros(255)+"\x02", true)
	f("a\x01b\x00", false)
	f("\x00\x01b\x02", false)
	f(zeros(40), false)
	f("a\x01"+zeros(256)+"\x02", false)

	m := messageV1()
	m.Topic = "T\x00"
	if _, err := message.AppendRecord(nil, m); err == nil {
		t.Error("a topic with a zero byte was appended")
	}
	m.Topic = "TT"
	rec := record(t, m, 1, 1000, 2)
	rec[bytes.Index(rec, []byte("TT"))+1] = 0
	var r message.Record
	if kind, err := message.Check(rec, 1000, &r); kind != message.Bad || errors.Is(err, message.ErrZerosInText) {
		t.Errorf("a record with a zero byte in its topic is %v, %v", kind, err)
	}
}

func TestMissingHostsAreZero(t *testing.T) {
	rec := record(t, &message.Message{Topic: "T"}, 0, 0, 0)
	var r message.Record
	if kind, err := message.Check(rec, 0, &r); kind != message.Whole {
		t.Fatal(kind, err)
	}
	if want := netip.MustParseAddrPort("0.0.0.0:0"); r.BornHost != want || r.StoreHost != want {
		t.Errorf("hosts %v, %v, want %v", r.BornHost, r.StoreHost, want)
	}
}

func TestStampKeepsZeroQueueOffset(t *testing.T) {
	f := func(transaction int32, want message.QueueOffset) {
		t.Helper()
		rec := record(t, &message.Message{Topic: "T", SysFlag: transaction}, 42, 0, 0)
		var r message.Record
		if kind, err := message.Check(rec, 0, &r); kind != message.Whole || r.QueueOffset != want {
			t.Errorf("sysflag %x: %v %v, queue offset %d, want %d", transaction, kind, err, r.QueueOffset, want)
		}
	}
	f(0, 42)
	f(message.SysFlagPrepared, 0)
	f(message.SysFlagCommit, 42)
	f(message.SysFlagRollback, 0)
}

func TestBlankAndZero(t *testing.T) {
	var r message.Record
	segment := append(message.AppendBlank(nil, 23), bytes.Repeat([]byte{0xee}, 15)...)
	if !bytes.HasPrefix(segment, unhex(t, "00000017 cbd43194")) {
		t.Errorf("end record %x", segment[:8])
	}
	if kind, err := message.Check(segment, 500, &r); kind != message.Blank || r.Size != 23 {
		t.Errorf("Check of an end record: %v %v, size %d", kind, err, r.Size)
	}
	for _, n := range []int{22, 24} {
		if kind, err := message.Check(append(segment, 0)[:n], 500, &r); kind != message.Bad || !errors.Is(err, message.ErrNotWhole) {
			t.Errorf("end record of 23 bytes where %d remain: %v %v", n, kind, err)
		}
	}
	if kind, err := message.Check(make([]byte, 8), 0, &r); kind != message.Zero || err != nil {
		t.Errorf("Check of zeros: %v %v", kind, err)
	}
	if kind, _ := message.Check(make([]byte, 7), 0, &r); kind != message.Bad {
		t.Errorf("Check of 7 bytes: %v", kind)
	}
}

// Of a record that is cut off anywhere nothing is whole, also when old bytes follow the cut.
func TestTruncatedAtEveryLength(t *testing.T) {
	for _, m := range []*message.Message{messageV1(), messageV6(), messageV2(200)} {
		rec := record(t, m, 5, 1000, 1700000000001)
		var r message.Record
		for n := range len(rec) {
			if kind, _ := message.Check(rec[:n], 1000, &r); kind != message.Bad {
				t.Fatalf("first %d of %d bytes: %v", n, len(rec), kind)
			}
			if _, ok := message.Peek(rec[:n], 1000); ok {
				t.Fatalf("Peek takes the first %d of %d bytes", n, len(rec))
			}
		}
	}
}

// A flipped byte must be noticed in every field that Check vouches for, and must never panic.
func TestEveryByteFlipped(t *testing.T) {
	for _, m := range []*message.Message{messageV1(), messageV2(200)} {
		rec := record(t, m, 5, 1000, 1700000000001)
		bodyAt := bytes.Index(rec, []byte("hello"))
		vouched := func(i int) bool {
			return i < 12 || i >= 28 && i < 36 || i >= bodyAt-4 && i < bodyAt+6 || i == len(rec)-3 || i == len(rec)-2
		}
		var r message.Record
		for i := range rec {
			for bit := range 8 {
				rec[i] ^= 1 << bit
				kind, err := message.Check(append(rec[:len(rec):len(rec)], make([]byte, 300)...), 1000, &r)
				if vouched(i) && kind == message.Whole {
					t.Fatalf("byte %d bit %d flipped: still whole", i, bit)
				}
				if kind == message.Bad && !errors.Is(err, message.ErrNotWhole) {
					t.Fatalf("byte %d bit %d: error %v", i, bit, err)
				}
				rec[i] ^= 1 << bit
			}
		}
	}
}

func TestHostileLengths(t *testing.T) {
	good := record(t, messageV2(130), 5, 1000, 1700000000001)
	bodyAt := bytes.Index(good, []byte("hello"))
	var r message.Record
	values := []uint64{0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, math.MaxInt32, 1 << 31, math.MaxUint32, math.MaxUint32 - 4}
	for _, field := range []struct{ at, n int }{{0, 4}, {bodyAt - 4, 4}, {bodyAt + 5, 2}, {len(good) - 3, 2}} {
		for _, v := range values {
			rec := bytes.Clone(good)
			if field.n == 4 {
				binary.BigEndian.PutUint32(rec[field.at:], uint32(v))
			} else {
				binary.BigEndian.PutUint16(rec[field.at:], uint16(v))
			}
			if bytes.Equal(rec, good) {
				continue
			}
			if kind, _ := message.Check(rec, 1000, &r); kind != message.Bad {
				t.Errorf("%#x at %d: %v", v, field.at, kind)
			}
		}
	}
}

func TestCheckNamesFieldValueAndLimit(t *testing.T) {
	rec := record(t, messageV1(), 5, 1000, 1700000000001)
	var r message.Record
	f := func(change func(b []byte), want string) {
		t.Helper()
		b := bytes.Clone(rec)
		change(b)
		if _, err := message.Check(b, 1000, &r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	f(func(b []byte) { b[0] = 0x80 }, "record at 1000: size -2147483549, allowed are 92 to 99")
	f(func(b []byte) { b[7] = 0 }, "record at 1000: magic daa32000")
	f(func(b []byte) { b[35]++ }, "own offset 1001, must be 1000")
	f(func(b []byte) { b[len(b)-4-4]++ }, "body CRC 3610a686, but the body has")
	f(func(b []byte) { b[len(b)-6] = 0x80 }, "topic length -128, allowed are 1 to 3")
	f(func(b []byte) { b[len(b)-2] = 2 }, "properties length 2, must be 1")
}

func TestNoAllocation(t *testing.T) {
	m := messageV1()
	m.Body = make([]byte, 1024)
	buf := make([]byte, 0, 4096)
	var r message.Record
	f := func(name string, run func()) {
		t.Helper()
		if n := testing.AllocsPerRun(100, run); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
	f("AppendRecord", func() { buf, _ = message.AppendRecord(buf[:0], m) })
	f("Stamp", func() { message.Stamp(buf, 1, 2, 3) })
	f("Check", func() { message.Check(buf, 2, &r) })
	f("Peek", func() { message.Peek(buf, 2) })
	f("AppendBlank", func() { message.AppendBlank(buf[:0], 100) })
}

func FuzzRecord(f *testing.F) {
	f.Add(unhex(f, goldenV1), int64(0x1000))
	f.Add(unhex(f, goldenV6), int64(0x2000))
	f.Add(record(f, messageV2(300), 5, 77, 99), int64(77))
	f.Add(message.AppendBlank(nil, 8), int64(0))
	f.Fuzz(func(t *testing.T, b []byte, at int64) {
		var r message.Record
		kind, err := message.Check(b, message.Offset(at), &r)
		if (kind == message.Bad) != (err != nil) {
			t.Fatalf("%v with error %v", kind, err)
		}
		message.VerifyPropertyCRC(b)
		message.Peek(b, message.Offset(at))
		message.StoreTime(b)
		if kind != message.Whole || r.Magic == message.MagicV2 && len(r.Topic) <= message.MaxTopicV1 {
			return
		}
		rec := b[:r.Size]
		if !canonicalHosts(rec, &r) || !message.InQueue(r.SysFlag) && r.QueueOffset != 0 {
			return
		}
		again, err := reencode(&r)
		if err != nil || !bytes.Equal(again, rec) {
			t.Fatalf("encoded again\n got %x (%v)\nwant %x", again, err, rec)
		}
	})
}

// canonicalHosts tells whether the hosts in rec are as our encoder writes them: ports of 16 bits, no mapped IPv4.
func canonicalHosts(rec []byte, r *message.Record) bool {
	storeAt := 56 + 8
	if r.BornHost.Addr().Is6() {
		storeAt += 12
	}
	ports := binary.BigEndian.Uint16(rec[storeAt-12:]) // high half of the born host's port
	storePortAt := storeAt + 4
	if r.StoreHost.Addr().Is6() {
		storePortAt += 12
	}
	return ports|binary.BigEndian.Uint16(rec[storePortAt:]) == 0 && !r.BornHost.Addr().Is4In6() && !r.StoreHost.Addr().Is4In6()
}

// reencode makes the record of r anew.
func reencode(r *message.Record) ([]byte, error) {
	rec, err := message.AppendRecord(nil, &message.Message{
		Topic: string(r.Topic), QueueID: r.QueueID, Flag: r.Flag, SysFlag: r.SysFlag, BornTime: r.BornTime,
		BornHost: r.BornHost, StoreHost: r.StoreHost, ReconsumeTimes: r.ReconsumeTimes, PreparedOffset: r.PreparedOffset,
		Body: r.Body, Properties: r.Properties,
	})
	if err == nil {
		message.Stamp(rec, r.QueueOffset, r.Offset, r.StoreTime)
	}
	return rec, err
}

func BenchmarkAppendRecord(b *testing.B) {
	m := messageV1()
	m.Body = make([]byte, 1024)
	buf := make([]byte, 0, 2048)
	b.SetBytes(int64(m.RecordLen()))
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = message.AppendRecord(buf[:0], m)
	}
}

func BenchmarkStamp(b *testing.B) {
	rec := record(b, messageV1(), 0, 0, 0)
	b.ReportAllocs()
	for b.Loop() {
		message.Stamp(rec, 1, 2, 3)
	}
}

func BenchmarkCheck(b *testing.B) {
	m := messageV1()
	m.Body = make([]byte, 1024)
	rec := record(b, m, 1, 2, 3)
	var r message.Record
	b.SetBytes(int64(len(rec)))
	b.ReportAllocs()
	for b.Loop() {
		if kind, _ := message.Check(rec, 2, &r); kind != message.Whole {
			b.Fatal(kind)
		}
	}
}
