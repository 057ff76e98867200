package commitlog

import (
	"bytes"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"ringmq/engine/message"
)

// TestConcurrent lets producers append while one committer writes out, one flusher syncs, readers read everything between Min
// and End, and retention removes what is flushed. Every record seen is whole and in its place.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	o := testOptions(mem())
	o.PoolSize = 64 << 10
	l := started(t, o)
	const producers, each = 8, 400
	var workers, helpers sync.WaitGroup
	var stop atomic.Bool
	helper := func(f func()) {
		helpers.Go(func() {
			for !stop.Load() {
				f()
				runtime.Gosched()
			}
		})
	}
	helper(func() { // committer and flusher
		at, err := l.WriteOut()
		if err != nil {
			t.Error(err)
		}
		for _, f := range l.Unsynced(at, nil) {
			if err := f.Sync(); err != nil {
				t.Error(err)
			}
		}
		l.SetFlushed(at)
	})
	helper(func() { _ = l.RemoveFirst() }) // ErrInUse most of the time
	var seen atomic.Int64
	for range 2 {
		at := message.Offset(0)
		helper(func() { at = readOn(t, l, at, &seen) })
	}
	var next [producers]message.QueueOffset
	for p := range producers {
		workers.Go(func() {
			for i := range each {
				rec := record(t, i, 120+(i*37+p)%900)
				for {
					_, err := l.Append(rec, &next[p], nil)
					if err == nil {
						break
					}
					if !errors.Is(err, ErrBusy) || l.Room(len(rec)) != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	workers.Wait()
	stop.Store(true)
	helpers.Wait()
	for p := range next {
		if next[p] != each {
			t.Errorf("producer %d: next is %d, want %d", p, next[p], each)
		}
	}
	if seen.Load() == 0 {
		t.Error("the readers have seen nothing")
	}
}

// readOn reads one record or end record at at and returns where the next stands.
func readOn(t *testing.T, l *Log, at message.Offset, seen *atomic.Int64) message.Offset {
	v, ok := l.View(at, 1100)
	if !ok {
		if at < l.Min() {
			return l.Min() // overtaken by retention
		}
		return at
	}
	defer v.Release()
	if bytes.Equal(v.Bytes[4:8], []byte{0xcb, 0xd4, 0x31, 0x94}) {
		return (at/testSegment + 1) * testSegment
	}
	size, ok := message.Peek(v.Bytes, at)
	if !ok {
		t.Errorf("no whole record at %d: % x", at, v.Bytes[:8])
		return l.End()
	}
	seen.Add(1)
	return at + message.Offset(size)
}
