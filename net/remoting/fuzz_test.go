package remoting

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// same compares what two commands say. Text that is no UTF-8 does not survive the JSON form.
func same(a, b *Command) bool {
	return a.Code == b.Code && a.Language == b.Language && a.Version == b.Version && a.Opaque == b.Opaque && a.Flag == b.Flag &&
		a.Serialize == b.Serialize && a.Remark == b.Remark && bytes.Equal(a.Body, b.Body) &&
		slices.EqualFunc(a.Fields, b.Fields, func(x, y Field) bool { return bytes.Equal(x.Key, y.Key) && bytes.Equal(x.Value, y.Value) })
}

func isText(c *Command) bool {
	valid := utf8.ValidString(c.Remark)
	for _, f := range c.Fields {
		valid = valid && utf8.Valid(f.Key) && utf8.Valid(f.Value)
	}
	return valid
}

// checkFrame holds what is true of every frame: an error, or a command that survives being encoded and read again, and bounded memory.
func checkFrame(t *testing.T, frame []byte) {
	before := bytes.Clone(frame)
	var c, again Command
	err := c.Decode(frame)
	if !bytes.Equal(before, frame) {
		t.Fatal("decoding changed the frame")
	}
	if cap(c.scratch) > 4*len(frame)+1024 || len(c.Fields) > maxFields {
		t.Fatalf("%d bytes of scratch and %d fields for %d bytes", cap(c.scratch), len(c.Fields), len(frame))
	}
	if err != nil {
		if !strings.HasPrefix(err.Error(), "remoting: ") || len(err.Error()) > 1024 {
			t.Fatalf("error %v", err)
		}
		return
	}
	if c.Serialize == JSON && !isText(&c) {
		return
	}
	c.Remark = c.cutRemark()
	encoded := c.AppendFrame(nil)
	if err := again.Decode(encoded[4:]); err != nil {
		t.Fatalf("%q is encoded as %q, which is refused: %v", frame, encoded, err)
	}
	if !same(&c, &again) {
		t.Fatalf("%q becomes %q\n%+v\n%+v", frame, encoded, c, again)
	}
}

func FuzzCommandJSON(f *testing.F) {
	for _, header := range []string{sendV1, sendV2, `{"x":[{"y":"\ud83d\ude00"}],"extFields":{"n":null,"b":true}}`, `{}`} {
		f.Add([]byte(header))
	}
	f.Fuzz(func(t *testing.T, header []byte) {
		if len(header) <= maxHeader {
			checkFrame(t, frameOf(JSON, string(header), "body"))
		}
	})
}

func FuzzCommandBinary(f *testing.F) {
	f.Add(golden(f))
	f.Add(make([]byte, 21))
	f.Fuzz(func(t *testing.T, header []byte) {
		if len(header) <= maxHeader {
			checkFrame(t, frameOf(RocketMQ, string(header), "body"))
		}
	})
}

// FuzzSendHeader: what is read from the fields is what setting the fields from it gives again, in both spellings.
func FuzzSendHeader(f *testing.F) {
	f.Add([]byte(sendV1))
	f.Add([]byte(sendV2))
	f.Fuzz(func(t *testing.T, header []byte) {
		if len(header) > maxHeader {
			return
		}
		var c Command
		if c.Decode(frameOf(JSON, string(header), "")) != nil {
			return
		}
		var pull PullHeader
		_ = pull.From(&c)
		var h, again SendHeader
		if h.From(&c) != nil {
			return
		}
		long := Command{Code: SendMessage}
		long.SetBytes("producerGroup", h.ProducerGroup)
		long.SetBytes("topic", h.Topic)
		long.SetBytes("defaultTopic", h.DefaultTopic)
		long.SetBytes("properties", h.Properties)
		long.SetInt("defaultTopicQueueNums", int64(h.DefaultTopicQueueNums))
		long.SetInt("queueId", int64(h.QueueID))
		long.SetInt("sysFlag", int64(h.SysFlag))
		long.SetInt("flag", int64(h.Flag))
		long.SetInt("reconsumeTimes", int64(h.ReconsumeTimes))
		long.SetInt("maxReconsumeTimes", int64(h.MaxReconsumeTimes))
		long.SetInt("bornTimestamp", h.BornTime)
		long.SetBool("unitMode", h.UnitMode)
		long.SetBool("batch", h.Batch)
		if err := again.From(&long); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(h.Topic, again.Topic) || !bytes.Equal(h.Properties, again.Properties) || h.QueueID != again.QueueID ||
			h.SysFlag != again.SysFlag || h.Flag != again.Flag || h.BornTime != again.BornTime || h.UnitMode != again.UnitMode ||
			h.Batch != again.Batch || h.ReconsumeTimes != again.ReconsumeTimes || h.MaxReconsumeTimes != again.MaxReconsumeTimes ||
			h.DefaultTopicQueueNums != again.DefaultTopicQueueNums || !bytes.Equal(h.ProducerGroup, again.ProducerGroup) {
			t.Fatalf("%+v\n%+v", h, again)
		}
	})
}

// Every byte of real headers flipped, and every truncation: an error or another sound command, never a panic.
func TestDamagedFrames(t *testing.T) {
	frames := [][]byte{frameOf(JSON, sendV1, "body"), frameOf(JSON, sendV2, "body"), frameOf(RocketMQ, string(golden(t)), "body")}
	for _, frame := range frames {
		for n := range frame {
			checkFrame(t, frame[:n])
		}
		for at := range frame {
			for _, flip := range []byte{0x01, 0x20, 0x80, 0xff} {
				damaged := bytes.Clone(frame)
				damaged[at] ^= flip
				checkFrame(t, damaged)
			}
		}
	}
}
