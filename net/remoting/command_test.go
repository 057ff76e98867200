package remoting

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"
)

// frameOf puts a header and a body into a frame without its 4 length bytes.
func frameOf(form Serialize, header, body string) []byte {
	frame := binary.BigEndian.AppendUint32(nil, uint32(form)<<24|uint32(len(header)))
	return append(append(frame, header...), body...)
}

func TestFrameCutsHeaderAndBody(t *testing.T) {
	frame := frameOf(JSON, `{"code":34,"flag":0,"language":"GO","opaque":7,"version":317}`, "body")
	var c Command
	if err := c.Decode(frame); err != nil {
		t.Fatal(err)
	}
	if c.Code != HeartBeat || c.Opaque != 7 || c.Language != LanguageGo || c.Version != 317 || string(c.Body) != "body" {
		t.Errorf("decoded %+v", c)
	}
}

func TestFrameErrorsNameWhatIsWrong(t *testing.T) {
	for _, test := range []struct {
		name  string
		frame []byte
		want  string
	}{
		{"empty", nil, "frame of 0 bytes"},
		{"three bytes", []byte{0, 0, 0}, "frame of 3 bytes"},
		{"header longer than frame", []byte{0, 0, 0, 9, '{', '}'}, "header length 9"},
		{"unknown form", []byte{2, 0, 0, 0}, "serialization 2"},
		{"high form", []byte{0x80, 0, 0, 0}, "serialization 128"},
		{"empty header", []byte{0, 0, 0, 0}, "JSON header ends"},
	} {
		var c Command
		if err := c.Decode(test.frame); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", test.name, err, test.want)
		}
	}
}

func TestAnswerTakesOpaqueAndForm(t *testing.T) {
	req := Command{Code: SendMessageV2, Language: LanguageGo, Version: 317, Opaque: -5, Serialize: RocketMQ, Remark: "x"}
	req.SetStr("a", "group")
	var answer Command
	answer.Answer(&req, SystemBusy)
	if answer.Code != SystemBusy || answer.Opaque != -5 || answer.Serialize != RocketMQ || !answer.IsResponse() || answer.IsOneway() ||
		answer.Language != LanguageJava || answer.Version != Version || answer.Remark != "" || len(answer.Fields) != 0 {
		t.Errorf("answer %+v", answer)
	}
	req.Answer(&req, Success)
	if req.Opaque != -5 || req.Serialize != RocketMQ || len(req.Fields) != 0 {
		t.Errorf("answer in place %+v", req)
	}
}

func TestSettersReplaceAndLastFieldWins(t *testing.T) {
	var c Command
	c.SetStr("name", "old")
	c.SetInt("n", math.MinInt64)
	c.SetBool("yes", true)
	c.SetBytes("raw", []byte("bytes"))
	c.SetStr("name", "new")
	if len(c.Fields) != 4 || c.Str("name") != "new" || !c.Bool("yes") || c.Str("raw") != "bytes" {
		t.Errorf("fields %q", c.Fields)
	}
	if n, err := c.Int("n"); err != nil || n != math.MinInt64 {
		t.Errorf("n = %d, %v", n, err)
	}
	c.Fields = append(c.Fields, Field{Key: []byte("name"), Value: []byte("last")})
	if got := c.Str("name"); got != "last" {
		t.Errorf("name = %q, want the last of two", got)
	}
	if _, ok := c.Field("none"); ok || c.Str("none") != "" || c.Bool("none") {
		t.Error("a missing field is there")
	}
}

func TestNumbersOfFields(t *testing.T) {
	for _, test := range []struct {
		text string
		want int64
		ok   bool
	}{
		{"0", 0, true}, {"-0", 0, true}, {"+7", 7, true}, {"-1", -1, true}, {"007", 7, true},
		{"9223372036854775807", math.MaxInt64, true}, {"-9223372036854775808", math.MinInt64, true},
		{"9223372036854775808", 0, false}, {"-9223372036854775809", 0, false}, {"99999999999999999999", 0, false},
		{"", 0, false}, {"-", 0, false}, {"1.5", 0, false}, {" 1", 0, false}, {"1x", 0, false}, {"0x1", 0, false}, {"1e3", 0, false},
	} {
		var c Command
		c.SetStr("n", test.text)
		got, err := c.Int("n")
		if (err == nil) != test.ok || test.ok && got != test.want {
			t.Errorf("%q: %d, %v", test.text, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), `"n"`) {
			t.Errorf("%q: error %v does not name the field", test.text, err)
		}
	}
	var c Command
	if _, err := c.Int("n"); err == nil {
		t.Error("a missing number is no error")
	}
	if n, err := c.IntOr("n", 9); n != 9 || err != nil {
		t.Errorf("IntOr of a missing field: %d, %v", n, err)
	}
	c.SetStr("n", "x")
	if _, err := c.IntOr("n", 9); err == nil {
		t.Error("IntOr of junk is no error")
	}
}

func TestResetGivesBackLargeBuffers(t *testing.T) {
	var c Command
	c.SetStr("large", strings.Repeat("x", 10*maxKept))
	c.Reset()
	if cap(c.scratch) > maxKept {
		t.Errorf("%d bytes of scratch kept", cap(c.scratch))
	}
}

func TestRemarkIsCutAtARune(t *testing.T) {
	c := Command{Remark: "x" + strings.Repeat("é", maxRemark), Version: Version}
	for _, c.Serialize = range []Serialize{JSON, RocketMQ} {
		var d Command
		if err := d.Decode(c.AppendFrame(nil)[4:]); err != nil {
			t.Fatal(err)
		}
		if want := c.Remark[:maxRemark-1]; d.Remark != want {
			t.Errorf("form %d: remark of %d bytes, want %d", c.Serialize, len(d.Remark), len(want))
		}
	}
}

func TestHeadCountsABodyOfOthers(t *testing.T) {
	c := Command{Code: Success, Version: Version, Body: []byte("abc")}
	whole := c.AppendFrame([]byte("before"))
	c.Body = nil
	head := c.AppendHead([]byte("before"), 3)
	if !bytes.Equal(append(head, "abc"...), whole) {
		t.Errorf("head %q\nwhole %q", head, whole)
	}
	if got := binary.BigEndian.Uint32(whole[6:]); int(got) != len(whole)-6-4 {
		t.Errorf("length %d of a frame of %d bytes", got, len(whole)-6)
	}
}

func TestNamesOfCodesAndLanguages(t *testing.T) {
	if CodeName(310) != "SEND_MESSAGE_V2" || CodeName(-1) != "" || ResponseName(17) != "TOPIC_NOT_EXIST" || ResponseName(999) != "" {
		t.Error("wrong names of codes")
	}
	for language := range uint8(20) {
		if got := languageOf([]byte(LanguageName(language))); got != language && (language < languageCount || got != LanguageOther) {
			t.Errorf("language %d comes back as %d", language, got)
		}
	}
}
