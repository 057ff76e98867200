package consumequeue

import (
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"ringmq/engine/message"
)

// A queue is a row of units of 20 bytes, big endian, in files of one size that is a multiple of 20:
//
//	 at         bytes
//	 0  offset    8  position of the record in the log
//	 8  size      4  of the record; 0: no entry
//	12  tags      8  hash of the tags, or the time of delivery in the schedule topic
//
// The files lie in <topic>/<queue id>/, each named by the position of its first byte in the queue, 20 digits. The files of a
// queue follow each other without a gap; the first ones may have been removed. A number that never had a record holds a filler.
const (
	// EntrySize is the size of an entry in bytes.
	EntrySize = 20

	nameDigits = 20

	// maxGapEntries bounds what one entry can make us fill: its number is a field of the record that no checksum covers.
	maxGapEntries = 1 << 24
)

var filler = Entry{Offset: 0, Size: math.MaxInt32, TagsCode: 0}

// AppendEntry appends the 20 bytes of e.
func AppendEntry(dst []byte, e Entry) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(e.Offset))
	dst = binary.BigEndian.AppendUint32(dst, uint32(e.Size))
	return binary.BigEndian.AppendUint64(dst, uint64(e.TagsCode))
}

// DecodeEntry reads the entry at the start of b, which has at least 20 bytes. ok is false when none stands there.
func DecodeEntry(b []byte) (e Entry, ok bool) {
	_ = b[EntrySize-1]
	e.Offset = message.Offset(binary.BigEndian.Uint64(b))
	e.Size = int32(binary.BigEndian.Uint32(b[8:]))
	e.TagsCode = int64(binary.BigEndian.Uint64(b[12:]))
	return e, e.valid()
}

// RoundFileSize is the size that queue files really have for a configured mappedFileSizeConsumeQueue: the next multiple of 20.
func RoundFileSize(bytes int64) int64 { return (bytes + EntrySize - 1) / EntrySize * EntrySize }

func fileName(base int64) string { return fmt.Sprintf("%0*d", nameDigits, base) }

// parseFileName is the way back; ok is false for a stray name.
func parseFileName(name string) (base int64, ok bool) {
	if len(name) != nameDigits || strings.Trim(name, "0123456789") != "" {
		return 0, false
	}
	base, err := strconv.ParseInt(name, 10, 64)
	return base, err == nil
}

// parseQueueID reads the name of a queue's folder.
func parseQueueID(name string) (id int32, ok bool) {
	n, err := strconv.ParseInt(name, 10, 32)
	return int32(n), err == nil && n >= 0 && strconv.FormatInt(n, 10) == name
}

// checkID says why id cannot be the name of folders.
func checkID(id ID) error {
	name := id.Topic
	switch {
	case name == "" || name == "." || name == "..":
		return fmt.Errorf("consumequeue: topic %q cannot name a folder", name)
	case len(name) > 255:
		return fmt.Errorf("consumequeue: topic %.64q... of %d bytes, at most 255", name, len(name))
	case strings.ContainsAny(name, "/\x00"):
		return fmt.Errorf("consumequeue: topic %q contains a path separator or a zero byte", name)
	case id.QueueID < 0:
		return fmt.Errorf("consumequeue: topic %q: queue %d, must be at least 0", name, id.QueueID)
	}
	return nil
}

func (t *Table) topicDir(topic string) string { return filepath.Join(t.o.Dir, topic) }

func (t *Table) queueDir(id ID) string {
	return filepath.Join(t.o.Dir, id.Topic, strconv.Itoa(int(id.QueueID)))
}

// path is that of one file; number counts the files of a queue from 0, missing ones included.
func (t *Table) path(id ID, number int64) string {
	return filepath.Join(t.queueDir(id), fileName(number*t.o.FileSize))
}
