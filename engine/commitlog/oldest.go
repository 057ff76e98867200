package commitlog

import (
	"bytes"
	"fmt"
	"runtime/debug"

	"ringmq/engine/message"
	"ringmq/engine/segment"
)

// Oldest is the oldest segment.
type Oldest struct {
	Name       string
	End        message.Offset
	ModifiedMS int64 // of its file
	Left       int   // segments behind it that hold something
}

// Oldest describes the oldest segment. False if there is none but the one that is appended to.
func (l *Log) Oldest() (o Oldest, ok bool, err error) {
	first := l.set.First()
	if first == nil || l.appendedTo(first) {
		return Oldest{}, false, nil
	}
	infos, err := l.options.Storage.List()
	if err != nil {
		return Oldest{}, false, err
	}
	for _, info := range infos {
		if info.Name == first.Name() {
			end := l.end.Load()
			left := (end - first.End() + l.options.SegmentSize - 1) / l.options.SegmentSize
			return Oldest{first.Name(), message.Offset(first.End()), info.ModTime.UnixMilli(), int(left)}, true, nil
		}
	}
	return Oldest{}, false, fmt.Errorf("commitlog: segment %s is not in its folder any more", first.Name())
}

// LastStored is when the last whole record of the oldest segment was stored, in ms; 0 if there is none that can be read.
func (l *Log) LastStored() int64 {
	first := l.set.First()
	if first == nil || !first.Hold() {
		return 0
	}
	defer first.Release()
	ms, err := lastStored(first)
	if err != nil {
		l.logger.Error("commitlog: the oldest segment cannot be read", "segment", first.Name(), "error", err)
		return 0
	}
	return ms
}

// lastStored looks for the last whole record from the back: what stands behind it is no more than one that did not fit would have needed,
// while a walk from the front would read the whole segment.
func lastStored(f *segment.File) (ms int64, err error) {
	defer segment.CatchFault(&err, "commitlog: read segment "+f.Name(), debug.SetPanicOnFault(true))
	b, prefix := f.Bytes(), magicPrefix()
	var record message.Record
	for end := len(b); ; {
		i := bytes.LastIndex(b[:end], prefix)
		if i < 4 { // a record's size stands before its magic
			return 0, nil
		}
		rest, at := b[i-4:], message.Offset(f.Base()+int64(i)-4)
		if _, ok := message.Peek(rest, at); ok {
			if kind, _ := message.Check(rest, at, &record); kind == message.Whole {
				return record.StoreTime, nil
			}
		}
		end = i + len(prefix) - 1
	}
}
