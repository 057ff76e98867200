package filter

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in    string
		names []string
		codes []int32
	}{
		{"", nil, nil},
		{"*", nil, nil},
		{" * ", nil, nil},
		{"Aa||*", nil, nil},
		{"Aa", []string{"Aa"}, []int32{2112}},
		{"Aa||BB", []string{"Aa", "BB"}, []int32{2112, 2112}},
		{" TagA || TagB||TagA|| ", []string{"TagA", "TagB"}, []int32{2598919, 2598920}},
		{"polygenelubricants", []string{"polygenelubricants"}, []int32{-2147483648}},
		{"a|b", []string{"a|b"}, []int32{97*31*31 + 124*31 + 98}},
	} {
		got, err := Parse(c.in)
		if err != nil || !slices.Equal(got.Names, c.names) || !slices.Equal(got.Codes(), c.codes) || got.All() != (c.codes == nil) {
			t.Errorf("Parse(%q) = %+v, %v; want %v %v", c.in, got, err, c.names, c.codes)
		}
	}
	for _, in := range []string{"||", " || || ", strings.Join(numbers(MaxTags+1), "||")} {
		if got, err := Parse(in); err == nil {
			t.Errorf("Parse(%.20q) = %v, want an error", in, got)
		}
	}
}

func numbers(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint("t", i)
	}
	return list
}

func TestMatch(t *testing.T) {
	t.Parallel()
	tags, _ := Parse("Aa || TagA")
	for code, want := range map[int64]bool{2112: true, 2598919: true, 0: false, 2598920: false} {
		if got := tags.Match(code); got != want {
			t.Errorf("Match(%d) = %v", code, got)
		}
	}
	if low, _ := Parse("polygenelubricants"); !low.Match(-2147483648) {
		t.Error("the smallest hash does not match itself")
	}
	if all := (*Tags)(nil); !all.Match(5) || !all.All() || all.Codes() != nil {
		t.Error("no subscription must match everything")
	}
}

func TestCache(t *testing.T) {
	var c Cache
	first, err := c.Parse([]byte("A||B"))
	if err != nil {
		t.Fatal(err)
	}
	key := []byte("A||B")
	if n := testing.AllocsPerRun(100, func() { c.Parse(key) }); n != 0 {
		t.Errorf("%v allocations for a known expression", n)
	}
	if again, _ := c.Parse(key); again != first {
		t.Error("a known expression was parsed again")
	}
	for i := range 2 * maxCached {
		c.Parse(fmt.Append(nil, "T", i))
	}
	if len(c.byKey) > maxCached {
		t.Errorf("%d expressions are kept", len(c.byKey))
	}
	long := []byte(strings.Repeat("x", maxCachedText+1))
	if _, err := c.Parse(long); err != nil || c.byKey[string(long)] != nil {
		t.Errorf("a long expression is kept: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "*", "a||b", "||", "\xff||é", "a || a", "0| | ||0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		tags, err := Parse(in)
		if err != nil {
			return
		}
		again, err := Parse(strings.Join(tags.Names, " || ")) // a name may begin or end with one bar
		if err != nil || !slices.Equal(again.Names, tags.Names) {
			t.Fatalf("%q: names %q read back as %q, %v", in, tags.Names, again, err)
		}
	})
}
