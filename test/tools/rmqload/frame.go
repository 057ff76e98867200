package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// opaqueBase has as many digits as every opaque, so that frames of a kind have one length.
const opaqueBase = 1000000

// field is an extended field of a header, in the order that it is sent.
type field struct{ name, value string }

// frame makes a whole request.
func frame(code, opaque int, fields []field, body []byte) []byte {
	form, header := byte(0), []byte(nil)
	if *hdr == "rocketmq" {
		form, header = 1, binaryHeader(code, opaque, fields)
	} else {
		header = jsonHeader(code, opaque, fields)
	}
	f := make([]byte, 0, 8+len(header)+len(body))
	f = binary.BigEndian.AppendUint32(f, uint32(4+len(header)+len(body)))
	f = binary.BigEndian.AppendUint32(f, uint32(form)<<24|uint32(len(header)))
	f = append(f, header...)
	return append(f, body...)
}

func binaryHeader(code, opaque int, fields []field) (h []byte) {
	h = binary.BigEndian.AppendUint16(h, uint16(code))
	h = append(h, 0) // Java
	h = binary.BigEndian.AppendUint16(h, 477)
	h = binary.BigEndian.AppendUint32(h, uint32(opaque))
	h = binary.BigEndian.AppendUint32(h, 0) // flag
	h = binary.BigEndian.AppendUint32(h, 0) // no remark
	var ext []byte
	for _, f := range fields {
		ext = binary.BigEndian.AppendUint16(ext, uint16(len(f.name)))
		ext = append(ext, f.name...)
		ext = binary.BigEndian.AppendUint32(ext, uint32(len(f.value)))
		ext = append(ext, f.value...)
	}
	h = binary.BigEndian.AppendUint32(h, uint32(len(ext)))
	return append(h, ext...)
}

func jsonHeader(code, opaque int, fields []field) (h []byte) {
	quote := func(s string) []byte {
		b, _ := json.Marshal(s) // a string cannot fail
		return b
	}
	h = fmt.Appendf(h, `{"code":%d,"extFields":{`, code)
	for i, f := range fields {
		if i > 0 {
			h = append(h, ',')
		}
		h = append(h, quote(f.name)...)
		h = append(h, ':')
		h = append(h, quote(f.value)...)
	}
	return fmt.Appendf(h, `},"flag":0,"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":477}`, opaque)
}

// answer is a frame that came, within the buffer it was read to.
type answer struct {
	form         byte // of the header: 0 JSON, 1 binary
	header, body []byte
	code, opaque int
}

// next takes the first whole frame of b apart and returns its length; 0 if b does not hold one yet.
func (a *answer) next(b []byte) (size int, err error) {
	if len(b) < 8 {
		return 0, nil
	}
	size = 4 + int(binary.BigEndian.Uint32(b))
	if len(b) < size {
		return 0, nil
	}
	word := binary.BigEndian.Uint32(b[4:])
	end := 8 + int(word&0xffffff)
	if end > size {
		return 0, fmt.Errorf("a frame of %d bytes has a header of %d", size, end-8)
	}
	a.form, a.header, a.body = byte(word>>24), b[8:end], b[end:size]
	return size, a.parse()
}

var (
	codeMark   = []byte(`"code":`)
	opaqueMark = []byte(`"opaque":`)
	remarkMark = []byte(`"remark":"`)
)

func (a *answer) parse() error {
	h := a.header
	if a.form == 1 {
		if len(h) < 21 {
			return fmt.Errorf("a binary header of %d bytes", len(h))
		}
		a.code, a.opaque = int(binary.BigEndian.Uint16(h)), int(binary.BigEndian.Uint32(h[5:]))
		return nil
	}
	i, j := bytes.Index(h, codeMark), bytes.LastIndex(h, opaqueMark)
	if i < 0 || j < 0 {
		return fmt.Errorf("a header without code or opaque: %.200q", h)
	}
	a.code, a.opaque = int(number(h[i+len(codeMark):])), int(number(h[j+len(opaqueMark):]))
	return nil
}

// remark is the text of a refusal.
func (a *answer) remark() string {
	h := a.header
	if a.form == 1 {
		if n := int(binary.BigEndian.Uint32(h[13:])); n <= len(h)-17 {
			return string(h[17 : 17+n])
		}
		return ""
	}
	if i := bytes.Index(h, remarkMark); i >= 0 {
		text, _, _ := bytes.Cut(h[i+len(remarkMark):], []byte{'"'})
		return string(text)
	}
	return ""
}

// field is a number among the extended fields.
func (a *answer) field(name string) (int64, bool) {
	mark := name
	if a.form != 1 {
		mark = `"` + name + `":"`
	}
	i := bytes.Index(a.header, []byte(mark))
	if i < 0 {
		return 0, false
	}
	rest := a.header[i+len(mark):]
	if a.form == 1 {
		n := int(binary.BigEndian.Uint32(rest))
		rest = rest[4 : 4+n]
	}
	return number(rest), true
}

// number reads the digits at the beginning of b.
func number(b []byte) (v int64) {
	rest, negative := bytes.CutPrefix(b, []byte{'-'})
	for _, c := range rest {
		if c < '0' || c > '9' {
			break
		}
		v = v*10 + int64(c-'0')
	}
	if negative {
		return -v
	}
	return v
}
