package remoting

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"testing"

	"ringmq/internal/fixture"
)

// Every frame that real clients, brokers and name servers exchanged is read as another decoder read it.
func TestRealFramesAreRead(t *testing.T) {
	frames := 0
	for talk, f := range fixture.Frames(t) {
		frames++
		var c Command
		if err := c.Decode(f.Raw[4:]); err != nil {
			t.Fatalf("%s#%d: %v", talk, f.Number, err)
		}
		want := f.Header
		remark := ""
		if want.Remark != nil {
			remark = *want.Remark
		}
		if int(c.Code) != want.Code || LanguageName(c.Language) != want.Language || int(c.Version) != want.Version ||
			c.Opaque != want.Opaque || int(c.Flag) != want.Flag || c.Remark != remark || !maps.Equal(fieldMap(&c), want.ExtFields) ||
			len(c.Fields) != len(want.ExtFields) || !bytes.Equal(c.Body, f.Body()) {
			t.Errorf("%s#%d: got %+v\nwant %+v", talk, f.Number, c, want)
		}
		if c.IsResponse() != f.Response || c.IsOneway() != f.Oneway {
			t.Errorf("%s#%d: flag %d of a %+v", talk, f.Number, c.Flag, f)
		}
		checkRequestHeader(t, &c)
	}
	if frames != 3771 {
		t.Errorf("%d frames, the captures have 3771", frames)
	}
}

func checkRequestHeader(t *testing.T, c *Command) {
	t.Helper()
	if c.IsResponse() {
		return
	}
	if CodeName(c.Code) == "" {
		t.Errorf("request code %d has no name", c.Code)
	}
	switch c.Code {
	case SendMessage, SendMessageV2, SendBatchMessage:
		var h SendHeader
		if err := h.From(c); err != nil || len(h.Topic) == 0 || h.BornTime == 0 {
			t.Errorf("send %q: %+v, %v", c.Fields, h, err)
		}
	case PullMessage, LitePullMessage:
		var h PullHeader
		if err := h.From(c); err != nil || len(h.Topic) == 0 || len(h.Group) == 0 { // the Go client pulls with maxMsgNums 0
			t.Errorf("pull %q: %+v, %v", c.Fields, h, err)
		}
	}
}

// What Java wrote is written again byte for byte, but for ext fields and remarks that are there and empty, which we
// leave away. What others wrote
// has the same keys and values.
func TestRealFramesAreWrittenAgain(t *testing.T) {
	for talk, f := range fixture.Frames(t) {
		var c Command
		if err := c.Decode(f.Raw[4:]); err != nil {
			t.Fatal(err)
		}
		got := c.AppendFrame(nil)
		want := f.Raw
		if c.Serialize == JSON {
			got, want = got[8:len(got)-len(c.Body)], want[8:8+f.HeaderLen]
			want = bytes.Replace(want, []byte(`"extFields":{},`), nil, 1)
			want = bytes.Replace(want, []byte(`"remark":"",`), nil, 1)
		}
		if bytes.Equal(got, want) {
			continue
		}
		if c.Serialize != JSON || c.Language == LanguageJava {
			t.Fatalf("%s#%d:\ngot  %q\nwant %q", talk, f.Number, got, want)
		}
		if !reflect.DeepEqual(headerValues(t, got), headerValues(t, want)) {
			t.Fatalf("%s#%d:\ngot  %s\nwant %s", talk, f.Number, got, want)
		}
	}
}

// headerValues is a header without what the Go client writes though it says nothing, and without what only Java writes.
func headerValues(t *testing.T, header []byte) map[string]any {
	t.Helper()
	values := map[string]any{}
	if err := json.Unmarshal(header, &values); err != nil {
		t.Fatalf("%s: %v", header, err)
	}
	delete(values, "serializeTypeCurrentRPC")
	if values["remark"] == "" {
		delete(values, "remark")
	}
	if fields, ok := values["extFields"].(map[string]any); ok && len(fields) == 0 {
		delete(values, "extFields")
	}
	return values
}

// Real frames cut at every length are refused or, where only the body is shorter, read.
func TestRealFramesTruncated(t *testing.T) {
	seen := map[[3]int]bool{}
	for _, f := range fixture.Frames(t) {
		kind := [3]int{f.RequestCode, f.Header.Flag, int(f.Raw[4])}
		if seen[kind] {
			continue
		}
		seen[kind] = true
		frame := f.Raw[4:]
		for n := range min(len(frame), 4+f.HeaderLen+8) {
			var c Command
			err := c.Decode(frame[:n])
			if whole := n >= 4+f.HeaderLen; whole != (err == nil) {
				t.Errorf("code %d cut to %d of %d: error %v", f.RequestCode, n, len(frame), err)
			}
		}
	}
}
