package api

import (
	"slices"
	"strings"
	"testing"

	"ringmq/internal/fixture"
	"ringmq/net/remoting"
)

// TestCaptures sends what real clients sent to a real broker and compares the answers: code, ext fields there are, and the values
// that follow from the request.
func TestCaptures(t *testing.T) {
	t.Parallel()
	compared := make(map[int]int)
	for _, c := range fixture.Conversations(t) {
		if !strings.HasPrefix(c.Listener(), "broker") || !strings.Contains(c.Capture, "server5.5.0") {
			continue
		}
		b := newBroker(t)
		for i := range c.Frames {
			f := &c.Frames[i]
			if !f.FromClient || f.Response {
				continue
			}
			var request remoting.Command
			if err := request.Decode(f.Raw[4:]); err != nil {
				t.Fatalf("%s #%d: %v", c, f.Number, err)
			}
			answer := answerTo(c, f)
			if !comparable(&request) || answer == nil && !f.Oneway {
				continue
			}
			got := b.begin(&request).wait(t)
			if answer == nil { // nobody waits for it, but it must be as good
				expect(t, c.String(), got, 0)
				continue
			}
			compared[f.RequestCode]++
			var want remoting.Command
			if err := want.Decode(answer.Raw[4:]); err != nil {
				t.Fatalf("%s #%d: %v", c, answer.Number, err)
			}
			compareAnswers(t, c, f, got, &want)
		}
	}
	for _, code := range []int{10, 310, 320, 34, 35, 38, 41, 42, 30, 31, 29, 32, 17} {
		if compared[code] == 0 {
			t.Errorf("no capture of %s was compared", remoting.CodeName(int32(code)))
		}
	}
}

// answerTo is the frame that answers f, nil if there is none.
func answerTo(c *fixture.Conversation, f *fixture.Frame) *fixture.Frame {
	for i := range c.Frames {
		if a := &c.Frames[i]; a.Response && !a.FromClient && a.Opaque == f.Opaque && a.RequestCode == f.RequestCode && a.Number > f.Number {
			return a
		}
	}
	return nil
}

// comparable leaves out requests for what is not built, and those whose answer depends on what other connections did.
func comparable(c *remoting.Command) bool {
	switch c.Code {
	case 10, 310, 320:
		for _, word := range []string{"DELAY\x01", "TRAN_MSG\x01", "TIMER_"} {
			for _, f := range c.Fields {
				if strings.Contains(string(f.Value), word) {
					return false
				}
			}
		}
		return true
	case 34, 35, 38, 41, 42, 30, 31, 29, 32, 17:
		return true
	}
	return false
}

func compareAnswers(t *testing.T, c *fixture.Conversation, f *fixture.Frame, got, want *remoting.Command) {
	t.Helper()
	names := func(c *remoting.Command) (list []string) {
		for _, f := range c.Fields {
			list = append(list, string(f.Key))
		}
		slices.Sort(list)
		return list
	}
	if got.Code == 1 && f.RequestCode == 38 {
		return // the group's heartbeat came on another connection
	}
	if got.Code != want.Code || !slices.Equal(names(got), names(want)) {
		t.Errorf("%s #%d %s: answer %d %q %q, want %d %q", c, f.Number, remoting.CodeName(int32(f.RequestCode)), got.Code, got.Remark, names(got), want.Code, names(want))
		return
	}
	for _, name := range []string{"transactionId", "TRACE_ON", "MSG_REGION", "IS_SUPPORT_HEART_BEAT_V2", "IS_SUB_CHANGE"} {
		unmade := strings.Contains(f.HeaderText, "UNIQ_KEY") || name != "transactionId" // a key that the broker made is its own
		if g, w := got.Str(name), want.Str(name); unmade && g != w {
			t.Errorf("%s #%d: %s is %q, want %q", c, f.Number, name, g, w)
		}
	}
	if f.RequestCode == 41 && strings.Count(f.BodyText, "queueId") == 1 && string(got.Body) != string(want.Body) { // more have no order
		t.Errorf("%s #%d: body %s, want %s", c, f.Number, got.Body, want.Body)
	}
}
