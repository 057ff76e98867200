package scrub_test

import (
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"ringmq/engine/message"
	"ringmq/engine/segment"
)

// A segment that becomes full is sealed when it is flushed and left by the appender, not before; whatever the rate of the scrub.
func TestNewSegmentIsSealed(t *testing.T) {
	t.Parallel()
	for _, rate := range []int64{0, 1 << 20} {
		within(t, 0, func(t *testing.T, r *rig) {
			r.rate.Store(rate)
			r.s.Start()
			r.fill(0)
			r.s.Advanced()
			r.pass(time.Hour)
			if exists(r.sealPath(0)) {
				t.Fatal("a segment is sealed that the device does not have")
			}
			r.flush()
			r.pass(time.Second)
			s := r.sealed(0)
			if s.Records < 20 || s.Damaged != nil || s.LastStoreTimeMS < nowMS()-time.Hour.Milliseconds()-2000 {
				t.Errorf("%+v", s)
			}
			r.fill(2)
			r.flush()
			r.pass(time.Second)
			r.sealed(1)
			r.sealed(2)
			if exists(r.sealPath(3)) || r.metrics.Sealed.Load() != 3 {
				t.Errorf("%d sealed", r.metrics.Sealed.Load())
			}
			r.book.expect(t)
		})
	}
}

// It does not wait until the scrub, or the seal of an old segment, comes to its end.
func TestNewSegmentGoesBeforeOldOnes(t *testing.T) {
	t.Parallel()
	within(t, 2, func(t *testing.T, r *rig) {
		r.s.Start()
		r.pass(time.Minute)
		r.rate.Store(mib / 60)
		r.pass(day) // the scrub of the first segment is in its first pause
		compared := r.metrics.Compared.Load()
		r.fill(2)
		r.flush()
		r.pass(time.Second)
		r.sealed(2)
		if r.metrics.Compared.Load() != compared || compared != 0 {
			t.Error("the scrub was not under way, or has not waited")
		}
		r.pass(time.Hour)
		if r.metrics.Compared.Load() != 2 {
			t.Errorf("%d compared, want 2", r.metrics.Compared.Load())
		}
		r.book.expect(t)
	})
}

// What was not in memory is not kept there for a seal, what was stays; and the scrub leaves the page cache as it is.
func TestPageCacheIsLeftAlone(t *testing.T) {
	t.Parallel()
	within(t, 3, func(t *testing.T, r *rig) {
		forget(t, r.file(0))
		if err := r.file(1).Sync(); err != nil {
			t.Fatal(err)
		}
		r.s.Start()
		r.pass(time.Minute)
		want := []bool{false, true}
		cached := func() []bool {
			return []bool{slices.Contains(r.file(0).Cached(), true), slices.Contains(r.file(1).Cached(), true)}
		}
		if got := cached(); !slices.Equal(got, want) {
			t.Errorf("after sealing in memory: %v, want %v", got, want)
		}
		r.pass(day)
		if got := cached(); !slices.Equal(got, want) || r.metrics.Compared.Load() != 3 {
			t.Errorf("after the scrub in memory: %v, want %v; %d compared", got, want, r.metrics.Compared.Load())
		}
	})
}

// rotten is a directory whose device has other bytes in the first file than the page cache.
type rotten struct {
	segment.Storage
	at      *atomic.Int64 // -1: nowhere
	refuses *atomic.Bool  // the device cannot read it
}

func (d rotten) Open(name string, size int64) (segment.Backing, error) {
	b, err := d.Storage.Open(name, size)
	if err != nil || name != segment.Name(0) {
		return b, err
	}
	return rottenFile{b, d}, nil
}

type rottenFile struct {
	segment.Backing
	dir rotten
}

func (f rottenFile) OpenDevice() (segment.Device, error) { return rottenDevice{f}, nil }

type rottenDevice struct{ rottenFile }

func (d rottenDevice) ReadAt(b []byte, off int64) (int, error) {
	n := copy(b, d.Bytes()[off:])
	if at := d.dir.at.Load() - off; at >= 0 && at < int64(n) {
		if d.dir.refuses.Load() {
			return 0, os.ErrPermission
		}
		b[at] ^= 1
	}
	return n, nil
}

func (d rottenDevice) Direct() bool { return true }
func (d rottenDevice) Close() error { return nil }

// The device is what is looked at: rot below a page that is still in memory is found, and so is what cannot be read.
func TestTheDeviceIsRead(t *testing.T) {
	t.Parallel()
	within(t, 2, func(t *testing.T, r *rig) {
		r.close()
		var at atomic.Int64
		var refuses atomic.Bool
		at.Store(-1)
		r.wrap = func(s segment.Storage) segment.Storage { return rotten{s, &at, &refuses} }
		r.open()
		r.s.Start()
		r.pass(time.Minute)
		at.Store(mib + 77)
		r.pass(day)
		r.book.expect(t, []string{"level=ERROR", "file=" + r.path(0), "block=1 ", "offset=1048576 ", "not those that were sealed; those in the page cache still are"})
		refuses.Store(true)
		at.Store(5)
		r.pass(day)
		r.book.expect(t, []string{"level=ERROR", "block=0 ", "offset=0 ", "the device cannot read it: permission denied"})
		r.pass(day)
		at.Store(-1)
		r.pass(day)
		r.book.expect(t, []string{"level=INFO", "reads again as it was sealed"})
	})
}

// A record with zeros in its properties that a Java broker went on behind is whole in what that has left; in what we wrote ourselves it is not.
func TestZerosInProperties(t *testing.T) {
	t.Parallel()
	within(t, 1, func(t *testing.T, r *rig) {
		recLen := len(record(t, 0, "first", bodyLen))
		patch(t, r.path(0), 2*recLen-1, []byte{0})
		r.s.Start()
		r.pass(time.Minute)
		if s := r.sealed(0); s.Damaged != nil || s.Records != int64((size-message.BlankLen)/recLen) {
			t.Errorf("%+v", s)
		}
		r.fill(2)
		f := r.file(2)
		f.Bytes()[2*recLen-1] = 0
		r.flush()
		r.pass(time.Second)
		r.book.expect(t, []string{"level=ERROR", "file=" + r.path(2), "block=0 ", "no whole record stood here"})
		if s := r.sealed(2); len(s.Damaged) != 1 {
			t.Errorf("%+v", s)
		}
	})
}
