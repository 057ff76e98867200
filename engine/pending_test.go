package engine_test

import (
	"path/filepath"
	"strings"
	"testing"

	"ringmq/engine"
	"ringmq/engine/message"
	"ringmq/internal/fixture"
)

// Stores of Java brokers with messages that wait for a service which is not built are refused by name, count and key, and left
// as they were: the Java broker that opens them next finds a clean stop.
func TestPendingMessagesAreRefused(t *testing.T) {
	cases := []struct {
		version, name string
		says          []string
	}{
		// No offset of the transaction service was saved by this one, so nothing is proven.
		{"4.9.7", "clean", []string{"RMQ_SYS_TRANS_HALF_TOPIC: 6", "SCHEDULE_TOPIC_XXXX: 2"}},
		{"5.5.0", "clean", []string{"RMQ_SYS_TRANS_HALF_TOPIC: 2", "rmq_sys_REVIVE_LOG_C1: 2", "SCHEDULE_TOPIC_XXXX: 2", "rmq_sys_wheel_timer: "}},
		{"5.5.0", "propcrc", []string{"SCHEDULE_TOPIC_XXXX: 1"}},
		{"4.9.7", "killed", []string{"SCHEDULE_TOPIC_XXXX: "}},
		{"5.5.0", "killed", []string{"SCHEDULE_TOPIC_XXXX: "}},
	}
	for _, c := range cases {
		t.Run(c.version+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			dir, want := fixture.Store(t, c.version, c.name), fixture.Expected(t, c.version, c.name)
			o := fixtureOptions(t, dir, want)
			o.AllowPending = false
			aborted := exists(t, filepath.Join(dir, "abort"))
			s, err := engine.Open(o)
			if err == nil {
				closeStore(t, s)
				t.Fatal("it was opened")
			}
			mustBe(t, err, engine.ErrPending)
			for _, part := range append(c.says, "ringmq.allowPending=true") {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("no %q in: %v", part, err)
				}
			}
			if exists(t, filepath.Join(dir, "abort")) != aborted {
				t.Errorf("the abort file was there: %v, is there: %v", aborted, !aborted)
			}
			o.AllowPending = true
			var book logBook
			o.Logger = book.logger()
			compareMessages(t, open(t, o), want, nil)
			if !book.has("level=WARN", "ringmq.allowPending", c.says[0]) {
				t.Errorf("it was not told:\n%s", book.String())
			}
		})
	}
}

// What its service has consumed is not pending, whether the settings have their keys quoted or not, and a broken file proves nothing.
func TestConsumedMessagesAreNotPending(t *testing.T) {
	const half = "RMQ_SYS_TRANS_HALF_TOPIC"
	settings := func(offset string) map[string]string {
		return map[string]string{"consumerOffset.json": `{"offsetTable":{"` + half + `@CID_RMQ_SYS_TRANS":{` + offset + `}}}`}
	}
	cases := []struct {
		name  string
		topic string
		files map[string]string
		waits bool
	}{
		{"half, no settings", half, nil, true},
		{"half, consumed", half, settings("0:3"), false},
		{"half, consumed, keys quoted", half, settings(`"0":3`), false},
		{"half, not all", half, settings("0:2"), true},
		{"half, another queue", half, settings("1:3"), true},
		{"half, broken settings", half, map[string]string{"consumerOffset.json": `{"offsetTable":{"`}, true},
		{"half, backup", half, map[string]string{
			"consumerOffset.json": "{", "consumerOffset.json.bak": settings("0:3")["consumerOffset.json"],
		}, false},
		{"schedule", "SCHEDULE_TOPIC_XXXX", map[string]string{"delayOffset.json": `{"offsetTable":{1:3}}`}, false},
		{"schedule, not all", "SCHEDULE_TOPIC_XXXX", map[string]string{"delayOffset.json": `{"offsetTable":{1:2,2:5}}`}, true},
		{"revive", "rmq_sys_REVIVE_LOG_X", nil, true},
		{"timer", "rmq_sys_wheel_timer", nil, true},
		{"timer, read and past", "rmq_sys_wheel_timer", map[string]string{"timercheck": longs(2000, 0, 3)}, false},
		{"timer, read, one to come", "rmq_sys_wheel_timer", map[string]string{"timercheck": longs(1001, 0, 3)}, true},
		{"timer, not read", "rmq_sys_wheel_timer", map[string]string{"timercheck": longs(2000, 0, 2)}, true},
		{"any other", "T", nil, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := small(t.TempDir())
			s := open(t, o)
			for _, due := range []string{"1000", "1001", "1002"} {
				m := text(c.topic, 0, "x", "")
				m.Properties = message.AppendProperty(nil, "TIMER_OUT_MS", due)
				if r := try(t, s, m); r.Status != engine.PutOK {
					t.Fatal(r.Err)
				}
			}
			closeStore(t, s)
			for name, content := range c.files {
				writeFile(t, filepath.Join(o.Dir, "config", name), []byte(content))
			}
			s, err := engine.Open(o)
			if (err != nil) != c.waits {
				t.Errorf("open: %v", err)
			}
			if err == nil {
				closeStore(t, s)
			}
		})
	}
}

func longs(values ...int) string {
	var b []byte
	for _, v := range values {
		b = append(b, unit(v, 0, 0)[:8]...)
	}
	return string(append(b, make([]byte, 4096-len(b))...))
}
