package index

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"ringmq/engine/message"
	"ringmq/internal/fixture"
)

// walkStore calls fn for every record of a store's log.
func walkStore(t *testing.T, dir string, fn func(r *message.Record)) {
	t.Helper()
	names, _ := filepath.Glob(filepath.Join(dir, "commitlog", "*"))
	base := message.Offset(0)
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(b); {
			var r message.Record
			kind, _ := message.Check(b[at:], base+message.Offset(at), &r)
			if kind != message.Whole && kind != message.Blank {
				break
			}
			if kind == message.Whole {
				fn(&r)
			}
			at += int(r.Size)
		}
		base += message.Offset(len(b))
	}
}

// The file that a Java broker left is made again from its log: header, every slot and every entry. 4.9.7 does not put tags, so its file is
// made again without them.
func TestFilesOfRealBrokers(t *testing.T) {
	for _, c := range []fixture.Case{{Version: "4.9.7", Name: "clean"}, {Version: "5.5.0", Name: "clean"}, {Version: "5.5.0", Name: "propcrc"}} {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			dir := fixture.Store(t, c.Version, c.Name)
			paths, _ := filepath.Glob(filepath.Join(dir, "index", "*"))
			if len(paths) != 1 {
				t.Fatalf("%d key files", len(paths))
			}
			want, err := os.ReadFile(paths[0])
			if err != nil {
				t.Fatal(err)
			}
			x := openTest(t, testOptions(t, 5000, 20000), Found{})
			walkStore(t, dir, func(r *message.Record) {
				copied := *r
				if c.Version == "4.9.7" {
					copied.Properties = message.AppendPropertiesWithout(nil, r.Properties, message.PropertyTags)
				}
				if !x.PutNext(&copied) {
					t.Fatal("not put")
				}
			})
			flush(x)
			got, err := os.ReadFile(filepath.Join(x.o.Dir, x.newest().name))
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Equal(got, want) {
				return
			}
			if len(got) != len(want) {
				t.Fatalf("%d bytes, want %d", len(got), len(want))
			}
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("differs at byte %d; header %+v, want %+v; count %d", i, decodeHeader(got), decodeHeader(want), binary.BigEndian.Uint32(want[36:]))
				}
			}
		})
	}
}
