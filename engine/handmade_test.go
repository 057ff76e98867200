package engine_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
)

// handmade is a store written by hand, as a Java broker could have left it: no mark of ours.
type handmade struct {
	t                    testing.TB
	dir                  string
	segmentSize, cqUnits int

	log     []byte
	records []madeRecord
	queues  map[consumequeue.ID][]byte
}

type madeRecord struct {
	at, size int
	id       consumequeue.ID
	number   int
	body     string
	timeMS   int64
}

func newHandmade(t testing.TB, segmentSize, cqUnits int) *handmade {
	return &handmade{t: t, dir: t.TempDir(), segmentSize: segmentSize, cqUnits: cqUnits, queues: map[consumequeue.ID][]byte{}}
}

// add appends a record of exactly size bytes, when size is above what the fields need.
func (h *handmade) add(queue int32, size int, timeMS int64) {
	h.t.Helper()
	m := text(testTopic, queue, fmt.Sprintf("message %d ", len(h.records)), fmt.Sprintf("KEYS\x01k k%d\x02TAGS\x01a\x02", len(h.records)))
	for m.RecordLen() < size {
		m.Body = append(m.Body, '.')
	}
	rec, err := message.AppendRecord(nil, &m)
	if err != nil {
		h.t.Fatal(err)
	}
	if used := len(h.log) % h.segmentSize; used+len(rec)+message.BlankLen > h.segmentSize {
		rest := h.segmentSize - used
		h.log = message.AppendBlank(h.log, rest)
		h.log = append(h.log, make([]byte, rest-message.BlankLen)...)
	}
	id := consumequeue.ID{Topic: testTopic, QueueID: queue}
	number := len(h.queues[id]) / 20
	made := madeRecord{at: len(h.log), size: len(rec), id: id, number: number, body: string(m.Body), timeMS: timeMS}
	message.Stamp(rec, message.QueueOffset(number), message.Offset(made.at), timeMS)
	h.log = append(h.log, rec...)
	h.records = append(h.records, made)
	h.queues[id] = append(h.queues[id], unit(made.at, made.size, message.TagsCode([]byte("a")))...)
}

func unit(at, size int, code int64) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(at))
	b = binary.BigEndian.AppendUint32(b, uint32(size))
	return binary.BigEndian.AppendUint64(b, uint64(code))
}

// write makes the files, with an abort file if the broker is to have been killed.
func (h *handmade) write(killed bool) {
	h.t.Helper()
	h.writePieces(filepath.Join(h.dir, "commitlog"), h.log, h.segmentSize)
	for id, units := range h.queues {
		h.writePieces(h.queueDir(id), units, h.cqUnits*20)
	}
	h.file("checkpoint", make([]byte, 4096))
	h.file("lock", []byte("lock"))
	if killed {
		h.file("abort", nil)
	}
}

func (h *handmade) queueDir(id consumequeue.ID) string {
	return filepath.Join(h.dir, "consumequeue", id.Topic, fmt.Sprint(id.QueueID))
}

func (h *handmade) queueFile(queue int32, file int) string {
	return filepath.Join(h.queueDir(consumequeue.ID{Topic: testTopic, QueueID: queue}), fmt.Sprintf("%020d", file*h.cqUnits*20))
}

func (h *handmade) segmentFile(i int) string {
	return filepath.Join(h.dir, "commitlog", fmt.Sprintf("%020d", i*h.segmentSize))
}

func (h *handmade) file(name string, content []byte) {
	h.t.Helper()
	writeFile(h.t, filepath.Join(h.dir, name), content)
}

func (h *handmade) writePieces(dir string, b []byte, size int) {
	h.t.Helper()
	for i := 0; i*size < len(b); i++ {
		piece := make([]byte, size)
		copy(piece, b[i*size:])
		writeFile(h.t, filepath.Join(dir, fmt.Sprintf("%020d", i*size)), piece)
	}
}

// want are the bodies of a queue, of the first n records of the store.
func (h *handmade) want(queue int32, n int) []string {
	var list []string
	for _, r := range h.records[:n] {
		if r.id.QueueID == queue {
			list = append(list, r.body)
		}
	}
	return list
}

func writeFile(t testing.TB, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// patch overwrites bytes of a file.
func patch(t testing.TB, path string, at int, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, int64(at)); err != nil {
		t.Fatal(err)
	}
}

func remove(t testing.TB, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}
