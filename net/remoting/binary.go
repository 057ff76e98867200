package remoting

import (
	"encoding/binary"
	"fmt"
)

// The ROCKETMQ header, numbers in big-endian order:
//
//	 0  2  code, signed: greater codes lose their upper bits, as with the original
//	 2  1  language
//	 3  2  version
//	 5  4  opaque
//	 9  4  flag
//	13  4  length of the remark, then the remark
//	    4  length of all ext fields in bytes, then for each
//	       2  length of the key, then the key
//	       4  length of the value, then the value
const binaryFixed = 13

func (c *Command) decodeBinary(header []byte) error {
	if len(header) < binaryFixed+8 {
		return fmt.Errorf("remoting: ROCKETMQ header of %d bytes: at least %d are needed", len(header), binaryFixed+8)
	}
	c.Code = int32(int16(binary.BigEndian.Uint16(header)))
	c.Language = header[2]
	c.Version = int32(int16(binary.BigEndian.Uint16(header[3:])))
	c.Opaque = int32(binary.BigEndian.Uint32(header[5:]))
	c.Flag = int32(binary.BigEndian.Uint32(header[9:]))
	remark, rest, err := cutBytes(header[binaryFixed:], "remark")
	if err != nil {
		return err
	}
	c.Remark = string(remark)
	pairs, rest, err := cutBytes(rest, "extFields")
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return fmt.Errorf("remoting: ROCKETMQ header has %d bytes behind extFields", len(rest))
	}
	return c.decodePairs(pairs)
}

func (c *Command) decodePairs(pairs []byte) error {
	for len(pairs) > 0 {
		if len(c.Fields) == maxFields {
			return errTooManyFields()
		}
		if len(pairs) < 2 {
			return fmt.Errorf("remoting: extFields end within the length of key %d", len(c.Fields))
		}
		keyLen := int(binary.BigEndian.Uint16(pairs))
		if keyLen > maxKey || keyLen > len(pairs)-2 {
			return fmt.Errorf("remoting: extFields key %d has length %d with %d bytes left", len(c.Fields), keyLen, len(pairs)-2)
		}
		key := pairs[2 : 2+keyLen : 2+keyLen]
		value, rest, err := cutBytes(pairs[2+keyLen:], "extFields value")
		if err != nil {
			return fmt.Errorf("%w (of %q)", err, shown(key))
		}
		c.Fields = append(c.Fields, Field{Key: key, Value: value})
		pairs = rest
	}
	return nil
}

// cutBytes takes a length of 4 bytes and as many bytes off the front of from.
func cutBytes(from []byte, what string) (taken, rest []byte, err error) {
	if len(from) < 4 {
		return nil, nil, fmt.Errorf("remoting: ROCKETMQ header ends within the length of %s", what)
	}
	n := binary.BigEndian.Uint32(from)
	from = from[4:]
	if uint64(n) > uint64(len(from)) {
		return nil, nil, fmt.Errorf("remoting: length of %s is %d with %d bytes left", what, int32(n), len(from))
	}
	return from[:n:n], from[n:], nil
}

func (c *Command) appendBinary(dst []byte) []byte {
	remark := c.cutRemark()
	dst = binary.BigEndian.AppendUint16(dst, uint16(c.Code))
	dst = append(dst, c.Language)
	dst = binary.BigEndian.AppendUint16(dst, uint16(c.Version))
	dst = binary.BigEndian.AppendUint32(dst, uint32(c.Opaque))
	dst = binary.BigEndian.AppendUint32(dst, uint32(c.Flag))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(remark)))
	dst = append(dst, remark...)
	lengthAt := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	for i := range c.Fields {
		f := &c.Fields[i]
		if len(f.Key) > maxKey {
			panic("BUG: remoting: ext field key longer than 32767 bytes")
		}
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(f.Key)))
		dst = append(dst, f.Key...)
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(f.Value)))
		dst = append(dst, f.Value...)
	}
	binary.BigEndian.PutUint32(dst[lengthAt:], uint32(len(dst)-lengthAt-4))
	return dst
}

func errTooManyFields() error {
	return fmt.Errorf("remoting: more than %d extFields", maxFields)
}
