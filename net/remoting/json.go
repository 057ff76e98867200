package remoting

import (
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth limits the nesting of values that are only skipped; a header of ours is 2 deep.
const maxDepth = 64

// scanner walks once over a JSON header. Strings without escapes are slices of the header, others are unescaped into the command's
// scratch buffer. Raw control characters within strings are taken as they are, as Java's parsers do.
type scanner struct {
	c    *Command
	text []byte
	pos  int
}

func (c *Command) decodeJSON(header []byte) error {
	s := scanner{c: c, text: header}
	if err := s.open("header"); err != nil {
		return err
	}
	for first := true; ; first = false {
		key, more, err := s.nextKey(first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if err := s.headerValue(key); err != nil {
			return err
		}
	}
	s.space()
	if s.pos < len(s.text) {
		return s.fail("the end of the header")
	}
	return nil
}

// headerValue reads the value that belongs to one key of the header. Keys we do not know are skipped, so is
// serializeTypeCurrentRPC: the frame's own byte says it.
func (s *scanner) headerValue(key []byte) error {
	switch string(key) {
	case "code":
		return s.number("code", &s.c.Code)
	case "flag":
		return s.number("flag", &s.c.Flag)
	case "opaque":
		return s.number("opaque", &s.c.Opaque)
	case "version":
		return s.number("version", &s.c.Version)
	case "language":
		return s.language()
	case "remark":
		value, kind, err := s.scalar("remark")
		if err != nil {
			return err
		}
		s.c.Remark = ""
		if kind != kindNull {
			s.c.Remark = string(value)
		}
		return nil
	case "extFields":
		return s.extFields()
	}
	return s.skip()
}

func (s *scanner) extFields() error {
	s.c.Fields = s.c.Fields[:0]
	s.space()
	if s.literal("null") {
		return nil
	}
	if err := s.open("extFields"); err != nil {
		return err
	}
	for first := true; ; first = false {
		key, more, err := s.nextKey(first)
		if err != nil || !more {
			return err
		}
		if len(key) > maxKey {
			return fmt.Errorf("remoting: extFields key of %d bytes: at most %d are allowed", len(key), maxKey)
		}
		value, kind, err := s.scalar("extFields")
		if err != nil {
			return fmt.Errorf("%w (of %q)", err, shown(key))
		}
		if kind == kindNull {
			continue
		}
		if len(s.c.Fields) == maxFields {
			return errTooManyFields()
		}
		s.c.Fields = append(s.c.Fields, Field{Key: key, Value: value})
	}
}

// number reads an integer of 32 bits, quoted or not; null is 0.
func (s *scanner) number(field string, to *int32) error {
	value, kind, err := s.scalar(field)
	if err != nil {
		return err
	}
	if kind == kindNull {
		*to = 0
		return nil
	}
	n, ok := parseInt32(value)
	if !ok {
		return fmt.Errorf("remoting: header field %s is %q: an integer of 32 bits is needed", field, shown(value))
	}
	*to = n
	return nil
}

// language reads the name or the number of a language.
func (s *scanner) language() error {
	value, kind, err := s.scalar("language")
	if err != nil {
		return err
	}
	s.c.Language = LanguageOther
	switch kind {
	case kindNull:
		s.c.Language = LanguageJava
	case kindText:
		s.c.Language = languageOf(value)
	case kindOther:
		if n, ok := parseInt(value); ok && n >= 0 && n < languageCount {
			s.c.Language = uint8(n)
		}
	}
	return nil
}

// open takes the bracket of an object.
func (s *scanner) open(what string) error {
	s.space()
	if s.pos == len(s.text) || s.text[s.pos] != '{' {
		return s.fail("the object of " + what)
	}
	s.pos++
	return nil
}

// nextKey takes the next key of an object and its colon, or the closing bracket: more is false then.
func (s *scanner) nextKey(first bool) (key []byte, more bool, err error) {
	s.space()
	if s.pos < len(s.text) && s.text[s.pos] == '}' {
		s.pos++
		return nil, false, nil
	}
	if !first {
		if s.pos == len(s.text) || s.text[s.pos] != ',' {
			return nil, false, s.fail(`"," or "}"`)
		}
		s.pos++
		s.space()
	}
	if s.pos == len(s.text) || s.text[s.pos] != '"' {
		return nil, false, s.fail("a quoted key")
	}
	if key, err = s.quoted(); err != nil {
		return nil, false, err
	}
	s.space()
	if s.pos == len(s.text) || s.text[s.pos] != ':' {
		return nil, false, s.fail(`":"`)
	}
	s.pos++
	return key, true, nil
}

type kind uint8

const (
	kindText  kind = iota // was quoted
	kindOther             // a number, true or false, as text
	kindNull
)

// scalar reads a string, number, bool or null.
func (s *scanner) scalar(field string) ([]byte, kind, error) {
	s.space()
	if s.pos == len(s.text) {
		return nil, 0, s.fail("the value of " + field)
	}
	if s.text[s.pos] == '"' {
		value, err := s.quoted()
		return value, kindText, err
	}
	if s.literal("null") {
		return nil, kindNull, nil
	}
	start := s.pos
	if s.literal("true") || s.literal("false") {
		return s.text[start:s.pos:s.pos], kindOther, nil
	}
	for s.pos < len(s.text) && isNumeral(s.text[s.pos]) {
		s.pos++
	}
	if s.pos == start {
		return nil, 0, s.fail("a string, number, true, false or null for " + field)
	}
	return s.text[start:s.pos:s.pos], kindOther, nil
}

func isNumeral(b byte) bool {
	return b-'0' <= 9 || b == '-' || b == '+' || b == '.' || b == 'e' || b == 'E'
}

// literal takes word when it is next.
func (s *scanner) literal(word string) bool {
	if len(s.text)-s.pos < len(word) || string(s.text[s.pos:s.pos+len(word)]) != word {
		return false
	}
	s.pos += len(word)
	return true
}

// quoted takes a string; pos is at its opening quote. A plain loop: most strings are shorter than a call of bytes.IndexByte pays for.
func (s *scanner) quoted() ([]byte, error) {
	start := s.pos + 1
	for i := start; i < len(s.text); i++ {
		switch s.text[i] {
		case '"':
			s.pos = i + 1
			return s.text[start:i:i], nil
		case '\\':
			s.pos = start
			return s.unescape()
		}
	}
	s.pos = len(s.text)
	return nil, s.fail(`'"' at the end of a string`)
}

// unescape copies a string to scratch with its escapes resolved; pos is behind the opening quote.
func (s *scanner) unescape() ([]byte, error) {
	out := s.c.scratch
	kept := len(out)
	for {
		from := s.pos
		for s.pos < len(s.text) && s.text[s.pos] != '"' && s.text[s.pos] != '\\' {
			s.pos++
		}
		out = append(out, s.text[from:s.pos]...)
		if s.pos == len(s.text) {
			return nil, s.fail(`'"' at the end of a string`)
		}
		if s.text[s.pos] == '"' {
			s.pos++
			s.c.scratch = out
			return s.c.scratched(kept), nil
		}
		s.pos++
		if s.pos == len(s.text) {
			return nil, s.fail("an escape")
		}
		escape := s.text[s.pos]
		s.pos++
		switch escape {
		case '"', '\\', '/':
			out = append(out, escape)
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, err := s.escapedRune()
			if err != nil {
				return nil, err
			}
			out = utf8.AppendRune(out, r)
		default:
			s.pos--
			return nil, s.fail(`an escape: one of "\/bfnrtu`)
		}
	}
}

// escapedRune reads the digits of a \u escape, and of a second one when the first is the first half of a pair. A half alone becomes
// U+FFFD.
func (s *scanner) escapedRune() (rune, error) {
	r, ok := s.hex4(s.pos)
	if !ok {
		return 0, s.fail("four hex digits")
	}
	s.pos += 4
	if !utf16.IsSurrogate(r) {
		return r, nil
	}
	if s.pos+1 < len(s.text) && s.text[s.pos] == '\\' && s.text[s.pos+1] == 'u' {
		if low, ok := s.hex4(s.pos + 2); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				s.pos += 6
				return pair, nil
			}
		}
	}
	return utf8.RuneError, nil
}

func (s *scanner) hex4(at int) (rune, bool) {
	if len(s.text)-at < 4 {
		return 0, false
	}
	r := rune(0)
	for _, b := range s.text[at : at+4] {
		switch {
		case b >= '0' && b <= '9':
			b -= '0'
		case b|0x20 >= 'a' && b|0x20 <= 'f':
			b = b | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(b)
	}
	return r, true
}

// skip passes over a value of any kind without recursion. Of nested values only the brackets and strings are checked.
func (s *scanner) skip() error {
	s.space()
	if s.pos == len(s.text) || (s.text[s.pos] != '{' && s.text[s.pos] != '[') {
		kept := len(s.c.scratch)
		_, _, err := s.scalar("a field")
		s.c.scratch = s.c.scratch[:kept]
		return err
	}
	var closing [maxDepth]byte
	depth := 0
	for s.pos < len(s.text) {
		b := s.text[s.pos]
		switch b {
		case '{', '[':
			if depth == maxDepth {
				return fmt.Errorf("remoting: header nested deeper than %d at byte %d", maxDepth, s.pos)
			}
			closing[depth] = b + 2 // in ASCII both closing brackets stand two behind the opening ones
			depth++
		case '}', ']':
			if closing[depth-1] != b {
				return s.fail(fmt.Sprintf("%q", closing[depth-1]))
			}
			depth--
		case '"':
			kept := len(s.c.scratch)
			if _, err := s.quoted(); err != nil {
				return err
			}
			s.c.scratch = s.c.scratch[:kept]
			continue
		}
		s.pos++
		if depth == 0 {
			return nil
		}
	}
	return s.fail("the end of a nested value")
}

func (s *scanner) space() {
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

func (s *scanner) fail(want string) error {
	if s.pos >= len(s.text) {
		return fmt.Errorf("remoting: JSON header ends at byte %d, want %s", len(s.text), want)
	}
	return fmt.Errorf("remoting: JSON header has %q at byte %d, want %s", s.text[s.pos], s.pos, want)
}
