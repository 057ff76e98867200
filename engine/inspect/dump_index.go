package inspect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"ringmq/engine/index"
)

// KeyEntry is one entry of a key file.
type KeyEntry struct {
	File string // its name
	index.Entry
	StoreTimeMS int64 // as far as the entry tells: to the second; 0: it does not
}

// Keys visits the entries of key files that the filter takes, file by file. With a topic, queue, key or times, an entry is taken if its
// record is, so one whose record cannot be read is left out. A file that cannot be read is passed over, and is the error.
func (s *Store) Keys(ctx context.Context, f Filter, visit func(e KeyEntry) error) error {
	var failed []error
	for i := range s.keyFiles {
		err := s.keysOf(ctx, &s.keyFiles[i], &f, visit)
		switch {
		case errors.Is(err, ErrEnough):
			return errors.Join(failed...)
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !(s.State.InUse() && errors.Is(err, fs.ErrNotExist)):
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

func (s *Store) keysOf(ctx context.Context, f *keyFile, filter *Filter, visit func(e KeyEntry) error) error {
	r, file, err := f.reader(s.IndexSlots, s.IndexEntries)
	if err != nil {
		return err
	}
	defer file.Close()
	defer r.Close()
	header := r.Header()
	byRecord := filter.byRecord() || filter.Topic != "" || filter.HasQueue
	for n := 0; ; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		e, _, ok, err := r.Next()
		if err != nil {
			return fmt.Errorf("inspect: %s: %w", f.path, err)
		}
		if !ok {
			return nil
		}
		if !filter.inRange(int64(e.Offset)) || byRecord && !s.takes(filter, int64(e.Offset)) {
			continue
		}
		entry := KeyEntry{File: f.name, Entry: e}
		if e.Number > 1 && header.BeginMS > 0 {
			entry.StoreTimeMS = header.BeginMS + 1000*int64(e.Seconds)
		}
		if err := visit(entry); err != nil {
			return err
		}
	}
}

// KeyFileSummary is one key file.
type KeyFileSummary struct {
	Name   string
	Size   int64
	Header index.Header
	Err    error
}

// KeyFiles lists the key files, in the order of their records.
func (s *Store) KeyFiles() (list []KeyFileSummary) {
	for _, f := range s.keyFiles {
		list = append(list, KeyFileSummary{f.name, f.size, f.header, f.err})
	}
	return list
}
