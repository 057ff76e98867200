package commitlog

import (
	"fmt"
	"log/slog"

	"ringmq/engine/message"
	"ringmq/engine/segment"
)

// repair puts right what an allocation that was cut short leaves at the end of the directory: files of length 0 go, a last
// file that is too short is filled up with zeros, and Scan judges what stands in it. Any other wrong size is refused before
// anything is changed, since most likely the store was written with another mappedFileSizeCommitLog. Stray names are left
// alone.
func repair(storage segment.Storage, size int64, logger *slog.Logger) error {
	infos, err := storage.List()
	if err != nil {
		return fmt.Errorf("commitlog: list segments: %w", err)
	}
	files := infos[:0]
	for _, info := range infos {
		if _, ok := segment.ParseName(info.Name); ok {
			files = append(files, info)
		}
	}
	empty := files[len(files):]
	for len(files) > 0 && files[len(files)-1].Size == 0 {
		files, empty = files[:len(files)-1], files[len(files)-1:len(files)+len(empty)]
	}
	for i, info := range files {
		if err := checkFile(info, size, i == len(files)-1); err != nil {
			return err
		}
	}
	for i := len(empty) - 1; i >= 0; i-- {
		if err := storage.Remove(empty[i].Name); err != nil {
			return fmt.Errorf("commitlog: remove empty segment %s: %w", empty[i].Name, err)
		}
		logger.Warn("removed a segment of 0 bytes from the end of the commit log", "segment", empty[i].Name)
	}
	if len(files) == 0 || files[len(files)-1].Size == size {
		return nil
	}
	last := files[len(files)-1]
	if err := storage.Resize(last.Name, size); err != nil {
		return fmt.Errorf("commitlog: fill up segment %s: %w", last.Name, err)
	}
	logger.Warn("filled up a short segment at the end of the commit log with zeros",
		"segment", last.Name, "bytes", last.Size, "mappedFileSizeCommitLog", size)
	return nil
}

// checkFile says whether a store with segments of size can hold this file. Only the last one may be shorter.
func checkFile(info segment.Info, size int64, last bool) error {
	if info.Size < size && !last {
		return fmt.Errorf("commitlog: segment %s has %d bytes, but mappedFileSizeCommitLog=%d and it is not the last one: "+
			"bring back the whole file, or fill it up (truncate -s %d), then what it lacks is damage that is passed over", info.Name, info.Size, size, size)
	}
	if info.Size > size {
		return fmt.Errorf("commitlog: segment %s has %d bytes, but mappedFileSizeCommitLog=%d", info.Name, info.Size, size)
	}
	if base, _ := segment.ParseName(info.Name); base%size != 0 {
		return fmt.Errorf("commitlog: segment %s does not begin at a multiple of mappedFileSizeCommitLog=%d", info.Name, size)
	}
	return nil
}

// Refresh makes the names of the segments durable, and everything that stands in the files from position from on, and with drop it makes sure that what is read there
// comes from the device: an earlier process may have left pages in the cache that the device never took. An error means that bytes
// were lost, or may be; when it is opened the next time the log shows what the device has. Before anything is read or written.
func (l *Log) Refresh(from message.Offset, drop bool) error {
	// A process that was killed while it made a segment ahead may have left a name that a power cut takes away, with what is appended now.
	if err := l.options.Storage.Settle(); err != nil {
		return fmt.Errorf("commitlog: names of segments: %w", err)
	}
	for _, f := range l.set.Files() {
		if f.End() <= int64(from) {
			continue
		}
		err := error(nil)
		if drop {
			err = f.Refresh(max(int64(from)-f.Base(), 0))
		} else {
			err = f.Sync()
		}
		if err != nil {
			return fmt.Errorf("commitlog: the device may not have what was written behind %d before this start; the next start shows what it has: %w", from, err)
		}
	}
	return nil
}
