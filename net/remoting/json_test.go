package remoting

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"
)

func fieldMap(c *Command) map[string]string {
	m := map[string]string{}
	for _, f := range c.Fields {
		m[string(f.Key)] = string(f.Value)
	}
	return m
}

func TestJSONReadsWhatOthersWrite(t *testing.T) {
	for _, test := range []struct {
		name, header string
		want         Command
		fields       map[string]string
	}{
		{"java", `{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":3,"serializeTypeCurrentRPC":"JSON","version":513}`,
			Command{Code: 105, Opaque: 3, Version: 513}, map[string]string{"topic": "T"}},
		{"go", `{"code":10,"language":"GO","version":317,"opaque":3,"flag":0,"remark":"","extFields":{"properties":"a\u0001b\u0002"}}`,
			Command{Code: 10, Opaque: 3, Version: 317, Language: 9}, map[string]string{"properties": "a\x01b\x02"}},
		{"spaces and unknown keys", " {\n \"x\" : [1,{\"y\":\"}\"},[]] , \"code\"\t:\r34 , \"z\":{} , \"w\":-1.5e3 } ",
			Command{Code: 34}, nil},
		{"ext values that are no strings", `{"extFields":{"i":12,"t":true,"f":false,"n":null,"d":-1.5e3,"":""}}`,
			Command{}, map[string]string{"i": "12", "t": "true", "f": "false", "d": "-1.5e3", "": ""}},
		{"nulls", `{"extFields":null,"remark":null,"code":null,"language":null}`, Command{}, nil},
		{"quoted numbers", `{"code":"310","flag":"2","opaque":"-1"}`, Command{Code: 310, Flag: 2, Opaque: -1}, nil},
		{"language by number", `{"language":12}`, Command{Language: 12}, nil},
		{"language unknown", `{"language":"ZIG"}`, Command{Language: LanguageOther}, nil},
		{"language far off", `{"language":4711}`, Command{Language: LanguageOther}, nil},
		{"the last of two counts", `{"code":1,"extFields":{"a":"1","b":"2"},"code":2,"extFields":{"a":"3","a":"4"},"remark":"x","remark":"y"}`,
			Command{Code: 2, Remark: "y"}, map[string]string{"a": "4"}},
		{"limits", `{"code":2147483647,"opaque":-2147483648}`, Command{Code: 1<<31 - 1, Opaque: -1 << 31}, nil},
		{"escapes", `{"remark":"\"\\\/\b\f\n\r\t\u00e9\u20AC\uD83D\uDE00"}`, Command{Remark: "\"\\/\b\f\n\r\té€😀"}, nil},
		{"halves of pairs", `{"remark":"\ud83d|\ude00|\ud83d\ud83d\ude00|\ud83dx|\ud83d\u0041|\ud83d"}`,
			Command{Remark: "\ufffd|\ufffd|\ufffd😀|\ufffdx|\ufffdA|\ufffd"}, nil},
		{"escaped key", `{"c\u006fde":7,"extFields":{"k\"":"v"}}`, Command{Code: 7}, map[string]string{`k"`: "v"}},
		{"raw control characters", "{\"remark\":\"a\x01b\nc\"}", Command{Remark: "a\x01b\nc"}, nil},
	} {
		var c Command
		if err := c.Decode(frameOf(JSON, test.header, "")); err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if c.Code != test.want.Code || c.Opaque != test.want.Opaque || c.Version != test.want.Version || c.Flag != test.want.Flag ||
			c.Language != test.want.Language || c.Remark != test.want.Remark {
			t.Errorf("%s: got %+v, want %+v", test.name, c, test.want)
		}
		if got := fieldMap(&c); !maps.Equal(got, test.fields) {
			t.Errorf("%s: fields %q, want %q", test.name, got, test.fields)
		}
	}
}

func TestJSONRefuses(t *testing.T) {
	for _, test := range []struct{ header, want string }{
		{``, "ends at byte 0"},
		{`null`, "object of header"},
		{`[]`, "object of header"},
		{`"x"`, "object of header"},
		{`1`, "object of header"},
		{`{`, "quoted key"},
		{`{"code"`, `":"`},
		{`{"code":`, "value of code"},
		{`{"code":1`, `"," or "}"`},
		{`{"code":1,}`, "quoted key"},
		{`{"code":1}x`, "end of the header"},
		{`{code:1}`, "quoted key"},
		{`{"code":2147483648}`, `header field code is "2147483648"`},
		{`{"opaque":-2147483649}`, "header field opaque"},
		{`{"flag":1.5}`, `header field flag is "1.5"`},
		{`{"version":"x"}`, `header field version is "x"`},
		{`{"code":{}}`, "for code"},
		{`{"remark":[]}`, "for remark"},
		{`{"language":{}}`, "for language"},
		{`{"extFields":[]}`, "object of extFields"},
		{`{"extFields":"x"}`, "object of extFields"},
		{`{"extFields":{"queueId":{"x":1}}}`, `(of "queueId")`},
		{`{"extFields":{"a":nul}}`, "null for extFields"},
		{`{"remark":"\x"}`, "an escape"},
		{`{"remark":"\u12g4"}`, "four hex digits"},
		{`{"remark":"\u12"`, "four hex digits"},
		{`{"remark":"\`, "an escape"},
		{`{"remark":"abc`, "end of a string"},
		{`{"x":[}`, "want ']'"},
		{`{"x":{]`, "want '}'"},
		{`{"x":[`, "end of a nested value"},
		{`{"x":` + strings.Repeat("[", 100_000), "nested deeper than 64"},
		{strings.Repeat("[", 100_000), "object of header"},
		{strings.Repeat(`{"a":`, 100_000), "nested deeper than 64"},
		{`{"extFields":{` + strings.Repeat(`"":"",`, 2000) + `"":""}}`, "more than 1024 extFields"},
		{`{"extFields":{"` + strings.Repeat("k", maxKey+1) + `":""}}`, "extFields key of 32768 bytes"},
	} {
		var c Command
		if err := c.Decode(frameOf(JSON, test.header, "")); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.60s: error %v, want one with %q", test.header, err, test.want)
		} else if len(err.Error()) > 300 {
			t.Errorf("%.60s: error of %d bytes", test.header, len(err.Error()))
		}
	}
}

// The header that Java prints for the same answer, byte for byte.
func TestJSONWritesAsJava(t *testing.T) {
	c := Command{Code: Success, Flag: FlagResponse, Opaque: 3, Version: Version, Remark: "a\"b\\c\x01\n\u2028\xff€"}
	c.SetInt("queueId", 1)
	c.SetStr("MSG_REGION", "DefaultRegion")
	want := `{"code":0,"extFields":{"queueId":"1","MSG_REGION":"DefaultRegion"},"flag":1,"language":"JAVA","opaque":3,` +
		`"remark":"a\"b\\c\u0001\n` + "\u2028" + `\ufffd€","serializeTypeCurrentRPC":"JSON","version":513}`
	if got := string(c.appendJSON(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	empty := Command{Code: PullNotFound, Flag: FlagResponse, Version: Version}
	want = `{"code":19,"flag":1,"language":"JAVA","opaque":0,"serializeTypeCurrentRPC":"JSON","version":513}`
	if got := string(empty.appendJSON(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Every byte and every rune that needs thought is written so that the standard library reads it back.
func TestJSONStringsAreLegal(t *testing.T) {
	texts := []string{"", "\xf0\x9f", "a\xed\xa0\x80b", "\u2029\u007f\u0080", "😀\\u0041"}
	for b := range 256 {
		texts = append(texts, "x"+string([]byte{byte(b)})+"y")
	}
	for _, text := range texts {
		quoted := AppendQuoted(nil, text)
		var got string
		if err := json.Unmarshal(quoted, &got); err != nil || !utf8.Valid(quoted) {
			t.Errorf("%q is written as %q: %v", text, quoted, err)
		}
		if want := strings.Map(func(r rune) rune { return r }, text); got != want {
			t.Errorf("%q is read back as %q, want %q", text, got, want)
		}
	}
}
