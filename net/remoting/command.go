// Package remoting is RocketMQ's frame: headers in JSON and ROCKETMQ form, request and response codes. It does no input or output.
//
// A frame, after the 4 bytes that give its length:
//
//	 0  1  serialization of the header: 0 JSON, 1 ROCKETMQ
//	 1  3  length of the header
//	 4  h  header
//	4+h    body, the rest
//
// Whoever decodes a frame owns its bytes: a Command points into them and never changes them.
package remoting

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Serialize is the form of a header; an answer has the form of its request.
type Serialize uint8

const (
	JSON     Serialize = 0
	RocketMQ Serialize = 1
)

const (
	FlagResponse = 1 // the frame answers the request of the same opaque
	FlagOneway   = 2 // nobody waits for an answer

	// Version is the ordinal of V5_5_0 that our frames announce.
	Version = 513
	// MaxFrame is the longest frame a peer may send, its 4 length bytes not counted.
	MaxFrame = 16 << 20
)

const (
	maxHeader = 1<<24 - 1 // the header's length has 24 bits
	maxFields = 1024      // real requests have at most about 20; a frame of empty fields must not cost memory
	maxKey    = 1<<15 - 1 // the ROCKETMQ form gives a key 2 bytes of length, which Java reads as signed
	maxRemark = 64 << 10  // what is longer is cut when encoded: remarks quote what a peer sent
	maxKept   = 64 << 10  // buffers that grew beyond it are given back by Reset
)

// Field is one ext field; slices point into the frame or the command's scratch buffer.
type Field struct{ Key, Value []byte }

// Command is one request or response, reusable: Reset keeps its buffers. After Decode all slices are valid as long as the frame is
// and until the next Reset or Decode.
type Command struct {
	Code      int32
	Language  uint8
	Version   int32
	Opaque    int32
	Flag      int32
	Serialize Serialize
	Remark    string
	Fields    []Field
	Body      []byte
	scratch   []byte // unescaped and formatted values of Fields
}

// Reset makes c an empty request of ours in JSON form; its buffers are kept.
func (c *Command) Reset() {
	fields, scratch := c.Fields[:0], c.scratch[:0]
	if cap(fields) > maxFields {
		fields = nil
	}
	if cap(scratch) > maxKept {
		scratch = nil
	}
	*c = Command{Version: Version, Fields: fields, scratch: scratch}
}

// Decode reads a frame without its 4 length bytes. Errors name the field, what it was and what is allowed. No allocation on the common
// path. After an error c holds what was read so far; Opaque, Serialize and Flag may be used to answer it only when they were reached.
func (c *Command) Decode(frame []byte) error {
	c.Reset()
	c.Version = 0
	if len(frame) < 4 {
		return fmt.Errorf("remoting: frame of %d bytes: at least 4 are needed", len(frame))
	}
	word := binary.BigEndian.Uint32(frame)
	headerLen := int(word & maxHeader)
	if headerLen > len(frame)-4 {
		return fmt.Errorf("remoting: header length %d in a frame with %d bytes left", headerLen, len(frame)-4)
	}
	header := frame[4 : 4+headerLen]
	c.Body = frame[4+headerLen:]
	c.Serialize = Serialize(word >> 24)
	switch c.Serialize {
	case JSON:
		return c.decodeJSON(header)
	case RocketMQ:
		return c.decodeBinary(header)
	}
	return fmt.Errorf("remoting: header serialization %d: 0 (JSON) or 1 (ROCKETMQ) is allowed", word>>24)
}

// AppendFrame appends the whole frame, length included.
func (c *Command) AppendFrame(dst []byte) []byte {
	return append(c.AppendHead(dst, len(c.Body)), c.Body...)
}

// AppendHead appends the frame without its body, but counts bodyLen bytes of body in the length.
func (c *Command) AppendHead(dst []byte, bodyLen int) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	switch c.Serialize {
	case JSON:
		dst = c.appendJSON(dst)
	case RocketMQ:
		dst = c.appendBinary(dst)
	default:
		panic("BUG: remoting: frame of unknown serialization " + strconv.Itoa(int(c.Serialize)))
	}
	headerLen := len(dst) - start - 8
	if headerLen > maxHeader {
		panic("BUG: remoting: header of " + strconv.Itoa(headerLen) + " bytes, code " + strconv.Itoa(int(c.Code)))
	}
	binary.BigEndian.PutUint32(dst[start:], uint32(4+headerLen+bodyLen))
	binary.BigEndian.PutUint32(dst[start+4:], uint32(c.Serialize)<<24|uint32(headerLen))
	return dst
}

// Field returns the value of an ext field; of two with one name the last counts.
func (c *Command) Field(name string) ([]byte, bool) {
	for i := len(c.Fields) - 1; i >= 0; i-- {
		if string(c.Fields[i].Key) == name {
			return c.Fields[i].Value, true
		}
	}
	return nil, false
}

// Int returns an ext field that must be there and be a number.
func (c *Command) Int(name string) (int64, error) {
	value, ok := c.Field(name)
	if !ok {
		return 0, fmt.Errorf("remoting: ext field %q is missing: an integer is needed", name)
	}
	return parseField(name, value)
}

// IntOr returns def when the ext field is missing or empty.
func (c *Command) IntOr(name string, def int64) (int64, error) {
	value, ok := c.Field(name)
	if !ok || len(value) == 0 {
		return def, nil
	}
	return parseField(name, value)
}

// Bool tells whether an ext field says true, in any case of letters.
func (c *Command) Bool(name string) bool {
	value, _ := c.Field(name)
	return IsTrue(value)
}

// Str returns a copy of an ext field, "" when it is missing.
func (c *Command) Str(name string) string {
	value, _ := c.Field(name)
	return string(value)
}

// SetStr sets an ext field to a copy of value.
func (c *Command) SetStr(name, value string) {
	start := len(c.scratch)
	c.scratch = append(c.scratch, value...)
	c.set(name, c.scratched(start))
}

// SetBytes sets an ext field to value itself, which must not change until the command is encoded.
func (c *Command) SetBytes(name string, value []byte) { c.set(name, value) }

// SetInt sets an ext field to a decimal number.
func (c *Command) SetInt(name string, value int64) {
	start := len(c.scratch)
	c.scratch = strconv.AppendInt(c.scratch, value, 10)
	c.set(name, c.scratched(start))
}

// SetBool sets an ext field to true or false.
func (c *Command) SetBool(name string, value bool) {
	start := len(c.scratch)
	c.scratch = strconv.AppendBool(c.scratch, value)
	c.set(name, c.scratched(start))
}

// set overwrites the field of that name or appends one. The key is copied, so that no string constant is ever seen as bytes.
func (c *Command) set(name string, value []byte) {
	for i := len(c.Fields) - 1; i >= 0; i-- {
		if string(c.Fields[i].Key) == name {
			c.Fields[i].Value = value
			return
		}
	}
	start := len(c.scratch)
	c.scratch = append(c.scratch, name...)
	c.Fields = append(c.Fields, Field{Key: c.scratched(start), Value: value})
}

// scratched returns what was appended to scratch from start on. When scratch grows later, older slices keep the old array.
func (c *Command) scratched(start int) []byte {
	return c.scratch[start:len(c.scratch):len(c.scratch)]
}

// IsResponse tells an answer from a request.
func (c *Command) IsResponse() bool { return c.Flag&FlagResponse != 0 }

// IsOneway tells that the sender waits for no answer.
func (c *Command) IsOneway() bool { return c.Flag&FlagOneway != 0 }

// Answer makes c the empty response to req: its opaque and serialization, flag 1, and our language and version. c may be req.
func (c *Command) Answer(req *Command, code int32) {
	opaque, form := req.Opaque, req.Serialize
	c.Reset()
	c.Code, c.Opaque, c.Serialize, c.Flag = code, opaque, form, FlagResponse
}

// cutRemark is the remark as far as it is sent.
func (c *Command) cutRemark() string {
	if len(c.Remark) <= maxRemark {
		return c.Remark
	}
	end := maxRemark
	for end > maxRemark-utf8.UTFMax && !utf8.RuneStart(c.Remark[end]) {
		end--
	}
	return c.Remark[:end]
}

// IsTrue tells whether a text says true as Java reads it, in any case of letters.
func IsTrue(value []byte) bool {
	return len(value) == 4 && bytes.EqualFold(value, []byte("true"))
}

func parseField(name string, value []byte) (int64, error) {
	n, ok := parseInt(value)
	if !ok {
		return 0, fmt.Errorf("remoting: ext field %q is %q: an integer of 64 bits is needed", name, shown(value))
	}
	return n, nil
}

// shown is the beginning of a value that an error quotes.
func shown(value []byte) []byte {
	if len(value) > 64 {
		return value[:64]
	}
	return value
}

// parseInt reads a whole decimal number of at most 64 bits, with an optional sign.
func parseInt(text []byte) (int64, bool) {
	negative := false
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		negative = text[0] == '-'
		text = text[1:]
	}
	if len(text) == 0 {
		return 0, false
	}
	const limit = 1 << 63 // the magnitude of the smallest number
	magnitude := uint64(0)
	for _, digit := range text {
		digit -= '0'
		if digit > 9 || magnitude > limit/10 {
			return 0, false
		}
		magnitude = magnitude*10 + uint64(digit)
	}
	if negative {
		return -int64(magnitude), magnitude <= limit
	}
	return int64(magnitude), magnitude < limit
}

// parseInt32 reads a whole decimal number of at most 32 bits.
func parseInt32(text []byte) (int32, bool) {
	n, ok := parseInt(text)
	return int32(n), ok && n == int64(int32(n))
}
