package fastjson

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestStandard(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{`{}`, `{}`},
		{``, ``},
		{`{"a":1}`, `{"a":1}`},
		{`{0:1,1:2}`, `{"0":1,"1":2}`},
		{"{\n\t0:1,\n\t-12 : 2\n}", "{\n\t\"0\":1,\n\t\"-12\" : 2\n}"},
		{`{"offsetTable":{"T@G":{0:1,1:2}},"n":[1,2,{3:4}]}`, `{"offsetTable":{"T@G":{"0":1,"1":2}},"n":[1,2,{"3":4}]}`},
		{`{"a":"{0:1}","b\"{":{1:"x,2:"}}`, `{"a":"{0:1}","b\"{":{"1":"x,2:"}}`},
		{`{{"queueId":0,"topic":"T"}:{1:2},{"queueId":1}:3}`, `{"{\"queueId\":0,\"topic\":\"T\"}":{"1":2},"{\"queueId\":1}":3}`},
		{`{{1:2}:3}`, `{"{\"1\":2}":3}`},
		{`{{{1:2}:3}:4}`, `{"{\"{\\\"1\\\":2}\":3}":4}`},
		{`[1,2,{}]`, `[1,2,{}]`},
		{`{9223372036854775807:0}`, `{"9223372036854775807":0}`},
	} {
		got, err := Standard([]byte(c.in))
		if err != nil || string(got) != c.want {
			t.Errorf("Standard(%s) = %s, %v; want %s", c.in, got, err, c.want)
		}
	}
}

func TestStandardKeepsLegalText(t *testing.T) {
	t.Parallel()
	in := []byte(`{"a":{"1":[true,null,-1.5e3]},"b":"é\u0041"}`)
	got, err := Standard(in)
	if err != nil || &got[0] != &in[0] {
		t.Fatalf("legal text was copied: %s, %v", got, err)
	}
}

func TestUnmarshal(t *testing.T) {
	t.Parallel()
	var v struct {
		OffsetTable map[string]map[int32]int64 `json:"offsetTable"`
	}
	in := "{\n\t\"dataVersion\":{\"counter\":0},\n\t\"offsetTable\":{\"TopicTest@G_off\":{0:1,1:2,2:3,3:4\n\t\t}\n\t}\n}"
	if err := Unmarshal([]byte(in), &v); err != nil {
		t.Fatal(err)
	}
	want := map[string]map[int32]int64{"TopicTest@G_off": {0: 1, 1: 2, 2: 3, 3: 4}}
	if !reflect.DeepEqual(v.OffsetTable, want) {
		t.Fatalf("got %v, want %v", v.OffsetTable, want)
	}
	// Every beginning of a good text is refused, none read as something else.
	for n := range len(in) {
		if err := Unmarshal([]byte(in[:n]), &v); err == nil {
			t.Fatalf("the first %d bytes were accepted: %s", n, in[:n])
		}
	}
	if err := Unmarshal([]byte(in+"}}"), &v); err == nil {
		t.Fatal("a tail behind the text was accepted")
	}
	if err := Unmarshal(make([]byte, 64), &v); err == nil {
		t.Fatal("zeros were accepted")
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	var v any
	for name, in := range map[string]string{
		"lists":       strings.Repeat("[", 100000),
		"objects":     strings.Repeat(`{"a":`, 100000),
		"object keys": strings.Repeat("{", 100000),
		"closed keys": strings.Repeat("{", 100) + strings.Repeat("}", 100),
		"open key":    `{{"a":1`,
	} {
		if err := Unmarshal([]byte(in), &v); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := Unmarshal([]byte(strings.Repeat("[", MaxDepth)+strings.Repeat("]", MaxDepth)), &v); err != nil {
		t.Errorf("depth %d refused: %v", MaxDepth, err)
	}
	if _, err := Standard(make([]byte, MaxSize+1)); err == nil || !strings.Contains(err.Error(), "268435456") {
		t.Errorf("too large text: %v", err)
	}
}

// FuzzStandard: legal JSON keeps its meaning (or is refused for its depth); any text is rewritten to something stable.
func FuzzStandard(f *testing.F) {
	for _, s := range []string{`{0:1,1:2}`, `{{"a":1}:2}`, `{"a":[{"1":2},{3:4}]}`, `[`, `{"a\`, `{-`, "\x00", `{{{1:2}:3}:4}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		out, err := Standard(in)
		if err != nil {
			return
		}
		if json.Valid(in) && !bytes.Equal(in, out) {
			t.Fatalf("legal text %q was changed to %q", in, out)
		}
		if !json.Valid(out) {
			return
		}
		again, err := Standard(out)
		if err != nil || !bytes.Equal(again, out) {
			t.Fatalf("%q rewrites to %q, %v", out, again, err)
		}
	})
}
