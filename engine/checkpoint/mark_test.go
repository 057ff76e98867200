package checkpoint

import (
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// goldenMark is written by hand from the diagram in format.go, without the checksum.
const goldenMark = `
	52 4d 51 4d 41 52 4b 02
	00 00 00 00 00 00 00 7e
	00 00 00 00 40 00 00 00
	00 00 00 00 3f ff ff ff
	00 00 00 00 3f ff ff 00
	00 00 01 a2 28 25 fd 9e
	00 00 00 01
	00 00 00 02
	00 00 00 00 48 00 00 00
	00 09  54 6f 70 69 63 54 65 73 74
	00 00 00 03
	00 00 00 00 00 00 00 0a
	00 00 00 00 00 00 00 ff
	00 01  c3
	7f ff ff ff
	00 00 00 00 00 00 00 00
	00 00 00 00 00 00 00 00`

func sampleMark() Mark {
	return Mark{
		Flushed: 1 << 30, Dispatched: 1<<30 - 1, Last: 1<<30 - 256, LastStoreTimeMS: 1795969908126, Limit: 0x48000000, Clean: true,
		Queues: []QueueMark{{"TopicTest", 3, 10, 255}, {"\xc3", 1<<31 - 1, 0, 0}},
	}
}

func fromHex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// seal sets length and checksum of body so that only what the test spoiled is wrong.
func seal(body []byte) []byte {
	binary.BigEndian.PutUint64(body[8:], uint64(len(body)+8))
	return binary.BigEndian.AppendUint64(body, xxhash.Sum64(body))
}

func TestMarkGolden(t *testing.T) {
	t.Parallel()
	body := fromHex(t, goldenMark)
	want := binary.BigEndian.AppendUint64(body[:len(body):len(body)], xxhash.Sum64(body))
	m := sampleMark()
	path := filepath.Join(t.TempDir(), "mark")
	if err := m.Save(path); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != string(want) {
		t.Errorf("Save:\n got %x, %v\nwant %x", got, err, want)
	}
	got, ok, err := LoadMark(path)
	if err != nil || !ok || !reflect.DeepEqual(got, m) {
		t.Errorf("LoadMark: got %+v, %v, %v, want %+v", got, ok, err, m)
	}
}

func TestMarkRoundTrip(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "mark")
	if m, ok, err := LoadMark(path); ok || err != nil || !reflect.DeepEqual(m, Mark{}) {
		t.Errorf("absent: got %+v, %v, %v, want no mark and no error", m, ok, err)
	}
	for _, m := range []Mark{
		{Last: -1},
		{Flushed: 1, Dispatched: 1, Last: 0},
		{Flushed: 1<<63 - 1, Last: 1<<63 - 2, LastStoreTimeMS: 1<<63 - 1},
		{Last: -1, Queues: []QueueMark{{Topic: strings.Repeat("t", 65535), Max: 1<<63 - 1}}},
	} {
		if err := m.Save(path); err != nil {
			t.Fatal(err)
		}
		if got, ok, err := LoadMark(path); err != nil || !ok || !reflect.DeepEqual(got, m) {
			t.Errorf("got %+v, %v, %v, want %+v", got, ok, err, m)
		}
	}
	if _, ok, err := LoadMark(t.TempDir()); ok || err == nil {
		t.Errorf("a folder: got %v, %v, want an error", ok, err)
	}
}

// TestMarkDamage cuts a good file at every length, lengthens it, and changes every byte in every bit: none is believed.
func TestMarkDamage(t *testing.T) {
	t.Parallel()
	m := sampleMark()
	good := appendMark(nil, &m)
	for n := range good {
		if _, err := decodeMark(good[:n]); err == nil {
			t.Errorf("cut at %d: no error", n)
		}
	}
	if _, err := decodeMark(append(good[:len(good):len(good)], 0)); err == nil {
		t.Error("one byte more: no error")
	}
	for i := range good {
		for bit := range 8 {
			bad := append([]byte(nil), good...)
			bad[i] ^= 1 << bit
			if _, err := decodeMark(bad); err == nil {
				t.Errorf("byte %d bit %d changed: no error", i, bit)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "mark")
	if err := os.WriteFile(path, good[:40], 0o644); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := LoadMark(path); ok || err == nil || !strings.Contains(err.Error(), path) || !reflect.DeepEqual(got, Mark{}) {
		t.Errorf("LoadMark: got %+v, %v, %v, want an error that names %s", got, ok, err, path)
	}
}

// TestMarkContradictions has files with a right checksum and wrong values, as a mistaken writer would leave.
func TestMarkContradictions(t *testing.T) {
	t.Parallel()
	put64 := func(at int, v int64) func([]byte) []byte {
		return func(b []byte) []byte { binary.BigEndian.PutUint64(b[at:], uint64(v)); return b }
	}
	put32 := func(at int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte { binary.BigEndian.PutUint32(b[at:], v); return b }
	}
	for _, c := range []struct {
		name  string
		spoil func([]byte) []byte
		want  string
	}{
		{"negative flushed", put64(16, -1), "flushed is -1"},
		{"negative dispatched", put64(24, -1), "dispatched is -1"},
		{"dispatched beyond flushed", put64(24, 1<<30+1), "dispatched is 1073741825"},
		{"last below -1", put64(32, -2), "last record is at -2"},
		{"last at flushed", put64(32, 1<<30), "last record is at 1073741824"},
		{"negative store time", put64(40, -5), "store time of the last record is -5"},
		{"limit below flushed", put64(56, 1<<30-1), "limit is 1073741823"},
		{"negative limit", put64(56, -1), "limit is -1"},
		{"unknown flag", put32(48, 3), "flags are 0x3"},
		{"one queue too few", put32(52, 1), "23 bytes stand behind"},
		{"one queue too many", put32(52, 3), "3 queues do not fit"},
		{"absurd number of queues", put32(52, 1<<32-1), "4294967295 queues do not fit"},
		{"empty topic", func(b []byte) []byte { b[64], b[65] = 0, 0; return append(b[:66], b[75:]...) }, "topic has 0 bytes"},
		{"topic beyond the file", func(b []byte) []byte { b[64] = 0xff; return b }, "queue 0 at byte 64: cut short"},
		{"second queue cut short", func(b []byte) []byte { b[65] = 31; return b[:len(b)-1] }, "cut short"},
		{"negative queue id", put32(75, 1<<31), "id is -2147483648"},
		{"min beyond max", put64(79, 256), "min is 256"},
		{"negative min", put64(79, -1), "min is -1"},
	} {
		_, err := decodeMark(seal(c.spoil(fromHex(t, goldenMark))))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %q", c.name, err, c.want)
		}
	}
	later := fromHex(t, goldenMark)
	later[7] = 3
	if _, err := decodeMark(seal(later)); err == nil || !strings.Contains(err.Error(), "version is 3") {
		t.Errorf("later version: got error %v, want one that names the version", err)
	}
}

func TestMarkSaveRefusesContradiction(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "mark")
	for _, m := range []Mark{
		{Flushed: 1, Dispatched: 2, Last: -1},
		{Last: 0},
		{Last: -1, Queues: []QueueMark{{Topic: ""}}},
		{Last: -1, Queues: []QueueMark{{Topic: strings.Repeat("t", 65536)}}},
	} {
		func() {
			defer func() {
				if s, _ := recover().(string); !strings.HasPrefix(s, "BUG: ") {
					t.Errorf("%+v: got panic %q, want one that begins with BUG:", m, s)
				}
			}()
			m.Save(path)
		}()
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a refused mark left a file")
	}
}

// TestMarkMemory holds decoding to a small multiple of the file, whatever its header claims.
func TestMarkMemory(t *testing.T) {
	body := fromHex(t, goldenMark)
	binary.BigEndian.PutUint32(body[52:], 1<<32-1)
	b := seal(body)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := decodeMark(b)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; err == nil || got > 16<<10 {
		t.Errorf("decoding %d bytes allocated %d bytes, error %v", len(b), got, err)
	}
}

func FuzzMark(f *testing.F) {
	m := sampleMark()
	f.Add(appendMark(nil, &m)[:126-8])
	f.Add(appendMark(nil, &Mark{Last: -1})[:64])
	f.Add([]byte(markMagic))
	// The checksum is set by the target, or the fuzzer would never get past it.
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := decodeMark(body); len(body) < markHeaderLen {
			if err == nil {
				t.Errorf("%d bytes: no error", len(body))
			}
			return
		}
		b := seal(body[:len(body):len(body)])
		m, err := decodeMark(b)
		if err == nil && string(appendMark(nil, &m)) != string(b) {
			t.Errorf("encoded again: %x, was %x", appendMark(nil, &m), b)
		}
	})
}

func BenchmarkMarkSave(b *testing.B) {
	m := Mark{Flushed: 1 << 30, Last: -1}
	for id := range int32(64) {
		m.Queues = append(m.Queues, QueueMark{Topic: "TopicOfTheBenchmark", QueueID: id, Max: 1000})
	}
	path := filepath.Join(b.TempDir(), "mark")
	b.ReportAllocs()
	for b.Loop() {
		if err := m.Save(path); err != nil {
			b.Fatal(err)
		}
	}
}
