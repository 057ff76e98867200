package seal

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"ringmq/engine/message"
)

// golden is written by hand from the diagram in format.go, without the checksum.
const golden = `
	52 4d 51 53 45 41 4c 01
	00 00 00 00 00 00 00 80
	00 00 00 00 00 36 00 00
	00 00 00 00 00 12 00 00
	00 00 00 00 00 47 ff 00
	00 00 01 a2 28 25 fd 9e
	00 00 00 00 00 00 00 0b
	01 23 45 67 89 ab cd ef
	00 10 00 00
	00 00 00 02
	ff ff ff ff ff ff ff ff
	00 00 00 00 00 00 00 01
	00 00 00 00 00 36 00 00
	00 00 00 00 00 36 00 64
	00 00 00 00 00 36 00 64
	00 00 00 00 00 48 00 00`

func sample() Seal {
	return Seal{
		Base: 0x360000, Size: 0x120000, Last: 0x47ff00, LastStoreTimeMS: 1795969908126, Records: 11, Digest: 0x0123456789abcdef,
		Blocks: []uint64{1<<64 - 1, 1}, Damaged: []Stretch{{0x360000, 0x360064}, {0x360064, 0x480000}},
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

// finish sets length and checksum of body, so that only what the test spoiled is wrong.
func finish(body []byte) []byte {
	binary.BigEndian.PutUint64(body[8:], uint64(len(body)+8))
	return binary.BigEndian.AppendUint64(body, xxhash.Sum64(body))
}

func TestGolden(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := sample()
	if err := s.Save(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "00000000000003538944")
	body := fromHex(t, golden)
	want := binary.BigEndian.AppendUint64(body[:len(body):len(body)], xxhash.Sum64(body))
	if got, err := os.ReadFile(path); err != nil || string(got) != string(want) {
		t.Errorf("Save:\n got %x, %v\nwant %x", got, err, want)
	}
	if got, err := Read(path); err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("Read: got %+v, %v, want %+v", got, err, s)
	}
}

// TestDamage cuts a good file at every length, lengthens it, and changes every byte in every bit: none is believed.
func TestDamage(t *testing.T) {
	t.Parallel()
	s := sample()
	good := appendSeal(nil, &s)
	for n := range good {
		if _, err := decode(good[:n]); err == nil {
			t.Errorf("cut at %d: no error", n)
		}
	}
	if _, err := decode(append(slices.Clone(good), 0)); err == nil {
		t.Error("one byte more: no error")
	}
	for i := range good {
		for bit := range 8 {
			bad := slices.Clone(good)
			bad[i] ^= 1 << bit
			if _, err := decode(bad); err == nil {
				t.Errorf("byte %d bit %d changed: no error", i, bit)
			}
		}
	}
}

// TestContradictions has files with a right checksum and wrong values, as a mistaken writer would leave.
func TestContradictions(t *testing.T) {
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
		{"negative base", put64(16, -1), "base is -1"},
		{"base at the end of the world", put64(16, 1<<63-1), "base is 9223372036854775807"},
		{"no size", put64(24, 0), "size is 0"},
		{"size beyond what can be mapped", put64(24, 1<<31), "size is 2147483648"},
		{"another number of blocks", put64(24, 0x200001), "3 blocks and 2 damaged stretches"},
		{"last below the segment", put64(32, 0x35ffff), "last record is at 3538943"},
		{"last behind the segment", put64(32, 0x480000), "last record is at 4718592"},
		{"records without a last one", put64(32, -1), "11 records, the last one at -1"},
		{"a last one without records", put64(48, 0), "0 records, the last one at 4718336"},
		{"negative records", put64(48, -7), "-7 records"},
		{"a time without a record", func(b []byte) []byte { return put64(48, 0)(put64(32, -1)(b)) }, "store time of the last record is 1795969908126"},
		{"other blocks", put32(64, 1<<19), "length of a block is 524288"},
		{"one stretch too few", put32(68, 1), "1 damaged stretches"},
		{"too many stretches", put32(68, 1<<32-1), "4294967295 damaged stretches"},
		{"stretch before the segment", put64(88, 0x35ffff), "damaged stretch is 3538943"},
		{"empty stretch", put64(96, 0x360000), "damaged stretch is 3538944 to 3538944"},
		{"stretches that overlap", put64(104, 0x360063), "damaged stretch is 3539043"},
		{"stretch behind the segment", put64(112, 0x480001), "to 4718593"},
	} {
		_, err := decode(finish(c.spoil(fromHex(t, golden))))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %q", c.name, err, c.want)
		}
	}
	later := fromHex(t, golden)
	later[7] = 2
	if _, err := decode(finish(later)); err == nil || !strings.Contains(err.Error(), "version is 2") {
		t.Errorf("later version: got error %v, want one that names the version", err)
	}
}

func TestSaveRefusesContradiction(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, s := range []Seal{{Last: -1}, {Size: 1, Last: -1}, {Size: 1, Last: 0, Blocks: []uint64{1}}} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.HasPrefix(text, "BUG: ") {
					t.Errorf("%+v: got panic %q, want one that begins with BUG:", s, text)
				}
			}()
			_ = s.Save(dir)
		}()
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("a refused seal left %v, %v", files, err)
	}
}

// Memory stays a small multiple of the file, whatever its header claims.
func TestMemory(t *testing.T) {
	body := fromHex(t, golden)
	binary.BigEndian.PutUint64(body[24:], maxSize)
	binary.BigEndian.PutUint32(body[68:], maxDamaged)
	b := finish(body)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := decode(b)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; err == nil || got > 16<<10 {
		t.Errorf("decoding %d bytes allocated %d bytes, error %v", len(b), got, err)
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Read(Path(dir, 0)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	s := sample()
	b := appendSeal(nil, &s)
	for name, content := range map[string][]byte{
		Path(dir, s.Base+0x120000): b, // under another segment's name
		Path(dir, 0):               nil,
		Path(dir, s.Base):          b[:len(b)-1],
		Path(dir, 0x120000):        make([]byte, 1<<20),
	} {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(name); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Read(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder: %v", err)
	}
}

func segmentBytes(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i * 7 >> 3)
	}
	return b
}

func made(t testing.TB, base message.Offset, b []byte, records ...message.Record) Seal {
	t.Helper()
	m := NewMaker(base, int64(len(b)))
	for from, to := m.Next(); from < to; from, to = m.Next() {
		m.Block(b[from:to])
	}
	for i := range records {
		m.Record(&records[i])
	}
	return m.Seal()
}

// Each block is told from the others, the short last one included, and every bit counts.
func TestVerify(t *testing.T) {
	t.Parallel()
	const size = 2*BlockSize + 100
	b := segmentBytes(size)
	s := made(t, 0, b)
	if err := s.check(); err != nil || s.Last != -1 {
		t.Fatalf("%+v: %v", s, err)
	}
	for _, c := range []struct {
		flip []int
		want []int
	}{
		{nil, nil}, {[]int{0}, []int{0}}, {[]int{BlockSize - 1}, []int{0}}, {[]int{BlockSize}, []int{1}},
		{[]int{2*BlockSize - 1}, []int{1}}, {[]int{2 * BlockSize}, []int{2}}, {[]int{size - 1}, []int{2}}, {[]int{5, size - 5}, []int{0, 2}},
	} {
		for bit := range 8 {
			for _, at := range c.flip {
				b[at] ^= 1 << bit
			}
			if got := s.Verify(b); !slices.Equal(got, c.want) {
				t.Errorf("bit %d of bytes %v: blocks %v differ, want %v", bit, c.flip, got, c.want)
			}
			for _, at := range c.flip {
				b[at] ^= 1 << bit
			}
		}
	}
	for n, want := range map[int][]int{0: {0, 1, 2}, BlockSize: {1, 2}, size - 1: {2}, size: nil} {
		if got := s.Verify(b[:n]); !slices.Equal(got, want) {
			t.Errorf("of %d bytes: blocks %v differ, want %v", n, got, want)
		}
	}
	if got := s.Verify(append(b, 1)); got != nil {
		t.Errorf("with a byte behind: %v", got)
	}
	if got, want := s.Block(2), (Stretch{2 * BlockSize, size}); got != want {
		t.Errorf("block 2 is %v, want %v", got, want)
	}
}

func TestMaker(t *testing.T) {
	t.Parallel()
	b := segmentBytes(1000)
	one := message.Record{Offset: 4000, Size: 100, BodyCRC: 7, StoreTime: 50}
	two := message.Record{Offset: 4100, Size: 200, BodyCRC: 9, StoreTime: 60}
	s := made(t, 4000, b, one, two)
	if s.Records != 2 || s.Last != 4100 || s.LastStoreTimeMS != 60 || s.End() != 5000 {
		t.Errorf("%+v", s)
	}
	// Digest of the two, by hand: position, size and body checksum of each.
	want := xxhash.Sum64(fromHex(t, `
		00 00 00 00 00 00 0f a0  00 00 00 64  00 00 00 07
		00 00 00 00 00 00 10 04  00 00 00 c8  00 00 00 09`))
	if s.Digest != want {
		t.Errorf("digest is %x, want %x", s.Digest, want)
	}
	for name, change := range map[string]func(r *message.Record){
		"position": func(r *message.Record) { r.Offset++ }, "size": func(r *message.Record) { r.Size-- }, "crc": func(r *message.Record) { r.BodyCRC++ },
	} {
		other := two
		change(&other)
		if got := made(t, 4000, b, one, other); got.Digest == s.Digest {
			t.Errorf("another %s, the same digest", name)
		}
	}
	m := NewMaker(0, 1<<20)
	for i := range message.Offset(maxDamaged + 10) {
		m.Damaged(i*10, i*10+5)
	}
	m.Block(make([]byte, 1<<20))
	many := m.Seal()
	if err := many.check(); err != nil || len(many.Damaged) != maxDamaged || many.Damaged[maxDamaged-1] != (Stretch{(maxDamaged - 1) * 10, (maxDamaged+9)*10 + 5}) {
		t.Errorf("%v, %d stretches, the last %v", err, len(many.Damaged), many.Damaged[len(many.Damaged)-1])
	}
}

func TestListRemoveKeep(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "seals")
	bases := func(files []File) (list []message.Offset) {
		for _, f := range files {
			list = append(list, f.Base)
		}
		return list
	}
	if files, err := List(dir, true); err != nil || files != nil {
		t.Errorf("missing folder: %v, %v", files, err)
	}
	if err := Remove(dir, 0); err != nil {
		t.Errorf("missing folder: %v", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for base := range message.Offset(5) {
		s := made(t, base*100, segmentBytes(100))
		if err := s.Save(dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"00000000000000000700.tmp", "stray", "stray.tmp", "0000000000000000000a"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files, err := List(dir, false)
	if want := []message.Offset{0, 100, 200, 300, 400}; err != nil || !slices.Equal(bases(files), want) {
		t.Errorf("%v, %v, want %v", files, err, want)
	}
	if err := errors.Join(Remove(dir, 100), Remove(dir, 100)); err != nil {
		t.Error(err)
	}
	stay, removed, err := Keep(dir, func(base message.Offset) bool { return base >= 200 && base < 400 })
	if want := []message.Offset{200, 300}; err != nil || removed != 2 || !slices.Equal(bases(stay), want) {
		t.Errorf("%v, %d removed, %v, want %v", stay, removed, err, want)
	}
	left, err := os.ReadDir(dir)
	var names []string
	for _, entry := range left {
		names = append(names, entry.Name())
	}
	if want := "0000000000000000000a 00000000000000000200 00000000000000000300 stray stray.tmp"; err != nil || strings.Join(names, " ") != want {
		t.Errorf("left are %v, %v, want %s", names, err, want)
	}
}

func FuzzSeal(f *testing.F) {
	body := fromHex(f, golden)
	f.Add(body)
	f.Add(body[:headerLen])
	f.Add([]byte(magic))
	// The checksum is set by the target, or the fuzzer would never get past it.
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := decode(body); len(body) < headerLen {
			if err == nil {
				t.Errorf("%d bytes: no error", len(body))
			}
			return
		}
		b := finish(slices.Clone(body))
		s, err := decode(b)
		if err == nil && string(appendSeal(nil, &s)) != string(b) {
			t.Errorf("encoded again: %x, was %x", appendSeal(nil, &s), b)
		}
	})
}

// BenchmarkBlock is what the hashes of a segment cost.
func BenchmarkBlock(b *testing.B) {
	block := segmentBytes(BlockSize)
	m := NewMaker(0, maxSize)
	b.SetBytes(BlockSize)
	b.ReportAllocs()
	for b.Loop() {
		m.seal.Blocks = m.seal.Blocks[:0]
		m.Block(block)
	}
}
