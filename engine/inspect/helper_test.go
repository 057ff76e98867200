package inspect_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ringmq/engine"
	"ringmq/engine/message"
)

const (
	segmentSize   = 64 << 10
	queueFileSize = 2000
)

// treeOf lists every file below dir with its mode, length, time of change and the hash of its bytes.
func treeOf(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %v %d %d", path, info.Mode(), info.Size(), info.ModTime().UnixNano())
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %x", sha256.Sum256(content))
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// start opens a store of ringmq with small files.
func start(t testing.TB, dir string) *engine.Store {
	t.Helper()
	s, err := engine.Open(engine.Options{
		Dir: dir, SegmentSize: segmentSize, QueueFileSize: queueFileSize, PoolSize: 256 << 10, UnlockedPool: true, DiskWarningRatio: 1,
		IndexSlots: 250, IndexEntries: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// putter puts messages one after the other.
type putter struct {
	store   *engine.Store
	request engine.PutRequest
	done    chan engine.PutStatus
}

func newPutter(s *engine.Store) *putter {
	p := &putter{store: s, done: make(chan engine.PutStatus, 1)}
	p.request.Done = p
	return p
}

func (p *putter) PutDone(_ *engine.PutRequest, r *engine.PutResult) { p.done <- r.Status }

// put puts message number i: into one of four queues of two topics, with tags and keys.
func (p *putter) put(t testing.TB, i int) {
	t.Helper()
	p.request.Message = message.Message{
		Topic: fmt.Sprintf("Topic%d", i%2), QueueID: int32(i / 2 % 2), Body: []byte(strings.Repeat("body ", 60)), BornTime: 1,
		Properties: fmt.Appendf(nil, "TAGS\x01t%d\x02KEYS\x01k%d other\x02UNIQ_KEY\x01u%d\x02", i%3, i, i),
		BornHost:   netip.MustParseAddrPort("127.0.0.1:5000"), StoreHost: netip.MustParseAddrPort("127.0.0.1:10911"),
	}
	p.store.Put(&p.request)
	select {
	case status := <-p.done:
		if status != engine.PutOK {
			t.Errorf("put %d: status %d", i, status)
		}
	case <-time.After(20 * time.Second):
		t.Error("a put was not answered")
	}
}

// written is the folder of a store of ringmq with n messages, stopped cleanly.
func written(t testing.TB, n int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	s := start(t, dir)
	p := newPutter(s)
	for i := range n {
		p.put(t, i)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// patch overwrites bytes of a file.
func patch(t testing.TB, path string, at int64, b ...byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
