package message_test

import (
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"ringmq/engine/message"
)

func TestTagsCode(t *testing.T) {
	f := func(tags string, want int64) {
		t.Helper()
		if got := message.TagsCode([]byte(tags)); got != want {
			t.Errorf("TagsCode(%q) = %d, want %d", tags, got, want)
		}
	}
	f("", 0)
	f("A", 65)
	f("Aa", 2112)
	f("BB", 2112)
	f("TagA", 2598919)
	f("polygenelubricants", -2147483648)
	f("\u00e9", 0xe9)
	f("\u4f60", 0x4f60)
	f("\U0001f600", 31*0xd83d+0xde00) // two units
	const bad = 0xfffd
	f("\xff", bad)
	f("\x80", bad)
	f("\xc3", bad)                              // broken off at the end
	f("\xc3A", 31*bad+'A')                      // broken off in the middle
	f("\xe4\xbd", bad)                          // two of three bytes: one replacement
	f("\xe4\xbdA", 31*bad+'A')                  //
	f("\xf0\x9f\x98", bad)                      // three of four
	f("\xed\xa0\x80", bad)                      // an encoded surrogate
	f("\xc0\x80", 31*bad+bad)                   // overlong: each byte
	f("\xe0\x80\x80", (31*bad+bad)*31+bad)      //
	f("\xf4\x90", 31*bad+bad)                   // above U+10FFFF
	f("\xf5\x80\x80\x80", int64(int32(mul(4)))) //
}

// mul is the hash of n replacement characters.
func mul(n int) (h int32) {
	for range n {
		h = 31*h + 0xfffd
	}
	return h
}

func FuzzTagsCode(f *testing.F) {
	f.Add("TagA", "\U0001f600x")
	f.Add("\xe4\xbd", "\xbd")
	f.Fuzz(func(t *testing.T, a, b string) {
		message.TagsCode([]byte(a + b))
		if !utf8.ValidString(a) || !utf8.ValidString(b) {
			return
		}
		var want int32
		for _, unit := range utf16.Encode([]rune(a + b)) {
			want = 31*want + int32(unit)
		}
		if got := message.JavaHash(message.JavaHash(0, []byte(a)), []byte(b)); got != want {
			t.Fatalf("hash of %q + %q is %d, want %d", a, b, got, want)
		}
	})
}
