package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringmq/internal/config"
	"ringmq/net/client"
	"ringmq/net/remoting"
)

// A running server takes changes over the wire, says when they take effect, follows them, and keeps them over a restart; the user's file
// stays as it is.
func TestChangesOverTheWire(t *testing.T) {
	dir := t.TempDir()
	store, conf := filepath.Join(dir, "store"), filepath.Join(dir, "broker.conf")
	ports := freePorts(t, 2)
	text := "# mine\r\nstorePathRootDir=" + store + "\nmappedFileSizeCommitLog=65536\nringmq.httpAddress=off\nringmq.poolSize=1048576\n" +
		"diskSpaceWarningLevelRatio=99\nlistenPort=" + ports[1] + "\nringmq.namesrvListenPort=" + ports[0] + "\nmaxMessageSize=1000"
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	open := func() *config.Live {
		t.Helper()
		f := flags{file: conf}
		sources, err := f.sources()
		if err != nil {
			t.Fatal(err)
		}
		sources.Check = check
		l, err := config.Open(sources)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	during := func(do func(ask func(code int32, body string, fields ...string) *remoting.Command)) {
		t.Helper()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		ready := make(chan struct{})
		out, ended := &banner{started: func() { close(ready) }}, make(chan error, 1)
		go func() { ended <- runServer(ctx, open(), quiet(), out) }()
		select {
		case <-ready:
		case err := <-ended:
			t.Fatal(err)
		}
		c, err := client.Dial(ctx, client.Options{Address: "127.0.0.1:" + ports[1]})
		if err != nil {
			t.Fatal(err)
		}
		do(func(code int32, body string, fields ...string) *remoting.Command {
			t.Helper()
			request := new(remoting.Command)
			request.Reset()
			request.Code, request.Body = code, []byte(body)
			for i := 0; i < len(fields); i += 2 {
				request.SetStr(fields[i], fields[i+1])
			}
			answer, err := c.Call(ctx, request)
			if err != nil {
				t.Fatal(err)
			}
			return answer
		})
		c.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	send := []string{"a", "PG", "b", "T", "c", "TBW102", "d", "4", "e", "0", "f", "0", "g", "1", "h", "0", "i", "", "j", "0", "k", "false", "m", "false"}
	large := strings.Repeat("x", 1500)

	during(func(ask func(code int32, body string, fields ...string) *remoting.Command) {
		if a := ask(remoting.SendMessage, large, send...); a.Code != remoting.MessageIllegal {
			t.Errorf("above the limit: %d %s", a.Code, a.Remark)
		}
		a := ask(remoting.UpdateBrokerConfig, "maxMessageSize=2000\nmaxIndexNum=1000\nflushIntervalCommitLog=50\n")
		if a.Code != 0 || a.Remark != "in effect now: maxMessageSize=2000, flushIntervalCommitLog=50; in effect after a restart: maxIndexNum=1000" {
			t.Errorf("%d %q", a.Code, a.Remark)
		}
		if a := ask(remoting.SendMessage, large, send...); a.Code != 0 {
			t.Errorf("below the new limit: %d %s", a.Code, a.Remark)
		}
		a = ask(remoting.GetBrokerConfig, "")
		if body := string(a.Body); !strings.Contains(body, "\nmaxMessageSize=2000\n") || !strings.Contains(body, "\nmaxIndexNum=20000000\n") ||
			!strings.Contains(body, "\nringmq.afterRestart=maxIndexNum=1000\n") || !strings.HasPrefix(a.Str("version"), `{"counter":1,`) {
			t.Errorf("%q\n%s", a.Fields, body)
		}
		for body, want := range map[string]int32{"deleteWhen=24": 29, "storePathRootDir=/tmp": 16, "noSuchKey=1": 29, "maxMessageSize=x\ntraceOn=false": 29} {
			if a := ask(remoting.UpdateBrokerConfig, body); a.Code != want || !strings.Contains(a.Remark, body[:strings.Index(body, "=")]) {
				t.Errorf("%q: %d %s", body, a.Code, a.Remark)
			}
		}
		if body := string(ask(remoting.GetBrokerConfig, "").Body); !strings.Contains(body, "\ntraceOn=true\n") {
			t.Error("half of a refused request was taken")
		}
	})
	during(func(ask func(code int32, body string, fields ...string) *remoting.Command) {
		if a := ask(remoting.SendMessage, large, send...); a.Code != 0 {
			t.Errorf("after a restart: %d %s", a.Code, a.Remark)
		}
	})
	if text := open().Values().String(); !strings.Contains(text, "(overrides)\nmaxIndexNum=1000\n") || !strings.Contains(text, "(file "+conf+")\nringmq.poolSize=1048576\n") {
		t.Errorf("shown:\n%s", text)
	}
	if now, err := os.ReadFile(conf); err != nil || !bytes.Equal(now, []byte(text)) {
		t.Errorf("the user's file: %q, %v", now, err)
	}
}

// Nothing that changes while the broker runs has an effect of its own at its start only: what the parts see follows the settings.
func TestTuningFollows(t *testing.T) {
	l := values(t, "flushIntervalCommitLog=7", "brokerPermission=0")
	tune := newTuning(l)
	if set := tune.set.Load(); set.flush.FlushIntervalMS != 7 || set.policy.Withheld != 6 {
		t.Errorf("%+v", set)
	}
	o := storeOptions(l, tune, quiet())
	tune.use(values(t, "flushIntervalCommitLog=8", "flushIntervalConsumeQueue=9", "deleteWhen=05"))
	if o.Flush().FlushIntervalMS != 8 || o.QueueFlush().IntervalMS != 9 || o.Retention().DeleteWhen != "05" {
		t.Errorf("flush %+v, queues %+v, retention %+v", o.Flush(), o.QueueFlush(), o.Retention())
	}
	if n := testing.AllocsPerRun(100, func() { _ = o.Flush().SyncFlushTimeoutMS }); n != 0 {
		t.Errorf("%v allocations for a look at the settings", n)
	}
}
