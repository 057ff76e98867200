package checkpoint

import (
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// golden checkpoints are the first 48 bytes of files that RocketMQ brokers wrote; the other 4048 were zero.
var golden = []struct {
	name, hex string
	want      Checkpoint
}{
	{"4.9.7 clean",
		"000001a22825fd9e 000001a228260698 0000000000000000 0000000000000000 0000000000000000 0000000000000000",
		Checkpoint{LogTimeMS: 1795969908126, QueueTimeMS: 1795969910424}},
	{"4.9.7 killed",
		"000001a22863507e 000001a22863507e 0000000000000000 0000000000000000 0000000000000000 0000000000000000",
		Checkpoint{LogTimeMS: 1795973927038, QueueTimeMS: 1795973927038}},
	{"5.5.0 clean",
		"000001a22855a554 000001a22855a554 0000000000000000 0000000000000000 00000000000003c4 000000000040070a",
		Checkpoint{LogTimeMS: 1795973031252, QueueTimeMS: 1795973031252, Confirmed: 964, QueueOffset: 4196106}},
	{"5.5.0 killed",
		"000001a2284dba92 0000000000000000 0000000000000000 0000000000000000 000000000006607e 0000000000000000",
		Checkpoint{LogTimeMS: 1795972512402, Confirmed: 417918}},
	{"5.5.0 killed, older",
		"000001a2285130ad 000001a2284fa30e 0000000000000000 0000000000000000 0000000000087379 0000000000087379",
		Checkpoint{LogTimeMS: 1795972739245, QueueTimeMS: 1795972637454, Confirmed: 553849, QueueOffset: 553849}},
	{"all fields", // by hand
		"0000000000000001 0000000000000102 0000000000010203 0000000001020304 0000000102030405 7fffffffffffffff",
		Checkpoint{1, 0x102, 0x10203, 0x1020304, 0x102030405, 0x7fffffffffffffff}},
}

func goldenBytes(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return append(b, make([]byte, 4096-len(b))...)
}

func write(t testing.TB, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "checkpoint")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCheckpointGolden(t *testing.T) {
	t.Parallel()
	for _, g := range golden {
		file := goldenBytes(t, g.hex)
		if got, err := Load(write(t, file)); err != nil || got != g.want {
			t.Errorf("%s: Load: got %+v, %v, want %+v", g.name, got, err, g.want)
		}
		path := filepath.Join(t.TempDir(), "checkpoint")
		if err := g.want.Save(path); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != string(file) {
			t.Errorf("%s: Save: file differs from the broker's: %x, %v", g.name, got[:48], err)
		}
	}
}

func TestCheckpointOddFiles(t *testing.T) {
	t.Parallel()
	file := goldenBytes(t, golden[len(golden)-1].hex)
	for _, n := range []int{0, 1, 7, 8, 23, 24, 47, 48, 49, 4095, 4097, 8192} {
		b := append(file[:len(file):len(file)], make([]byte, 4096)...)[:n]
		path := write(t, b)
		got, err := Load(path)
		if got != (Checkpoint{}) || err == nil ||
			!strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), strconv.Itoa(n)+" bytes") {
			t.Errorf("%d bytes: got %+v, %v, want zero values and an error that names file and size", n, got, err)
		}
	}
	missing := filepath.Join(t.TempDir(), "checkpoint")
	if got, err := Load(missing); got != (Checkpoint{}) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent: got %+v, %v, want zero values and %v", got, err, os.ErrNotExist)
	}
	if got, err := Load(t.TempDir()); got != (Checkpoint{}) || err == nil {
		t.Errorf("a folder: got %+v, %v, want zero values and an error", got, err)
	}
}

// TestCheckpointNegative makes each field negative in turn: it alone is dropped, and named.
func TestCheckpointNegative(t *testing.T) {
	t.Parallel()
	all := golden[len(golden)-1]
	for i, name := range checkpointFields {
		file := goldenBytes(t, all.hex)
		file[8*i] |= 0x80
		want := all.want.values()
		want[i] = 0
		got, err := Load(write(t, file))
		if got.values() != want {
			t.Errorf("%s negative: got %v, want %v", name, got.values(), want)
		}
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s negative: got error %v, want one that names only it", name, err)
		}
		values := all.want.values()
		values[i] = -1
		path := filepath.Join(t.TempDir(), "checkpoint")
		if err := checkpointOf(values).Save(path); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Save with %s negative: got error %v, want one that names it", name, err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("Save with %s negative left a file: %v", name, err)
		}
	}
}

func FuzzCheckpoint(f *testing.F) {
	for _, g := range golden {
		f.Add(goldenBytes(f, g.hex))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decodeCheckpoint(b)
		for i, v := range c.values() {
			if v < 0 {
				t.Errorf("%s is %d", checkpointFields[i], v)
			}
		}
		if err == nil && string(appendCheckpoint(nil, c)[:48]) != string(b[:48]) {
			t.Errorf("encoded again: %x, was %x", appendCheckpoint(nil, c)[:48], b[:48])
		}
	})
}

func TestAbort(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "abort")
	has := func(want bool) {
		t.Helper()
		if got, err := HasAbort(path); err != nil || got != want {
			t.Errorf("HasAbort: got %v, %v, want %v", got, err, want)
		}
	}
	has(false)
	for _, old := range []string{"", "1234567890123"} { // 4.9 leaves an empty one
		if err := os.WriteFile(path, []byte(old), 0o644); err != nil {
			t.Fatal(err)
		}
		has(true)
		if err := SetAbort(path); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != strconv.Itoa(os.Getpid()) {
			t.Errorf("abort holds %q, %v, want process id %d", b, err, os.Getpid())
		}
		has(true)
	}
	for range 2 {
		if err := ClearAbort(path); err != nil {
			t.Fatal(err)
		}
		has(false)
	}
	if _, err := HasAbort(filepath.Join(write(t, nil), "abort")); err == nil {
		t.Error("HasAbort below a file: no error")
	}
}
