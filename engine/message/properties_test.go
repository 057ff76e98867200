package message_test

import (
	"bytes"
	"hash/crc32"
	"strings"
	"testing"

	"ringmq/engine/message"
)

// text writes properties readably: "A=1;B=2;" is A 0x01 1 0x02 B 0x01 2 0x02.
func text(s string) []byte {
	return []byte(strings.NewReplacer("=", "\x01", ";", "\x02").Replace(s))
}

func TestProperty(t *testing.T) {
	f := func(props, name, want string, wantOK bool) {
		t.Helper()
		got, ok := message.Property(text(props), name)
		if string(got) != string(text(want)) || ok != wantOK {
			t.Errorf("Property(%q, %q) = %q, %v, want %q, %v", props, name, got, ok, want, wantOK)
		}
	}
	f("A=1;B=2;", "A", "1", true)
	f("A=1;B=2;", "B", "2", true)
	f("A=1;B=2", "B", "2", true)    // the last 0x02 may be missing
	f("A=1;A=2;", "A", "2", true)   // the last one counts
	f("A=1;A=;", "A", "1", true)    // an item without value does not
	f("A=1=2;", "A", "1=2", true)   // the first 0x01 splits
	f("A==;", "A", "=", true)       // a value of one 0x01
	f("A=1;;;B=2;", "A", "1", true) // empty items
	f("AB=1;", "A", "", false)
	f("A=1;", "AB", "", false)
	f("=1;", "", "", false)
	f("A;", "A", "", false)
	f("A", "A", "", false)
	f("A=", "A", "", false)
	f("", "A", "", false)
	f(";", "A", "", false)
	f("XA=1;", "A", "", false)
}

func TestAppendProperty(t *testing.T) {
	f := func(props, name, value, want string) {
		t.Helper()
		if got := message.AppendProperty(text(props), name, value); string(got) != string(text(want)) {
			t.Errorf("AppendProperty(%q, %q, %q) = %q, want %q", props, name, value, got, text(want))
		}
	}
	f("", "A", "1", "A=1;")
	f("A=1;", "B", "2", "A=1;B=2;")
	f("A=1", "B", "2", "A=1;B=2;")
	f("A=1", "", "2", "A=1")
	f("A=1", "B", "", "A=1")
}

func TestAppendPropertiesWithout(t *testing.T) {
	f := func(props, want string, names ...string) {
		t.Helper()
		if got := message.AppendPropertiesWithout(nil, text(props), names...); string(got) != string(text(want)) {
			t.Errorf("%q without %q is %q, want %q", props, names, got, text(want))
		}
		own := text(props)
		if got := message.AppendPropertiesWithout(own[:0], own, names...); len(names) > 0 && string(got) != string(text(want)) {
			t.Errorf("%q without %q in place is %q, want %q", props, names, got, text(want))
		}
	}
	f("A=1;B=2;C=3", "A=1;C=3;", "B")
	f("A=1;B=2;A=3;", "B=2;", "A")
	f("A=1;B=2;;x;=y;C=3;", "C=3;", "A", "B")
	f("A=1;;B=2", "A=1;B=2;")
	f("", "", "A")
}

func TestVerifyPropertyCRC(t *testing.T) {
	// 0x075bcd15 is 123456789: a CRC of nine digits is padded on the right.
	digits := func(crc uint32) string {
		out := make([]byte, 10)
		for i := range out {
			out[i] = byte('0' + crc%10)
			crc /= 10
		}
		return string(out)
	}
	if got := digits(0x075bcd15); got != "9876543210" {
		t.Fatal(got)
	}
	m := messageV1()
	m.Properties = text("A=1;__CRC32#=0000000000;")
	rec := record(t, m, 1, 2, 3)
	if present, ok := message.VerifyPropertyCRC(rec); !present || ok {
		t.Errorf("wrong digits: present %v, ok %v", present, ok)
	}
	copy(rec[len(rec)-11:], digits(crc32.ChecksumIEEE(rec[:len(rec)-20])&0x7fffffff))
	if present, ok := message.VerifyPropertyCRC(rec); !present || !ok {
		t.Errorf("right digits: present %v, ok %v", present, ok)
	}
	for i := range len(rec) - 20 { // sizes may break the structure, everything else breaks the sum
		rec[i] ^= 1
		if present, ok := message.VerifyPropertyCRC(rec); present && ok {
			t.Fatalf("byte %d flipped: ok", i)
		}
		rec[i] ^= 1
	}
	if present, ok := message.VerifyPropertyCRC(record(t, messageV1(), 1, 2, 3)); present || ok {
		t.Errorf("no checksum: present %v, ok %v", present, ok)
	}
	m.Properties = text("A=1x__CRC32#=0000000000;")
	if present, _ := message.VerifyPropertyCRC(record(t, m, 1, 2, 3)); present {
		t.Errorf("part of another item is taken for a checksum")
	}
}

func FuzzProperties(f *testing.F) {
	for _, s := range []string{"A=1;B=2;", "A=1;A=2", "A=;;=;x;A==", ""} {
		f.Add(text(s))
	}
	f.Fuzz(func(t *testing.T, props []byte) {
		before := bytes.Clone(props)
		last := map[string]string{}
		for name, value := range message.Properties(props) {
			if len(name) == 0 || len(value) == 0 {
				t.Fatalf("empty item %q %q", name, value)
			}
			last[string(name)] = string(value)
		}
		var again []byte
		for name, want := range last {
			if got, ok := message.Property(props, name); !ok || string(got) != want {
				t.Fatalf("Property(%q) = %q, %v, want %q", name, got, ok, want)
			}
			again = message.AppendProperty(again, name, want)
		}
		for name, want := range last {
			if got, ok := message.Property(again, name); !ok || string(got) != want {
				t.Fatalf("written again: Property(%q) = %q, %v, want %q", name, got, ok, want)
			}
			if got := message.AppendPropertiesWithout(nil, props, name); len(got) > len(props)+1 {
				t.Fatalf("without %q grew from %d to %d", name, len(props), len(got))
			} else if _, ok := message.Property(got, name); ok {
				t.Fatalf("%q is still there", name)
			}
		}
		if !bytes.Equal(before, props) {
			t.Fatal("input changed")
		}
	})
}

func TestPropertyNoAllocation(t *testing.T) {
	props := text("KEYS=k;UNIQ_KEY=0123;TAGS=TagA;WAIT=true;")
	if n := testing.AllocsPerRun(100, func() {
		message.Property(props, message.PropertyTags)
		for range message.Properties(props) {
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkProperty(b *testing.B) {
	props := text("MSG_REGION=DefaultRegion;UNIQ_KEY=7F0000010D2C18B4AAC2000000000000;CLUSTER=DefaultCluster;WAIT=true;TAGS=TagA;TRACE_ON=true;")
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := message.Property(props, message.PropertyTags); !ok {
			b.Fatal("no tags")
		}
	}
}
