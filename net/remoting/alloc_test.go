package remoting

import (
	"slices"
	"testing"
)

func TestHotPathsDoNotAllocate(t *testing.T) {
	send := frameOf(JSON, sendV2, "body")
	noRemark := slices.Replace(golden(t), 13, 13+4+2, 0, 0, 0, 0) // a remark is a string of its own
	binary := frameOf(RocketMQ, string(noRemark), "body")
	var request, answer Command
	var h SendHeader
	dst := make([]byte, 0, 1024)
	for name, run := range map[string]func(){
		"decode a send": func() {
			if request.Decode(send) != nil || h.From(&request) != nil {
				panic("send is refused")
			}
		},
		"decode a binary header": func() {
			if request.Decode(binary) != nil {
				panic("binary header is refused")
			}
		},
		"answer": func() {
			answer.Answer(&request, Success)
			answer.SetStr("msgId", "7F00000100002A9F0000000000000000")
			answer.SetInt("queueId", 3)
			answer.SetInt("queueOffset", 1<<40)
			answer.Remark = "all is \"well\""
			for _, answer.Serialize = range []Serialize{JSON, RocketMQ} {
				dst = answer.AppendFrame(dst[:0])
			}
		},
	} {
		run()
		if n := testing.AllocsPerRun(100, run); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	var asBinary Command
	if err := asBinary.Decode(frameOf(JSON, sendV2, "")); err != nil {
		b.Fatal(err)
	}
	asBinary.Serialize = RocketMQ
	for _, bench := range []struct {
		name  string
		frame []byte
	}{
		{"form=json/code=310", frameOf(JSON, sendV2, "")},
		{"form=json/code=10", frameOf(JSON, sendV1, "")},
		{"form=rocketmq/code=310", asBinary.AppendFrame(nil)[4:]},
	} {
		b.Run(bench.name, func(b *testing.B) {
			var c Command
			var h SendHeader
			b.ReportAllocs()
			b.SetBytes(int64(len(bench.frame)))
			for b.Loop() {
				if err := c.Decode(bench.frame); err != nil {
					b.Fatal(err)
				}
				if err := h.From(&c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAnswer(b *testing.B) {
	for _, form := range []Serialize{JSON, RocketMQ} {
		b.Run([]string{"form=json", "form=rocketmq"}[form], func(b *testing.B) {
			req := Command{Opaque: 77, Serialize: form}
			var answer Command
			dst := make([]byte, 0, 1024)
			b.ReportAllocs()
			for b.Loop() {
				answer.Answer(&req, Success)
				answer.SetStr("msgId", "7F00000100002A9F0000000000000000")
				answer.SetInt("queueId", 3)
				answer.SetInt("queueOffset", 123456789)
				answer.SetBool("TRACE_ON", true)
				answer.SetStr("MSG_REGION", "DefaultRegion")
				dst = answer.AppendFrame(dst[:0])
			}
		})
	}
}
