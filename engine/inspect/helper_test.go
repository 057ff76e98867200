package inspect_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ringmq/engine"
	"ringmq/engine/consumequeue"
	"ringmq/engine/inspect"
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
		Dir: dir, SegmentSize: segmentSize, QueueFileSize: queueFileSize, PoolSize: 256 << 10, UnlockedPool: true, DiskWarningRatio: 1, PutWaitMS: 60_000,
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

// rewritten is a store with the records of another one but the first skip, in segments of another size.
func rewritten(t testing.TB, from string, size int64, skip int) string {
	t.Helper()
	dir := t.TempDir()
	var log []byte
	queues := map[consumequeue.ID][]byte{}
	s := open(t, from)
	n := 0
	err := s.Records(context.Background(), inspect.Filter{}, func(r *message.Record) error {
		if n++; n <= skip {
			return nil
		}
		m := message.Message{
			Topic: string(r.Topic), QueueID: r.QueueID, Flag: r.Flag, SysFlag: r.SysFlag, BornTime: r.BornTime, BornHost: r.BornHost, StoreHost: r.StoreHost,
			ReconsumeTimes: r.ReconsumeTimes, PreparedOffset: r.PreparedOffset, Body: r.Body, Properties: r.Properties,
		}
		record, err := message.AppendRecord(nil, &m)
		if err != nil {
			return err
		}
		if room := size - int64(len(log))%size; room < int64(len(record))+message.BlankLen {
			blank := make([]byte, room)
			binary.BigEndian.PutUint32(blank, uint32(room))
			binary.BigEndian.PutUint32(blank[4:], 0xcbd43194)
			log = append(log, blank...)
		}
		message.Stamp(record, r.QueueOffset, message.Offset(len(log)), r.StoreTime)
		id := consumequeue.ID{Topic: m.Topic, QueueID: m.QueueID}
		tags, _ := message.Property(r.Properties, message.PropertyTags)
		entry := consumequeue.Entry{Offset: message.Offset(len(log)), Size: int32(len(record)), TagsCode: message.TagsCode(tags)}
		queues[id] = append(queues[id], consumequeue.AppendEntry(nil, entry)...)
		log = append(log, record...)
		return nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	write := func(path string, b []byte, size int64) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
	}
	for at := int64(0); at < int64(len(log)); at += size {
		write(filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", at)), log[at:min(at+size, int64(len(log)))], size)
	}
	for id, b := range queues {
		write(filepath.Join(dir, "consumequeue", id.Topic, fmt.Sprint(id.QueueID), fmt.Sprintf("%020d", 0)), b, 20_000)
	}
	return dir
}
