package remoting

import (
	"strconv"
	"unicode/utf8"
)

// appendJSON writes the header with its keys in alphabetical order, as Java prints it; remark and extFields only when there are any.
func (c *Command) appendJSON(dst []byte) []byte {
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendInt(dst, int64(c.Code), 10)
	if len(c.Fields) > 0 {
		dst = append(dst, `,"extFields":{`...)
		for i := range c.Fields {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendQuoted(dst, c.Fields[i].Key)
			dst = append(dst, ':')
			dst = AppendQuoted(dst, c.Fields[i].Value)
		}
		dst = append(dst, '}')
	}
	dst = append(dst, `,"flag":`...)
	dst = strconv.AppendInt(dst, int64(c.Flag), 10)
	dst = append(dst, `,"language":"`...)
	dst = append(dst, LanguageName(c.Language)...)
	dst = append(dst, `","opaque":`...)
	dst = strconv.AppendInt(dst, int64(c.Opaque), 10)
	if c.Remark != "" {
		dst = append(dst, `,"remark":`...)
		dst = AppendQuoted(dst, c.cutRemark())
	}
	dst = append(dst, `,"serializeTypeCurrentRPC":"JSON","version":`...)
	dst = strconv.AppendInt(dst, int64(c.Version), 10)
	return append(dst, '}')
}

// AppendQuoted writes text as a JSON string. Bytes that are not UTF-8 become U+FFFD: a Java peer would read them so anyhow, and a strict
// one would refuse the frame.
func AppendQuoted[T ~string | ~[]byte](dst []byte, text T) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(text); {
		b := text[i]
		if b >= ' ' && b != '"' && b != '\\' && b < utf8.RuneSelf {
			i++
			continue
		}
		if b >= utf8.RuneSelf {
			size := runeLen(text[i:])
			if size > 0 {
				i += size
				continue
			}
		}
		dst = append(dst, text[from:i]...)
		switch {
		case b == '"' || b == '\\':
			dst = append(dst, '\\', b)
		case b == '\b':
			dst = append(dst, `\b`...)
		case b == '\f':
			dst = append(dst, `\f`...)
		case b == '\n':
			dst = append(dst, `\n`...)
		case b == '\r':
			dst = append(dst, `\r`...)
		case b == '\t':
			dst = append(dst, `\t`...)
		case b < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
		default:
			dst = append(dst, `\ufffd`...)
		}
		i++
		from = i
	}
	dst = append(dst, text[from:]...)
	return append(dst, '"')
}

// runeLen is the length of the whole UTF-8 sequence at the start of text, 0 when there is none.
func runeLen[T ~string | ~[]byte](text T) int {
	var first [utf8.UTFMax]byte
	n := copy(first[:], text)
	r, size := utf8.DecodeRune(first[:n])
	if r == utf8.RuneError && size == 1 {
		return 0
	}
	return size
}
