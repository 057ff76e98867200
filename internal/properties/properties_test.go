package properties

import (
	"slices"
	"strings"
	"testing"
)

// Lines and what java.util.Properties makes of them.
func TestParse(t *testing.T) {
	f := func(text string, want ...Pair) {
		t.Helper()
		if got, err := Parse([]byte(text)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	f("")
	f("\n \t\r\n#comment \\\n! another=1\n")
	f("a=b", Pair{"a", "b"})
	f("a = b ", Pair{"a", "b "})
	f(" a:b\rc   d\r\n\te\n", Pair{"a", "b"}, Pair{"c", "d"}, Pair{"e", ""})
	f("a = = b", Pair{"a", "= b"})
	f("a=1\na=2", Pair{"a", "1"}, Pair{"a", "2"})
	f("=x\n:\n", Pair{"", "x"}, Pair{"", ""})
	f("list=a;\\\n   b;\\\r\n\tc\nd=e", Pair{"list", "a;b;c"}, Pair{"d", "e"})
	f("a=b\\\n#no comment", Pair{"a", "b#no comment"})
	f("a=b\\\\\nc=d", Pair{"a", `b\`}, Pair{"c", "d"})
	f("a=b\\", Pair{"a", "b"})
	f(`k\ e\=y\:=v\tw\q`, Pair{"k e=y:", "v\twq"})
	f(`a=\u0041\u00e9\ud83d\ude00`, Pair{"a", "Aé😀"})
	f(`a=\ud83dx`, Pair{"a", "\uFFFDx"})
	f("a=é#b", Pair{"a", "é#b"})
	f("$(id)=`id`\n../../x=/etc/passwd", Pair{"$(id)", "`id`"}, Pair{"../../x", "/etc/passwd"})
	f("a=${user.home}", Pair{"a", "${user.home}"})
}

func TestParseTellsWhatIsWrong(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	f("a=1\nb=2\\\n3\nc=\\u12g4\n", `line 4: \u12g4: allowed are four hexadecimal digits`)
	f(`a\u12=b`, `line 1: \u12: allowed`)
	f("a=\xff", "not UTF-8")
}

// Many lines, each the start of something: linear, whatever they are.
func TestParseIsLinear(t *testing.T) {
	for _, line := range []string{"=x\n", "\\\n", "a\\\n", "#\n", "a=\\u0041\n"} {
		if _, err := Parse([]byte(strings.Repeat(line, 50_000))); err != nil {
			t.Error(err)
		}
	}
}

// What Append writes is read back as it was; whatever is read can be written.
func FuzzProperties(f *testing.F) {
	for _, text := range []string{"a=b", "a\\\n b: c\n", `\u0041\ud83d\ude00=\t\n`, "#x\n!y\n=\n", " =: \\ x", "a=\\ud83d\\u0041", "k\r\n\r"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		pairs, err := Parse(text)
		if err != nil {
			return
		}
		var written []byte
		for _, p := range pairs {
			written = Append(written, p.Key, p.Value)
		}
		again, err := Parse(written)
		if err != nil || !slices.Equal(again, pairs) {
			t.Errorf("%q written as %q, read as %q, %v", pairs, written, again, err)
		}
	})
}
