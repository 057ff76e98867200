package namesrv

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ringmq/internal/fastjson"
	"ringmq/internal/fixture"
	"ringmq/net/remoting"
)

// value is a body as JSON, without what only 5.x says.
func value(t *testing.T, body []byte, old bool) any {
	t.Helper()
	if len(body) == 0 {
		return nil
	}
	if old {
		body = bytes.ReplaceAll(body, []byte(`,"enableActingMaster":false`), nil)
	}
	var v any
	if err := fastjson.Unmarshal(body, &v); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return v
}

// replay gives the requests of a broker's conversation to s in order and compares each answer with the one that Apache's name server
// gave. It takes those of the given codes only, if any are given, and stops before the broker says goodbye; the rest is returned.
func replay(t *testing.T, s *Server, talk *fixture.Conversation, from int, conn *fakeConn, codes ...int) (next int) {
	t.Helper()
	for i := from; i < len(talk.Frames); i++ {
		f := &talk.Frames[i]
		if f.RequestCode == remoting.UnregisterBroker && i > from {
			return i
		}
		if f.Response || len(codes) > 0 && !slices.Contains(codes, f.RequestCode) {
			continue
		}
		exchange(t, s, talk, f, conn)
	}
	return len(talk.Frames)
}

// exchange gives one request to s and compares the answer, if Apache's name server gave one.
func exchange(t *testing.T, s *Server, talk *fixture.Conversation, f *fixture.Frame, conn *fakeConn) {
	t.Helper()
	var c remoting.Command
	if err := c.Decode(f.Raw[4:]); err != nil {
		t.Fatal(err)
	}
	got := ask(s, conn, &c)
	if want := answerTo(talk, f); want != nil {
		compare(t, talk, f, got, want)
	}
}

func answerTo(talk *fixture.Conversation, request *fixture.Frame) *fixture.Frame {
	for i := range talk.Frames {
		if f := &talk.Frames[i]; f.Response && f.Opaque == request.Opaque {
			return f
		}
	}
	return nil
}

func compare(t *testing.T, talk *fixture.Conversation, f *fixture.Frame, got *remoting.Command, want *fixture.Frame) {
	t.Helper()
	old := strings.Contains(talk.Capture, "4.9.7-") && !strings.Contains(talk.Capture, "server5.5.0")
	fields := map[string]string{}
	for _, field := range got.Fields {
		fields[string(field.Key)] = string(field.Value)
	}
	wantFields := want.Header.ExtFields
	if wantFields == nil {
		wantFields = map[string]string{}
	}
	if int(got.Code) != want.Header.Code || got.Opaque != want.Opaque || !maps.Equal(fields, wantFields) {
		t.Errorf("%s#%d: %d %q %s, want %d %q", talk, f.Number, got.Code, fields, got.Remark, want.Header.Code, wantFields)
		return
	}
	if !reflect.DeepEqual(value(t, got.Body, old), value(t, want.Body(), old)) {
		t.Errorf("%s#%d:\ngot  %s\nwant %s", talk, f.Number, got.Body, want.Body())
	}
	// The one broker of a capture leaves no order to choose: the bytes are the same.
	if !old && (f.RequestCode == remoting.GetRouteInfoByTopic || f.RequestCode == remoting.GetBrokerClusterInfo) &&
		!bytes.Equal(got.Body, want.Body()) {
		t.Errorf("%s#%d:\ngot  %s\nwant %s", talk, f.Number, got.Body, want.Body())
	}
}

// Real brokers and clients of both versions get from us what they got from Apache's name servers.
func TestCapturedNameServers(t *testing.T) {
	captures := map[string][]*fixture.Conversation{}
	for _, talk := range fixture.Conversations(t) {
		if talk.Listener() == "ns" && strings.HasPrefix(talk.Capture, "wire/") {
			captures[talk.Capture] = append(captures[talk.Capture], talk)
		}
	}
	if len(captures) != 8 {
		t.Errorf("%d captures", len(captures))
	}
	for name, talks := range captures {
		s, _ := newServer(t, Options{})
		conn := &fakeConn{id: 1}
		broker := slices.IndexFunc(talks, func(talk *fixture.Conversation) bool { return talk.Frames[0].RequestCode == remoting.RegisterBroker })
		if broker < 0 {
			t.Fatalf("%s: no broker registers", name)
		}
		goodbye := replay(t, s, talks[broker], 0, conn)
		routes := 0
		for _, talk := range talks {
			for i := range talk.Frames {
				f := &talk.Frames[i]
				// Clients asked while topics came and went; those they were told of are all there at the end.
				if f.Response || f.RequestCode != remoting.GetRouteInfoByTopic {
					continue
				}
				if told := answerTo(talk, f); told != nil && told.Header.Code == remoting.Success {
					exchange(t, s, talk, f, new(fakeConn))
					routes++
				}
			}
		}
		if routes == 0 {
			t.Errorf("%s: no routes", name)
		}
		replay(t, s, talks[broker], goodbye, conn)
	}
}

// Pairs of both versions: the slave learns its master from us as it did from Apache's.
func TestCapturedPairs(t *testing.T) {
	captures := map[string][]*fixture.Conversation{}
	for _, talk := range fixture.Conversations(t) {
		if talk.Listener() == "ns" && strings.HasPrefix(talk.Capture, "ha/") && talk.Frames[0].RequestCode == remoting.RegisterBroker {
			captures[talk.Capture] = append(captures[talk.Capture], talk)
		}
	}
	for name, talks := range captures {
		s, _ := newServer(t, Options{})
		masterConn, slaves := &fakeConn{id: 1}, 0
		for _, talk := range talks {
			if talk.Frames[0].Header.ExtFields["brokerId"] == "0" {
				replay(t, s, talk, 0, masterConn, remoting.RegisterBroker)
			}
		}
		for _, talk := range talks {
			if talk.Frames[0].Header.ExtFields["brokerId"] != "0" {
				slaves++
				replaySlave(t, s, talk, masterConn)
			}
		}
		if slaves == 0 {
			t.Errorf("%s: no slave", name)
		}
	}
}

// replaySlave is replay for a slave whose master may leave before it: from then on it was told of none.
func replaySlave(t *testing.T, s *Server, talk *fixture.Conversation, masterConn *fakeConn) {
	t.Helper()
	for i := range talk.Frames {
		f := &talk.Frames[i]
		if f.Response || f.RequestCode != remoting.RegisterBroker {
			continue
		}
		if want := answerTo(talk, f); want != nil && want.Header.Code == remoting.Success && len(want.Header.ExtFields) == 0 {
			s.Closed(masterConn)
		}
		exchange(t, s, talk, f, &fakeConn{id: 2})
	}
}
