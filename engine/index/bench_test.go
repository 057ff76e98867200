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

// BenchmarkLookup finds one of so many keys in a full file of the original's size, warm; the record is not read.
func BenchmarkLookup(b *testing.B) {
	x := openTest(b, testOptions(b, 5_000_000, 20_000_000), Found{})
	const keys = 19_999_998
	for i := range keys {
		if err := x.add(Hash([]byte("T"), strconv.AppendInt(nil, int64(i), 10), Key), message.Offset(i)*1000, int64(i)); err != nil {
			b.Fatal(err)
		}
	}
	flush(x)
	b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
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
}
