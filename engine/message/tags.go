package message

import "unicode/utf8"

// TagsCode is what a queue entry keeps of the value of TAGS: the hash that Java computes over the string's UTF-16 units,
// sign-extended; 0 without tags.
func TagsCode(tags []byte) int64 { return int64(JavaHash(0, tags)) }

// JavaHash continues Java's string hash h (0 to begin) over the UTF-8 text b, as if b were appended to the string hashed so
// far. Bytes that are not UTF-8 count as the replacement characters that Java's decoder would put there.
func JavaHash(h int32, b []byte) int32 {
	for i := 0; i < len(b); {
		if c := b[i]; c < utf8.RuneSelf {
			h = 31*h + int32(c)
			i++
			continue
		}
		r, n := javaRune(b[i:])
		i += n
		if r >= 0x10000 { // two UTF-16 units
			r -= 0x10000
			h = 31*h + (0xd800 + r>>10)
			r = 0xdc00 + r&0x3ff
		}
		h = 31*h + r
	}
	return h
}

// javaRune decodes the first rune of b, which is not ASCII, and tells how many bytes Java takes for it. A sequence that
// breaks off is replaced as one; Go's own decoder would replace each of its bytes. An encoded surrogate is replaced as one.
func javaRune(b []byte) (r rune, n int) {
	lead := b[0]
	more, low, high := 0, byte(0x80), byte(0xbf) // bytes that follow; range of the first of them
	switch {
	case lead >= 0xc2 && lead <= 0xdf:
		more, r = 1, rune(lead&0x1f)
	case lead >= 0xe0 && lead <= 0xef:
		more, r = 2, rune(lead&0x0f)
		if lead == 0xe0 {
			low = 0xa0
		}
	case lead >= 0xf0 && lead <= 0xf4:
		more, r = 3, rune(lead&0x07)
		if lead == 0xf0 {
			low = 0x90
		} else if lead == 0xf4 {
			high = 0x8f
		}
	default:
		return utf8.RuneError, 1
	}
	for n = 1; n <= more; n++ {
		if n >= len(b) || b[n] < low || b[n] > high {
			return utf8.RuneError, n
		}
		r = r<<6 | rune(b[n]&0x3f)
		low, high = 0x80, 0xbf
	}
	if r >= 0xd800 && r <= 0xdfff {
		r = utf8.RuneError
	}
	return r, n
}
