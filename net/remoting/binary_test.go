package remoting

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"
)

// goldenBinary is a pull of a real Java client, shortened by hand to three fields.
const goldenBinary = "000b" + // code 11
	"00" + // language JAVA
	"0201" + // version 513
	"00000102" + // opaque
	"00000002" + // flag: one-way
	"00000002" + "6869" + // remark "hi"
	"00000024" + // 36 bytes of fields
	"0005" + "746f706963" + "00000003" + "542f31" + // topic T/1
	"0007" + "71756575654964" + "00000002" + "2d31" + // queueId -1
	"0001" + "6e" + "00000000" // n, empty

func golden(t testing.TB) []byte {
	t.Helper()
	header, err := hex.DecodeString(goldenBinary)
	if err != nil {
		t.Fatal(err)
	}
	return header
}

func TestBinaryGolden(t *testing.T) {
	header := golden(t)
	frame := frameOf(RocketMQ, string(header), "body")
	var c Command
	if err := c.Decode(frame); err != nil {
		t.Fatal(err)
	}
	if c.Code != 11 || c.Language != 0 || c.Version != 513 || c.Opaque != 0x102 || c.Flag != 2 || c.Remark != "hi" ||
		string(c.Body) != "body" || len(c.Fields) != 3 || c.Str("topic") != "T/1" || c.Str("queueId") != "-1" {
		t.Errorf("decoded %+v", c)
	}
	if value, ok := c.Field("n"); !ok || len(value) != 0 {
		t.Errorf("empty field: %q, %v", value, ok)
	}
	if got := c.AppendFrame(nil)[4:]; !bytes.Equal(got, frame) {
		t.Errorf("encoded %x\nwant    %x", got, frame)
	}
}

func TestBinaryCodeHasSixteenBits(t *testing.T) {
	c := Command{Code: PopMessage, Version: Version, Serialize: RocketMQ}
	var d Command
	if err := d.Decode(c.AppendFrame(nil)[4:]); err != nil || d.Code != 3442 {
		t.Errorf("code %d, %v: 200050 arrives as 3442", d.Code, err)
	}
}

// Of a header cut at any length none is taken for whole.
func TestBinaryTruncated(t *testing.T) {
	header := golden(t)
	for n := range header {
		var c Command
		if err := c.Decode(frameOf(RocketMQ, string(header[:n]), "")); err == nil {
			t.Errorf("cut to %d of %d bytes: no error", n, len(header))
		}
	}
}

func TestBinaryRefuses(t *testing.T) {
	header := golden(t)
	const remarkAt, fieldsAt = 13, 13 + 4 + 2
	put32 := func(at int, n uint32) func([]byte) { return func(b []byte) { binary.BigEndian.PutUint32(b[at:], n) } }
	put16 := func(at int, n uint16) func([]byte) { return func(b []byte) { binary.BigEndian.PutUint16(b[at:], n) } }
	for _, test := range []struct {
		name   string
		damage func([]byte)
		want   string
	}{
		{"remark too long", put32(remarkAt, 1<<20), "remark is 1048576"},
		{"remark negative", put32(remarkAt, 1<<31), "remark is -2147483648"},
		{"fields too long", put32(fieldsAt, 37), "extFields is 37"},
		{"fields too short", put32(fieldsAt, 0), "36 bytes behind extFields"},
		{"key too long", put16(fieldsAt+4, 0x7fff), "key 0 has length 32767"},
		{"key negative", put16(fieldsAt+4, 0x8000), "key 0 has length 32768"},
		{"value too long", put32(fieldsAt+4+7, 99), `(of "topic")`},
	} {
		damaged := bytes.Clone(header)
		test.damage(damaged)
		var c Command
		if err := c.Decode(frameOf(RocketMQ, string(damaged), "")); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", test.name, err, test.want)
		}
	}
	many := binary.BigEndian.AppendUint32(make([]byte, 17), 6*2000)
	many = append(many, make([]byte, 6*2000)...)
	var c Command
	if err := c.Decode(frameOf(RocketMQ, string(many), "")); err == nil || !strings.Contains(err.Error(), "more than 1024") {
		t.Errorf("2000 fields: error %v", err)
	}
}
