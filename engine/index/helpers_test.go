package index

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"testing"

	"ringmq/engine/message"
)

func testOptions(t testing.TB, slots, entries int32) Options {
	t.Helper()
	dir := t.TempDir()
	now := int64(1_800_000_000_000)
	return Options{
		Dir: filepath.Join(dir, "index"), Progress: filepath.Join(dir, "indexed"), Slots: slots, Entries: entries,
		Now: func() int64 { return now },
	}
}

// everywhere believes whatever the progress says of the log.
func everywhere(clean bool) Found {
	return Found{Clean: clean, Stands: func(message.Offset, int64) bool { return true }, Within: func(message.Offset) bool { return true }}
}

func openTest(t testing.TB, o Options, found Found) *Index {
	t.Helper()
	if found.Stands == nil {
		found = everywhere(found.Clean)
	}
	x, err := Open(o, found)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

// flush is a thorough flush.
func flush(x *Index) {
	if _, due := x.Prepare(true); due {
		x.Finish()
	}
}

// keyed is a record of 1000 bytes number i, stored a second after the one before, with properties.
func keyed(i int, properties string) *message.Record {
	return &message.Record{
		Offset: message.Offset(i * 1000), Size: 1000, StoreTime: 1_700_000_000_000 + int64(i)*1000, Topic: []byte("T"),
		Properties: []byte(properties), StoreHost: netip.AddrPort{},
	}
}

func withKey(i int, key string) *message.Record { return keyed(i, "KEYS\x01"+key+"\x02") }

// find are the numbers of records that a lookup gives, newest first.
func find(t testing.TB, x *Index, key string, beginMS, endMS int64) []int {
	t.Helper()
	var list []int
	err := x.Lookup(Hash([]byte("T"), []byte(key), Key), beginMS, endMS, func(at message.Offset) bool {
		list = append(list, int(at/1000))
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

const ever = 1<<63 - 1

// book keeps what is logged.
type book struct{ bytes.Buffer }

func (b *book) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

func (b *book) lines() int { return bytes.Count(b.Bytes(), []byte("\n")) }

// fill puts n records with a key of their own each, "k0" and so on, and the key "all".
func fill(t testing.TB, x *Index, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if !x.PutNext(withKey(i, fmt.Sprintf("k%d all", i))) {
			t.Fatalf("record %d is not put", i)
		}
	}
}

// complete fails unless every record in [0, n) is found by its keys, exactly.
func complete(t testing.TB, x *Index, n int) {
	t.Helper()
	for i := range n {
		if got := find(t, x, fmt.Sprintf("k%d", i), 0, ever); len(got) != 1 || got[0] != i {
			t.Fatalf("k%d is found in %v", i, got)
		}
	}
	all := find(t, x, "all", 0, ever)
	if len(all) != n {
		t.Fatalf("%d records are found by their common key, want %d", len(all), n)
	}
	for i, got := range all {
		if got != n-1-i {
			t.Fatalf("result %d is record %d, want %d", i, got, n-1-i)
		}
	}
}
