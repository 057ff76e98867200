package message_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ringmq/engine/message"
	"ringmq/internal/fixture"
)

// segmentEnd is how a segment ended: the first place that holds no record.
type segmentEnd struct {
	kind message.Kind
	at   message.Offset
	size int32 // of an end record
}

// walk calls each with every record of one segment file, from the start on.
func walk(t *testing.T, path string, each func(rec []byte, r *message.Record)) segmentEnd {
	t.Helper()
	base, err := strconv.ParseInt(filepath.Base(path), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	segment, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; ; {
		var r message.Record
		kind, _ := message.Check(segment[at:], message.Offset(base)+message.Offset(at), &r)
		if kind != message.Whole {
			return segmentEnd{kind, message.Offset(base) + message.Offset(at), r.Size}
		}
		each(segment[at:at+int(r.Size)], &r)
		at += int(r.Size)
	}
}

// Every record of the brokers' stores is decoded to what the broker says of it, and encoded again to the same bytes.
func TestStoresOfRealBrokers(t *testing.T) {
	t.Parallel()
	for _, c := range fixture.WholeStores() {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			e := fixture.Expected(t, c.Version, c.Name)
			expected := map[message.Offset]*fixture.Message{}
			for i := range e.Messages {
				expected[message.Offset(e.Messages[i].CommitLogOffset)] = &e.Messages[i]
			}
			records, v2 := 0, 0
			dir := fixture.Store(t, c.Version, c.Name)
			for _, end := range e.Scan.Ends {
				got := walk(t, filepath.Join(dir, "commitlog", end.File), func(rec []byte, r *message.Record) {
					records++
					if r.Magic == message.MagicV2 {
						v2++
					}
					if m := expected[r.Offset]; m != nil {
						compare(t, rec, r, m)
						delete(expected, r.Offset)
					}
					if again, err := reencode(r); err != nil || !bytes.Equal(again, rec) {
						t.Errorf("record at %d is encoded as other bytes (%v)", r.Offset, err)
					}
					if present, ok := message.VerifyPropertyCRC(rec); present != (c.Name == "propcrc") || ok != present {
						t.Errorf("record at %d: property CRC present %v, ok %v", r.Offset, present, ok)
					}
				})
				if want := message.Offset(end.Offset); got.at != want || (got.kind == message.Blank) != end.Blank || end.Blank && int64(got.size) != end.Size {
					t.Errorf("segment %s ends with %v at %d (size %d), want %+v", end.File, got.kind, got.at, got.size, end)
				}
			}
			if records != e.Scan.Records {
				t.Errorf("%d records, want %d", records, e.Scan.Records)
			}
			if len(expected) > 0 {
				t.Errorf("%d messages were not found", len(expected))
			}
			if c == (fixture.Case{Version: "5.5.0", Name: "clean"}) && v2 == 0 {
				t.Error("no V2 record seen")
			}
		})
	}
}

func compare(t *testing.T, rec []byte, r *message.Record, m *fixture.Message) {
	t.Helper()
	f := func(field string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("record at %d: %s %v, want %v", r.Offset, field, got, want)
		}
	}
	sum := func(b []byte) string { h := sha256.Sum256(b); return hex.EncodeToString(h[:]) }
	f("bytes", sum(rec), m.RecordSHA256)
	f("size", r.Size, m.StoreSize)
	f("magic", fmt.Sprintf("0x%08x", r.Magic), m.Magic)
	f("topic", string(r.Topic), m.Topic)
	f("queue id", r.QueueID, m.QueueID)
	f("queue offset", int64(r.QueueOffset), m.QueueOffset)
	f("flag", r.Flag, m.Flag)
	f("sysflag", r.SysFlag, m.SysFlag)
	f("body CRC", r.BodyCRC, m.BodyCRC)
	f("body length", len(r.Body), m.BodyLen)
	f("body", sum(r.Body), m.BodySHA256)
	f("born time", r.BornTime, m.BornTimestamp)
	f("born host", javaHost(r.BornHost.String()), javaHost(m.BornHost))
	f("store time", r.StoreTime, m.StoreTimestamp)
	f("store host", javaHost(r.StoreHost.String()), javaHost(m.StoreHost))
	f("reconsume times", r.ReconsumeTimes, m.ReconsumeTimes)
	f("prepared offset", int64(r.PreparedOffset), m.PreparedTransactionOffset)
	f("offset id", string(message.AppendOffsetID(nil, r.StoreHost, r.Offset)), m.OffsetMsgID)

	properties := map[string]string{}
	for name, value := range message.Properties(r.Properties) {
		properties[string(name)] = string(value)
	}
	if !maps.Equal(properties, m.Properties) {
		t.Errorf("record at %d: properties %q, want %q", r.Offset, properties, m.Properties)
	}
	for _, p := range []struct{ name, want string }{
		{message.PropertyTags, m.Tags}, {message.PropertyKeys, m.Keys}, {message.PropertyUniqueKey, m.UniqKey},
	} {
		got, _ := message.Property(r.Properties, p.name)
		f(p.name, string(got), p.want)
	}
	if ms, ok := message.StoreTime(rec[:message.HeadLen]); !ok || ms != m.StoreTimestamp {
		t.Errorf("record at %d: StoreTime %d, %v", r.Offset, ms, ok)
	}
}

// javaHost takes off what Java puts around an address: "/127.0.0.1:80", "/0:0:0:0:0:0:0:1:80".
func javaHost(s string) string {
	s = strings.ReplaceAll(strings.TrimPrefix(s, "/"), "[::1]", "0:0:0:0:0:0:0:1")
	return strings.NewReplacer("[", "", "]", "").Replace(s)
}

// In a damaged store every record that the broker still serves is found whole, up to where the first damage stands.
func TestTornStoresOfRealBrokers(t *testing.T) {
	t.Parallel()
	for _, c := range fixture.TornStores(t) {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			e := fixture.Expected(t, c.Version, c.Name)
			expected := map[message.Offset]*fixture.Message{}
			for i := range e.Messages {
				expected[message.Offset(e.Messages[i].CommitLogOffset)] = &e.Messages[i]
			}
			dir := fixture.Store(t, c.Version, c.Name)
			paths, _ := filepath.Glob(filepath.Join(dir, "commitlog", "*"))
			for _, path := range paths {
				walk(t, path, func(rec []byte, r *message.Record) {
					m := expected[r.Offset]
					if m == nil {
						return // cut off by the broker
					}
					sum := sha256.Sum256(rec)
					if got := hex.EncodeToString(sum[:8]); got != m.RecordSHA256 || string(r.Topic) != m.Topic ||
						r.QueueID != m.QueueID || int64(r.QueueOffset) != m.QueueOffset || r.Size != m.StoreSize {
						t.Errorf("record at %d: %+v, %s, want %+v", r.Offset, r, got, m)
					}
					delete(expected, r.Offset)
				})
			}
			if len(expected) > 0 {
				t.Errorf("%d messages were not found", len(expected))
			}
		})
	}
}
