package namesrv

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"hash/adler32"
	"hash/crc32"
	"runtime"
	"strings"
	"testing"

	"ringmq/net/remoting"
)

// piece is a length and its bytes.
func piece(text string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
}

func number(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

func deflate(t testing.TB, parts ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	if _, err := w.Write(bytes.Join(parts, nil)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// stored is a zlib stream without compression, for tests that need many.
func stored(parts ...[]byte) []byte {
	text := bytes.Join(parts, nil)
	stream := []byte{0x78, 0x01}
	for rest := text; ; {
		block := rest[:min(len(rest), 0xffff)]
		rest = rest[len(block):]
		last := byte(0)
		if len(rest) == 0 {
			last = 1
		}
		stream = append(stream, last)
		stream = binary.LittleEndian.AppendUint16(stream, uint16(len(block)))
		stream = binary.LittleEndian.AppendUint16(stream, ^uint16(len(block)))
		stream = append(stream, block...)
		if last == 1 {
			return binary.BigEndian.AppendUint32(stream, adler32.Checksum(text))
		}
	}
}

// compressedParts is a registration by hand; without the last two parts it is one of 4.x.
func compressedParts() [][]byte {
	return [][]byte{
		piece(`{"counter":7,"stateVersion":0,"timestamp":1795972745784}`),
		number(3),
		piece("TBW102 8 8 7 SINGLE_TAG {}"),
		piece("%RETRY%G 1 1 6 SINGLE_TAG"),
		piece(`Odd 4 2 2 MULTI_TAG {"+message.type":"a b"}`),
		piece(`["10.0.0.1:1","10.0.0.2:2"]`),
		number(1),
		piece(`{"bname":"broker-a","currIdMap":{0:0},"topic":"Odd"}`),
	}
}

func compressedRequest(body []byte) *remoting.Command {
	c := master().request()
	c.SetBool("compressed", true)
	c.SetInt("bodyCrc32", int64(crc32.ChecksumIEEE(body)&0x7fffffff))
	c.Body = body
	return c
}

func TestCompressedForm(t *testing.T) {
	parts := compressedParts()
	for _, test := range []struct {
		name          string
		kept, statics int
	}{{"4.x", 6, 0}, {"5.x", 8, 1}} {
		name, kept := test.name, test.kept
		reg, err := decodeRegistration(compressedRequest(deflate(t, parts[:kept]...)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if reg.version != (dataVersion{Counter: 7, Timestamp: 1795972745784}) || len(reg.topics) != 3 || len(reg.filters) != 2 ||
			reg.filters[1] != "10.0.0.2:2" || len(reg.mappings) != test.statics {
			t.Errorf("%s: %+v", name, reg)
		}
		for topic, want := range map[string]queueData{"TBW102": {8, 8, 7, 0}, "%RETRY%G": {1, 1, 6, 0}, "Odd": {4, 2, 2, 0}} {
			if reg.topics[topic] != want {
				t.Errorf("%s: %s is %+v, want %+v", name, topic, reg.topics[topic], want)
			}
		}
		if kept == 8 && string(reg.mappings["Odd"]) != `{"bname":"broker-a","currIdMap":{"0":0},"topic":"Odd"}` {
			t.Errorf("static topic %s", reg.mappings["Odd"])
		}
	}
	s, _ := newServer(t, Options{})
	if answer := ask(s, new(fakeConn), compressedRequest(deflate(t, parts...))); answer.Code != remoting.Success {
		t.Fatal(answer.Remark)
	}
	if got := routeOf(t, s, "Odd"); got == nil || got.QueueDatas[0].WriteQueueNums != 2 || len(got.FilterServerTable["127.0.0.1:10911"]) != 2 {
		t.Errorf("route %+v", got)
	}
}

func TestCompressedFormRefused(t *testing.T) {
	parts := compressedParts()
	whole := deflate(t, parts...)
	with := func(at int, part []byte) []byte {
		changed := append([][]byte{}, parts...)
		changed[at] = part
		return stored(changed...)
	}
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-1] ^= 1
	for name, test := range map[string]struct {
		body []byte
		want string
	}{
		"no zlib":            {[]byte("{}"), "zlib"},
		"wrong sum":          {flipped, "checksum"},
		"huge piece":         {with(0, number(1<<31)), "piece of 2147483648 bytes"},
		"piece too long":     {with(5, number(1000)), "filterServerList"},
		"huge count":         {with(1, number(1<<30)), "1073741824 topics"},
		"count too large":    {with(1, number(9)), "topic"},
		"version no JSON":    {with(0, piece("x")), "dataVersion"},
		"topic of two parts": {with(2, piece("T 1")), `topic "T 1" has 2 parts`},
		"topic with letters": {with(2, piece("T 1 x 6 SINGLE_TAG")), "part 2"},
		"topic without name": {with(2, piece(" 1 1 6 SINGLE_TAG")), "topic name of 0 bytes"},
		"filters no JSON":    {with(5, piece("x")), "filterServerList"},
		"mapping no JSON":    {with(7, piece("x")), "static topic 0"},
		"mapping no name":    {with(7, piece("{}")), "static topic 0 has no name"},
		"bytes behind":       {stored(append(compressedParts(), number(0))...), "bytes behind"},
	} {
		_, err := decodeRegistration(compressedRequest(test.body))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, test.want)
		}
	}
	plainBytes := bytes.Join(parts, nil)
	for n := range plainBytes {
		_, err := decodeRegistration(compressedRequest(stored(plainBytes[:n])))
		if old := n == len(bytes.Join(parts[:6], nil)); old != (err == nil) {
			t.Errorf("cut to %d of %d: error %v", n, len(plainBytes), err)
		}
	}
	for n := range whole {
		if _, err := decodeRegistration(compressedRequest(whole[:n])); n > 0 && err == nil {
			t.Errorf("stream cut to %d of %d bytes is taken", n, len(whole))
		}
	}
}

// Lengths and counts that announce gigabytes cost nothing, and what inflates without end is read up to the limit only.
func TestCompressedBombs(t *testing.T) {
	for name, body := range map[string][]byte{
		"large piece": stored(number(maxPiece)),
		"many topics": stored(piece("{}"), number(maxTopicsAtOnce)),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := decodeRegistration(compressedRequest(body))
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: %d bytes are taken", name, len(body))
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
			t.Errorf("%s: %d bytes allocated", name, grown)
		}
	}
	topic := piece("T 1 1 6 SINGLE_TAG " + strings.Repeat(" ", maxPiece/2))
	bomb := append([][]byte{piece("{}"), number(100)}, bytes.Repeat(topic, 20))
	p := &pieces{from: bytes.NewReader(bytes.Join(bomb, nil)), left: 4 * maxPiece}
	if err := new(registration).readPieces(p); err == nil || !strings.Contains(err.Error(), "topic 7 of 100") || p.left < 0 {
		t.Errorf("%d bytes left, error %v", p.left, err)
	}
}

func TestJSONFormIsBounded(t *testing.T) {
	c := master().request()
	c.Body = []byte(strings.Repeat("{", maxBrackets+1))
	if _, err := decodeRegistration(c); err == nil || !strings.Contains(err.Error(), "objects") {
		t.Errorf("error %v", err)
	}
	c.Body = []byte(`{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":null,"U":{"perm":6},"V":{"topicName":"W"}}}}`)
	reg, err := decodeRegistration(c)
	if err != nil || len(reg.topics) != 2 || reg.topics["U"].perm != 6 {
		t.Errorf("%+v, %v", reg, err)
	}
	if _, ok := reg.topics["W"]; !ok {
		t.Errorf("the name within counts: %+v", reg.topics)
	}
}

// FuzzRegisterBody: any body is refused or gives a registration within the limits that a server takes without harm.
func FuzzRegisterBody(f *testing.F) {
	parts := compressedParts()
	f.Add(true, bytes.Join(parts, nil))
	f.Add(true, bytes.Join(parts[:6], nil))
	f.Add(false, master().request().Body)
	f.Add(false, []byte(`{"topicConfigSerializeWrapper":{"dataVersion":{"counter":1},"topicQueueMappingInfoMap":{"T":{"m":{0:1}}}},"filterServerList":["x"]}`))
	f.Fuzz(func(t *testing.T, compressed bool, body []byte) {
		c := master().request()
		c.Body = body
		if compressed { // the fuzzer does not find zlib's sums by itself
			c = compressedRequest(stored(body))
		}
		reg, err := decodeRegistration(c)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "namesrv: ") {
				t.Fatalf("error %v", err)
			}
			return
		}
		if len(reg.topics) > len(body) || len(reg.mappings) > len(body) {
			t.Fatalf("%d topics of %d bytes", len(reg.topics), len(body))
		}
		s, _ := newServer(t, Options{})
		answer := ask(s, new(fakeConn), c)
		if answer.Code != remoting.Success && len(reg.topics) != 1 {
			t.Fatalf("refused: %s", answer.Remark)
		}
		for topic := range reg.topics {
			if answer.Code == remoting.Success && len(topic) > 0 {
				routeOf(t, s, topic)
			}
		}
	})
}
