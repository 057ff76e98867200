// Package properties reads and writes the text of java.util.Properties: configuration files, and the bodies by which tools change settings.
// It knows no key. What comes from the network is read by it too, so it holds nothing but the text it was given and ends with it.
package properties

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Pair is one line. Of two with the same key the later one counts.
type Pair struct{ Key, Value string }

// Parse reads text, which is UTF-8. `=`, `:` or white space ends a key, a backslash at the end of a line continues it, \uXXXX is a
// character, lines that begin with # or ! are comments. Pairs stand in the order of the text, equal keys included.
func Parse(text []byte) ([]Pair, error) {
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("properties: the text is not UTF-8")
	}
	var pairs []Pair
	for number := 1; len(text) > 0; {
		first := number
		var line []byte
		line, text, number = logicalLine(text, number)
		if len(line) == 0 {
			continue
		}
		end, from := split(line)
		key, err := unescape(line[:end])
		if err == nil {
			var value string
			if value, err = unescape(line[from:]); err == nil {
				pairs = append(pairs, Pair{key, value})
				continue
			}
		}
		return nil, fmt.Errorf("properties: line %d: %w", first, err)
	}
	return pairs, nil
}

const white = " \t\f"

// logicalLine cuts off the first line with all that continue it; nothing of a comment or a blank line. number counts the lines of the text.
func logicalLine(text []byte, number int) (line, rest []byte, next int) {
	line, rest = naturalLine(text)
	number++
	line = bytes.TrimLeft(line, white)
	if len(line) == 0 || line[0] == '#' || line[0] == '!' {
		return nil, rest, number
	}
	if !continues(line) {
		return line, rest, number
	}
	var joined []byte
	for continues(line) {
		joined = append(joined, line[:len(line)-1]...)
		line, rest = naturalLine(rest)
		number++
		line = bytes.TrimLeft(line, white)
	}
	return append(joined, line...), rest, number
}

// naturalLine cuts off what stands before \n, \r or \r\n.
func naturalLine(text []byte) (line, rest []byte) {
	i := bytes.IndexAny(text, "\r\n")
	if i < 0 {
		return text, nil
	}
	line, rest = text[:i], text[i+1:]
	if text[i] == '\r' && len(rest) > 0 && rest[0] == '\n' {
		rest = rest[1:]
	}
	return line, rest
}

// continues tells whether an odd number of backslashes ends the line.
func continues(line []byte) bool {
	return (len(line)-len(bytes.TrimRight(line, `\`)))%2 == 1
}

// split finds where the key ends and where the value begins.
func split(line []byte) (end, from int) {
	for end < len(line) && !strings.ContainsRune(white+"=:", rune(line[end])) {
		if line[end] == '\\' {
			end++ // what is escaped does not end a key
		}
		end++
	}
	end = min(end, len(line))
	skip := func() {
		for from < len(line) && strings.IndexByte(white, line[from]) >= 0 {
			from++
		}
	}
	from = end
	skip()
	if from < len(line) && (line[from] == '=' || line[from] == ':') {
		from++
		skip()
	}
	return end, from
}

func unescape(text []byte) (string, error) {
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text), nil
	}
	var b strings.Builder
	for len(text) > 0 {
		c := text[0]
		text = text[1:]
		if c != '\\' {
			b.WriteByte(c)
			continue
		}
		if len(text) == 0 {
			break // at the end of the text
		}
		c, text = text[0], text[1:]
		switch c {
		case 't':
			b.WriteByte('\t')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 'f':
			b.WriteByte('\f')
		case 'u':
			r, rest, err := character(text)
			if err != nil {
				return "", err
			}
			b.WriteRune(r)
			text = rest
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}

// character reads the digits of \uXXXX, and the second half of a pair of surrogates.
func character(text []byte) (r rune, rest []byte, err error) {
	unit := func(text []byte) (rune, bool) {
		if len(text) < 4 {
			return 0, false
		}
		n, err := strconv.ParseUint(string(text[:4]), 16, 16)
		return rune(n), err == nil
	}
	high, ok := unit(text)
	if !ok {
		return 0, nil, fmt.Errorf(`\u%.4s: allowed are four hexadecimal digits`, text)
	}
	text = text[4:]
	if utf16.IsSurrogate(high) && bytes.HasPrefix(text, []byte(`\u`)) {
		if low, ok := unit(text[2:]); ok {
			if r := utf16.DecodeRune(high, low); r != utf8.RuneError {
				return r, text[6:], nil
			}
		}
	}
	return high, text, nil // WriteRune makes U+FFFD of half a pair
}

// Append writes a line that Parse, and Java, read as key and value.
func Append(dst []byte, key, value string) []byte {
	dst = appendEscaped(dst, key, true)
	dst = append(dst, '=')
	return append(appendEscaped(dst, value, false), '\n')
}

func appendEscaped(dst []byte, text string, key bool) []byte {
	for i := range len(text) {
		switch c := text[i]; {
		case c == '\t':
			dst = append(dst, `\t`...)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\r':
			dst = append(dst, `\r`...)
		case c == '\f':
			dst = append(dst, `\f`...)
		case c == '\\',
			c == ' ' && (key || i == 0), // elsewhere in a value it is one
			key && (c == '=' || c == ':' || i == 0 && (c == '#' || c == '!')):
			dst = append(dst, '\\', c)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
