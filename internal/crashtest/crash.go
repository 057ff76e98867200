package crashtest

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"ringmq/engine/segment/memstore"
)

// emptyFiles: one file in so many whose name has reached the device, but none of its bytes, has not got its size either.
const emptyFiles = 4

// PowerCut returns the disk as a power cut at this moment could leave it, its folder at dir: of what is not durable each page, and each new
// name, is there with a chance of keepPercent. d is not disturbed, and not used any more by the store that comes next. The same rng state
// on the same disk gives the same result.
func (d *Disk) PowerCut(rng *rand.Rand, keepPercent int, dir string) (*Disk, error) {
	files, err := d.read()
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	next := over(d.Log.CrashClone(rng, keepPercent), dir)
	next.Inner = d.Inner
	keep := func() bool { return rng.IntN(100) < keepPercent }
	for _, path := range slices.Sorted(maps.Keys(files)) {
		content := files[path]
		if inPlace(path) {
			content = afterCrash(rng, keep, content, d.device[path])
		}
		if content == nil {
			continue
		}
		next.device[path] = content
		if err := write(filepath.Join(dir, path), content); err != nil {
			return nil, err
		}
	}
	return next, nil
}

// afterCrash is what is left of a file: live is what processes see, device what was synced last, nil: it never was. Nil: it is not there.
func afterCrash(rng *rand.Rand, keep func() bool, live, device []byte) []byte {
	if device == nil {
		if !keep() {
			return nil
		}
		if !keep() && rng.IntN(emptyFiles) == 0 {
			return []byte{}
		}
		device = make([]byte, len(live))
	} else if len(device) != len(live) {
		if !keep() {
			return device
		}
		device = append(bytes.Clone(device), make([]byte, max(len(live)-len(device), 0))...)[:len(live)]
	} else {
		device = bytes.Clone(device)
	}
	for from := 0; from < len(live); from += memstore.PageSize {
		page := live[from:min(from+memstore.PageSize, len(live))]
		if !bytes.Equal(page, device[from:from+len(page)]) {
			memstore.Tear(rng, keep, device[from:], page)
		}
	}
	return device
}

// Kill returns the disk as the end of the process leaves it: the page cache lives on. d is not disturbed.
func (d *Disk) Kill(dir string) (*Disk, error) {
	files, err := d.read()
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	next := over(d.Log.KillClone(), dir)
	next.Inner, next.device = d.Inner, maps.Clone(d.device)
	for path, content := range files {
		if err := write(filepath.Join(dir, path), content); err != nil {
			return nil, err
		}
	}
	return next, nil
}

func write(path string, content []byte) error {
	err := os.WriteFile(path, content, 0o644)
	if os.IsNotExist(err) {
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			err = os.WriteFile(path, content, 0o644)
		}
	}
	if err != nil {
		return fmt.Errorf("crashtest: %w", err)
	}
	return nil
}
