package namesrv

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringmq/net/remoting"
)

func TestKeyValues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kvConfig.json")
	s, _ := newServer(t, Options{KVPath: path})
	conn := new(fakeConn)
	expect := func(c *remoting.Command, code int32, want string) {
		t.Helper()
		answer := ask(s, conn, c)
		if answer.Code != code || !strings.Contains(answer.Remark+answer.Str("value")+string(answer.Body), want) {
			t.Errorf("code %d: %d %s %q %s, want %d %s", c.Code, answer.Code, answer.Remark, answer.Fields, answer.Body, code, want)
		}
	}
	expect(request(remoting.GetKVConfig, "namespace", "ns", "key", "a"), remoting.QueryNotFound, `namespace "ns" has no key "a"`)
	expect(request(remoting.GetKVListByNamespace, "namespace", "ns"), remoting.QueryNotFound, "ns")
	expect(request(remoting.PutKVConfig, "namespace", "ns", "key", "a", "value", "b"), remoting.Success, "")
	expect(request(remoting.PutKVConfig, "namespace", orderNamespace, "key", "T1", "value", "broker-a:4"), remoting.Success, "")
	expect(request(remoting.PutKVConfig, "namespace", "ns"), remoting.SystemError, "key")
	expect(request(remoting.PutKVConfig, "namespace", "ns", "key", "x", "value", strings.Repeat("x", maxKVBytes)), remoting.SystemError, "at most")
	s.saving.Wait()

	s, _ = newServer(t, Options{KVPath: path, Settings: map[string]string{"orderMessageEnable": "true"}}) // what was put survives
	expect(request(remoting.GetKVConfig, "namespace", "ns", "key", "a"), remoting.Success, "b")
	expect(request(remoting.GetKVListByNamespace, "namespace", "ns"), remoting.Success, `{"table":{"a":"b"}}`)
	if answer := master().register(t, s); string(answer.Body) != `{"table":{"T1":"broker-a:4"}}` {
		t.Errorf("a broker is told %s", answer.Body)
	}
	if got := routeOf(t, s, "T1").OrderTopicConf; got != "broker-a:4" {
		t.Errorf("order configuration %q", got)
	}
	expect(request(remoting.DeleteKVConfig, "namespace", "ns", "key", "a"), remoting.Success, "")
	expect(request(remoting.DeleteKVConfig, "namespace", "ns", "key", "a"), remoting.Success, "")
	expect(request(remoting.GetKVConfig, "namespace", "ns", "key", "a"), remoting.QueryNotFound, "")
	s.saving.Wait()
	if text, err := os.ReadFile(path); err != nil || strings.Contains(string(text), "ns") {
		t.Errorf("file %s, %v", text, err)
	}
}

// A disk that hangs does not gather goroutines: what has no place is refused, and changes nothing.
func TestKeyValuesWaitForTheDisk(t *testing.T) {
	s, _ := newServer(t, Options{KVPath: filepath.Join(t.TempDir(), "kvConfig.json")})
	conn := new(fakeConn)
	for range maxSaves {
		s.places <- struct{}{}
	}
	if a := ask(s, conn, request(remoting.PutKVConfig, "namespace", "ns", "key", "a", "value", "b")); a.Code != remoting.SystemBusy {
		t.Errorf("%d %s", a.Code, a.Remark)
	}
	if value, ok := s.kv.get("ns", "a"); ok {
		t.Errorf("refused, but kept: %q", value)
	}
	<-s.places
	for range 2 { // a place that was taken is given back
		if a := ask(s, conn, request(remoting.PutKVConfig, "namespace", "ns", "key", "a", "value", "b")); a.Code != remoting.Success {
			t.Errorf("%d %s", a.Code, a.Remark)
		}
		s.saving.Wait()
	}
}

// A file as the original writes it.
func TestKeyValuesOfTheOriginal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kvConfig.json")
	const text = `{"configTable":{"ORDER_TOPIC_CONFIG":{"UnitTest":"broker-a:8"}}}`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	s, _ := newServer(t, Options{KVPath: path})
	if value, ok := s.kv.get(orderNamespace, "UnitTest"); !ok || value != "broker-a:8" {
		t.Errorf("%q, %v", value, ok)
	}
}

func TestSettings(t *testing.T) {
	s, _ := newServer(t, Options{})
	for _, test := range []struct {
		body string
		code int32
		want string
	}{
		{"waitSecondsForService=45\n", remoting.Success, ""},
		{"# a comment\n\n enableAllTopicList = false \n", remoting.Success, ""},
		{"kvConfigPath=/etc/passwd", remoting.InvalidParameter, `"kvConfigPath" is unknown`},
		{"supportActingMaster=true", remoting.InvalidParameter, "only false is possible"},
		{"listenPort=1", remoting.InvalidParameter, "only 9876"},
		{"enableTopicList=yes", remoting.InvalidParameter, "true or false"},
		{"waitSecondsForService=-1", remoting.InvalidParameter, "whole number"},
		{"junk", remoting.InvalidParameter, `"junk" is unknown`},
		{"enableTopicList=\\u12", remoting.InvalidParameter, "line 1"},
		{"enableTopicList=false\nlistenPort=1", remoting.InvalidParameter, "listenPort"},
	} {
		c := request(remoting.UpdateNamesrvConfig)
		c.Body = []byte(test.body)
		if answer := ask(s, new(fakeConn), c); answer.Code != test.code || !strings.Contains(answer.Remark, test.want) {
			t.Errorf("%q: %d %s", test.body, answer.Code, answer.Remark)
		}
	}
	shown := string(ask(s, new(fakeConn), request(remoting.GetNamesrvConfig)).Body)
	for _, line := range []string{"listenPort=9876\n", "enableAllTopicList=false\n", "enableTopicList=true\n"} {
		if !strings.Contains(shown, line) {
			t.Errorf("%s is not in\n%s", line, shown)
		}
	}
	if answer := ask(s, new(fakeConn), request(remoting.GetAllTopicListFromNameServer)); answer.Code != remoting.SystemError {
		t.Errorf("topic list that is switched off: %d", answer.Code)
	}
	if _, err := New(Options{Settings: map[string]string{"clusterTest": "true"}}); err == nil {
		t.Error("a setting that is not possible is taken")
	}
}
