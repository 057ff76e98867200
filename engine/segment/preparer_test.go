package segment_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"ringmq/engine/segment"
	"ringmq/engine/segment/memstore"
)

// failures records what a Preparer reports.
type failures struct {
	mu   sync.Mutex
	errs []error
}

func (f *failures) failed(base int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = append(f.errs, err)
}

func (f *failures) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.errs)
}

// closeFile ends a file that came from Take or Wait, by way of a Set, the only one who may.
func closeFile(t *testing.T, f *segment.File) {
	t.Helper()
	set := openSet(t, memstore.New(), f.Size())
	set.Add(f)
	if err := set.Close(); err != nil {
		t.Error(err)
	}
}

func closePreparer(t *testing.T, p *segment.Preparer) {
	t.Helper()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestPreparerTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		p := segment.NewPreparer(segment.PreparerOptions{Storage: s, Size: fileSize, Zero: true})
		if f, ready, err := p.Take(0); f != nil || ready || err != nil {
			t.Errorf("Take of what nobody asked for: %v, %v, %v", f, ready, err)
		}
		for range 3 {
			p.Prepare(fileSize)
		}
		synctest.Wait()
		p.Prepare(fileSize)
		f, ready, err := p.Take(fileSize)
		if !ready || err != nil || f.Base() != fileSize || f.Size() != fileSize {
			t.Fatalf("Take: %v, %v, %v", f, ready, err)
		}
		if _, ready, err := p.Take(fileSize); ready || err != nil {
			t.Errorf("second Take: %v, %v", ready, err)
		}
		if err := p.Await(fileSize); err != nil {
			t.Errorf("Await of what was taken: %v", err)
		}
		if got := s.Count(memstore.OpCreate); got != 1 {
			t.Errorf("%d files made, want 1", got)
		}
		closeFile(t, f)
		closePreparer(t, p)
	})
}

func TestPreparerTakeNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		hold, entered := make(chan struct{}), make(chan struct{})
		s.Inject(&memstore.Fault{Op: memstore.OpCreate, Hold: hold, Entered: entered})
		var metrics segment.Metrics
		p := segment.NewPreparer(segment.PreparerOptions{Storage: s, Size: fileSize, Metrics: &metrics})
		p.Prepare(0)
		<-entered
		if _, ready, err := p.Take(0); ready || err != nil {
			t.Errorf("Take while it is being made: %v, %v", ready, err)
		}
		ended := make(chan error, 3)
		for range cap(ended) {
			go func() { ended <- p.Await(0) }()
		}
		synctest.Wait()
		if len(ended) != 0 {
			t.Error("Await did not wait")
		}
		close(hold)
		for range cap(ended) {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		f, ready, err := p.Take(0)
		if !ready || err != nil {
			t.Fatalf("Take: %v, %v", ready, err)
		}
		if waits := metrics.PrepareWaits.Load(); waits != 3 {
			t.Errorf("%d waits counted, want 3", waits)
		}
		closeFile(t, f)
		closePreparer(t, p)
	})
}

func TestPreparerFailsAndTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		s.Inject(&memstore.Fault{Op: memstore.OpCreate, Always: true, Err: unix.ENOSPC})
		var seen failures
		p := segment.NewPreparer(segment.PreparerOptions{Storage: s, Size: fileSize, Failed: seen.failed})
		p.Prepare(0)
		synctest.Wait()
		for range 2 {
			if _, ready, err := p.Take(0); ready || !errors.Is(err, unix.ENOSPC) {
				t.Errorf("Take: %v, %v, want %v", ready, err, unix.ENOSPC)
			}
		}
		if err := p.Await(0); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("Await: %v, want %v", err, unix.ENOSPC)
		}
		if seen.count() != 1 {
			t.Errorf("%d failures reported, want 1", seen.count())
		}
		if _, err := p.Wait(0); !errors.Is(err, unix.ENOSPC) || seen.count() != 2 {
			t.Errorf("Wait: %v after %d failures, want another attempt", err, seen.count())
		}
		s.Heal()
		p.Prepare(0)
		synctest.Wait()
		f, ready, err := p.Take(0)
		if !ready || err != nil {
			t.Fatalf("Take after there is space: %v, %v", ready, err)
		}
		closeFile(t, f)
		if f, err = p.Wait(fileSize); err != nil {
			t.Fatal(err)
		}
		closeFile(t, f)
		closePreparer(t, p)
	})
}

func TestPreparerReusesALeftover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := func(content []byte, wantErr error, wantText string) {
			t.Helper()
			s := memstore.New()
			s.Put(segment.Name(0), content)
			var metrics segment.Metrics
			p := segment.NewPreparer(segment.PreparerOptions{Storage: s, Size: fileSize, Metrics: &metrics})
			defer closePreparer(t, p)
			file, err := p.Wait(0)
			if !errors.Is(err, wantErr) {
				t.Errorf("error %v, want %v", err, wantErr)
			}
			if err != nil {
				if !strings.Contains(err.Error(), wantText) {
					t.Errorf("error %q does not contain %q", err, wantText)
				}
				if !bytes.Equal(s.Live(segment.Name(0)), content) {
					t.Error("the file was altered")
				}
				return
			}
			if metrics.PrepareReused.Load() != 1 || metrics.Prepared.Load() != 1 {
				t.Errorf("reused %d, prepared %d", metrics.PrepareReused.Load(), metrics.Prepared.Load())
			}
			closeFile(t, file)
		}
		dirty := make([]byte, fileSize)
		dirty[5000] = 1
		f(make([]byte, fileSize), nil, "")
		f(dirty, segment.ErrNotZero, segment.Name(0)+": not all zero: byte at 5000")
		f(make([]byte, 100), segment.ErrSize, "100 bytes, expected 8192")
	})
}

func TestPreparerClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spy := &closeSpy{Storage: memstore.New()}
		p := segment.NewPreparer(segment.PreparerOptions{Storage: spy, Size: fileSize})
		p.Prepare(0)
		p.Prepare(fileSize)
		synctest.Wait()
		closePreparer(t, p)
		closePreparer(t, p)
		if infos, _ := spy.List(); len(infos) != 2 {
			t.Errorf("files %v, want the two that were not taken", infos)
		}
		if _, ready, err := p.Take(0); ready || err != nil {
			t.Errorf("Take after Close: %v, %v", ready, err)
		}
		if _, err := p.Wait(3 * fileSize); !errors.Is(err, segment.ErrClosed) {
			t.Errorf("Wait after Close: %v, want %v", err, segment.ErrClosed)
		}
		p.Prepare(3 * fileSize)
	})
}

func TestPreparerCloseReleasesWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		hold, entered := make(chan struct{}), make(chan struct{})
		s.Inject(&memstore.Fault{Op: memstore.OpCreate, Hold: hold, Entered: entered})
		p := segment.NewPreparer(segment.PreparerOptions{Storage: s, Size: fileSize})
		p.Prepare(0)
		<-entered
		waited := make(chan error)
		go func() {
			_, err := p.Wait(fileSize)
			waited <- err
		}()
		synctest.Wait()
		go func() {
			synctest.Wait()
			close(hold)
		}()
		closePreparer(t, p)
		if err := <-waited; !errors.Is(err, segment.ErrClosed) || !strings.Contains(err.Error(), segment.Name(fileSize)) {
			t.Errorf("Wait: %v, want %v", err, segment.ErrClosed)
		}
	})
}

// unwritten is how many bytes of a file are holes or allocated but not written.
func unwritten(t *testing.T, path string) int64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, _ := f.Stat()
	var n int64
	for at := int64(0); at < info.Size(); {
		data, err := f.Seek(at, unix.SEEK_DATA)
		if err != nil {
			return n + info.Size() - at
		}
		n += data - at
		if at, err = f.Seek(data, unix.SEEK_HOLE); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func TestPreparerWritesZeros(t *testing.T) {
	t.Parallel()
	const size = 3<<20 + 4096
	d := newDir(t, segment.DirOptions{})
	path := filepath.Join(d.Path(), segment.Name(0))
	var metrics segment.Metrics
	options := segment.PreparerOptions{Storage: d, Size: size, Zero: true, Metrics: &metrics, ZeroBytesPerSecond: 1 << 40}
	run := func() {
		t.Helper()
		p := segment.NewPreparer(options)
		p.Prepare(0)
		for ready := false; !ready; {
			f, ok, err := p.Take(0)
			if err != nil {
				t.Fatal(err)
			}
			if ready = ok; ok {
				closeFile(t, f)
			}
		}
		closePreparer(t, p)
	}
	options.Zero = false
	run()
	if got := unwritten(t, path); got != size {
		t.Skipf("%d bytes unwritten after allocation: this file system does not tell", got)
	}
	options.Zero = true
	run() // the leftover that is only allocated is finished
	if metrics.ZeroedBytes.Load() == 0 {
		t.Skip("this file system has no O_DIRECT")
	}
	if got := unwritten(t, path); got != 0 || metrics.ZeroedBytes.Load() != size {
		t.Errorf("%d bytes unwritten, %d written, want 0, %d", got, metrics.ZeroedBytes.Load(), size)
	}
	run() // and one that is finished is only looked at
	if metrics.ZeroedBytes.Load() != size || metrics.PrepareReused.Load() != 2 {
		t.Errorf("%d bytes written in all, %d reused, want %d, 2", metrics.ZeroedBytes.Load(), metrics.PrepareReused.Load(), size)
	}
	content, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(content, make([]byte, size)) {
		t.Errorf("%d bytes, not all zero: %v", len(content), err)
	}
}

func TestPreparerFindsAByteInALeftover(t *testing.T) {
	t.Parallel()
	const size = 4 << 20
	d := newDir(t, segment.DirOptions{})
	b := create(t, d, 0, size)
	if err := b.WriteAt([][]byte{{1}}, size-1); err != nil {
		t.Fatal(err)
	}
	closeBacking(t, b)
	p := segment.NewPreparer(segment.PreparerOptions{Storage: d, Size: size})
	_, err := p.Wait(0)
	if !errors.Is(err, segment.ErrNotZero) || !strings.Contains(err.Error(), "byte at 4194303") {
		t.Errorf("error %v", err)
	}
	closePreparer(t, p)
}

// TestPreparerHurries has a rate at which the file would take an hour.
func TestPreparerHurries(t *testing.T) {
	t.Parallel()
	const size = 4 << 20
	d := newDir(t, segment.DirOptions{})
	var metrics segment.Metrics
	p := segment.NewPreparer(segment.PreparerOptions{Storage: d, Size: size, Zero: true, ZeroBytesPerSecond: 1 << 10, Metrics: &metrics})
	p.Prepare(0)
	f, err := p.Wait(0)
	if err != nil {
		t.Fatal(err)
	}
	if got := metrics.ZeroedBytes.Load(); got > 1<<20 {
		t.Errorf("%d bytes written in a hurry", got)
	}
	closeFile(t, f)

	p.Prepare(size)
	begun := time.Now()
	closePreparer(t, p)
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("Close took %v", took)
	}
	b, err := d.Open(segment.Name(0), size)
	if err != nil || !bytes.Equal(b.Bytes(), make([]byte, size)) {
		t.Fatalf("half-made file: %v", err)
	}
	closeBacking(t, b)
}
