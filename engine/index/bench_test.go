package index

import (
	"fmt"
	"strconv"
	"testing"

	"ringmq/engine/message"
)

// BenchmarkPut is one record with a unique key, a key and tags: three entries, in a file of the original's size. With flush it is also
// flushed, as with every 128 MiB of log, which in a store another goroutine does.
func BenchmarkPut(b *testing.B) {
	for _, flushed := range []bool{false, true} {
		b.Run(fmt.Sprintf("flush=%v", flushed), func(b *testing.B) {
			x := openTest(b, testOptions(b, 5_000_000, 20_000_000), Found{})
			r := keyed(0, "")
			properties := make([]byte, 0, 200)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				properties = append(properties[:0], "UNIQ_KEY\x017F0000011CC54E0E2F2A93C7"...)
				properties = strconv.AppendInt(properties, int64(i), 16)
				properties = append(properties, "\x02KEYS\x01order-"...)
				properties = strconv.AppendInt(properties, int64(i), 10)
				properties = append(properties, "\x02TAGS\x01TagA\x02"...)
				r.Offset, r.Properties = message.Offset(i)*1000, properties
				if !x.Put(r) {
					b.Fatal("not put")
				}
				if flushed && i%(flushBytes/1000) == flushBytes/1000-1 {
					flush(x)
				}
			}
		})
	}
}

// BenchmarkFullFile has as many keys as a file of the original's size, warm: to find one (the record is not read), and to open the index after a
// clean stop and after a kill.
func BenchmarkFullFile(b *testing.B) {
	o := testOptions(b, 5_000_000, 20_000_000)
	x := openTest(b, o, Found{})
	const keys = 19_999_998
	for i := range keys {
		if err := x.add(Hash([]byte("T"), strconv.AppendInt(nil, int64(i), 10), Key), message.Offset(i)*1000, int64(i)); err != nil {
			b.Fatal(err)
		}
	}
	x.next = keys * 1000
	flush(x)
	b.Run("lookup", func(b *testing.B) {
		b.ReportAllocs()
		found := 0
		for i := 0; b.Loop(); i++ {
			key := strconv.AppendInt(nil, int64(i)*7919%keys, 10)
			err := x.Lookup(Hash([]byte("T"), key, Key), 0, ever, func(message.Offset) bool { found++; return true })
			if err != nil {
				b.Fatal(err)
			}
		}
		if found < b.N {
			b.Fatalf("%d found in %d lookups", found, b.N)
		}
	})
	if err := x.Close(); err != nil {
		b.Fatal(err)
	}
	for _, clean := range []bool{true, false} {
		b.Run(fmt.Sprintf("open/clean=%v", clean), func(b *testing.B) {
			for b.Loop() {
				x := openTest(b, o, Found{Clean: clean})
				if x.Next() != keys*1000 {
					b.Fatalf("it was built anew, from %d on", x.Next())
				}
				x.Close()
			}
		})
	}
}
