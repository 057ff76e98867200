package scrub_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ringmq/engine/commitlog"
	"ringmq/engine/message"
	"ringmq/engine/scrub"
	"ringmq/engine/seal"
	"ringmq/engine/segment"
)

const (
	mib = 1 << 20
	// size is that of the segments of these tests: two blocks and a short one.
	size = 2*mib + 300<<10
	day  = 24 * time.Hour
)

// logBook keeps what is logged.
type logBook struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (b *logBook) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lines.Write(line)
}

// take returns the lines above debug since it was called last.
func (b *logBook) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []string
	for line := range strings.Lines(b.lines.String()) {
		list = append(list, line)
	}
	b.lines.Reset()
	return list
}

// expect checks that exactly one line was logged for each item, which has all parts of it.
func (b *logBook) expect(t *testing.T, items ...[]string) {
	t.Helper()
	lines := b.take()
	if len(lines) != len(items) {
		t.Errorf("%d lines, want %d:\n%s", len(lines), len(items), strings.Join(lines, ""))
		return
	}
	for i, parts := range items {
		for _, part := range parts {
			if !strings.Contains(lines[i], part) {
				t.Errorf("line %d lacks %q:\n%s", i, part, lines[i])
			}
		}
	}
}

// rig is a log with a scrubber, in a bubble whose clock begins in the year 2000.
type rig struct {
	t        *testing.T
	dir      string
	log      *commitlog.Log
	s        *scrub.Scrubber
	book     logBook
	metrics  scrub.Metrics
	rate     atomic.Int64
	interval time.Duration
	foreign  bool
	wrap     func(segment.Storage) segment.Storage // may be nil

	next message.QueueOffset
}

func (r *rig) logDir() string           { return filepath.Join(r.dir, "commitlog") }
func (r *rig) seals() string            { return filepath.Join(r.dir, "ringmq", "seals") }
func (r *rig) path(i int) string        { return filepath.Join(r.logDir(), segment.Name(int64(i)*size)) }
func (r *rig) sealPath(i int) string    { return seal.Path(r.seals(), message.Offset(i)*size) }
func (r *rig) file(i int) *segment.File { return r.log.Segments().Find(int64(i) * size) }

// within runs a test on a log of so many full segments and one more that is begun.
func within(t *testing.T, segments int, run func(t *testing.T, r *rig)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, dir: dir, interval: day}
		r.rate.Store(mib)
		for i := range segments {
			writeSegment(t, r.path(i), message.Offset(i)*size, "first")
		}
		writeFile(t, r.path(segments), make([]byte, size))
		patch(t, r.path(segments), 0, record(t, message.Offset(segments)*size, "the last one", 100))
		r.open()
		defer r.close()
		run(t, r)
	})
}

// open opens the log, which ends behind the first record of its last segment, and makes a scrubber.
func (r *rig) open() {
	r.t.Helper()
	var storage segment.Storage
	storage, err := segment.NewDir(r.logDir(), segment.DirOptions{Writable: true})
	if err != nil {
		r.t.Fatal(err)
	}
	if r.wrap != nil {
		storage = r.wrap(storage)
	}
	r.log, err = commitlog.Open(commitlog.Options{Storage: storage, SegmentSize: size, MappedAppend: true, Now: nowMS})
	if err != nil {
		r.t.Fatal(err)
	}
	last := r.log.Segments().Last()
	end := message.Offset(last.Base() + int64(message.Size(last.Bytes())))
	stay, _, err := seal.Keep(r.seals(), func(base message.Offset) bool { return base+size <= end })
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.log.Start(end); err != nil {
		r.t.Fatal(err)
	}
	r.s = scrub.New(scrub.Options{
		Log: r.log, LogDir: r.logDir(), Dir: r.seals(), Sealed: stay, Began: end, Foreign: r.foreign, Now: nowMS, Metrics: &r.metrics,
		Settings: func() scrub.Settings {
			return scrub.Settings{BytesPerSecond: r.rate.Load(), IntervalMS: r.interval.Milliseconds()}
		},
		Logger: slog.New(slog.NewTextHandler(&r.book, nil)),
	})
}

func (r *rig) close() {
	r.s.Close()
	if err := r.log.Close(); err != nil {
		r.t.Error(err)
	}
}

// fill appends records until segment i is full.
func (r *rig) fill(i int) {
	r.t.Helper()
	for int64(r.log.End()) <= int64(i+1)*size {
		rec := record(r.t, 0, "new", bodyLen)
		_, err := r.log.Append(rec, &r.next, nil)
		if err == commitlog.ErrBusy {
			err = r.log.Room(len(rec))
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

// flush makes everything durable that was appended.
func (r *rig) flush() {
	r.t.Helper()
	end := r.log.End()
	for _, f := range r.log.Unsynced(end, nil) {
		if err := f.Sync(); err != nil {
			r.t.Fatal(err)
		}
	}
	r.log.SetFlushed(end)
	r.s.Advanced()
}

// pass lets time go by.
func (r *rig) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// sealed is the seal of a segment, which must agree with its file.
func (r *rig) sealed(i int) seal.Seal {
	r.t.Helper()
	s, err := seal.Read(r.sealPath(i))
	if err != nil {
		r.t.Fatal(err)
	}
	b, err := os.ReadFile(r.path(i))
	if err != nil {
		r.t.Fatal(err)
	}
	if differ := s.Verify(b); differ != nil {
		r.t.Errorf("blocks %v of segment %d are not as its seal says", differ, i)
	}
	return s
}

func nowMS() int64 { return time.Now().UnixMilli() }

// record is a whole record with a body of n bytes.
func record(t testing.TB, at message.Offset, word string, n int) []byte {
	t.Helper()
	body := strings.Repeat(fmt.Sprintf("%s %d ", word, at), n/len(word)+1)[:n]
	m := message.Message{
		Topic: "T", Body: []byte(body), Properties: []byte("KEYS\x01key\x02TAGS\x01tag\x02"), BornTime: 1,
		BornHost: netip.MustParseAddrPort("127.0.0.1:5000"), StoreHost: netip.MustParseAddrPort("127.0.0.1:10911"),
	}
	rec, err := message.AppendRecord(nil, &m)
	if err != nil {
		t.Fatal(err)
	}
	message.Stamp(rec, 0, at, 1_000_000+int64(at))
	return rec
}

// bodyLen of the records of full segments.
const bodyLen = 100_000

// segmentOf is a full segment: records of bodyLen, an end record, zeros.
func segmentOf(t testing.TB, base message.Offset, word string) []byte {
	t.Helper()
	var b []byte
	for {
		rec := record(t, base+message.Offset(len(b)), word, bodyLen)
		if len(b)+len(rec)+message.BlankLen > size {
			break
		}
		b = append(b, rec...)
	}
	rest := size - len(b)
	b = message.AppendBlank(b, rest)
	return append(b, make([]byte, rest-message.BlankLen)...)
}

func writeSegment(t testing.TB, path string, base message.Offset, word string) {
	t.Helper()
	writeFile(t, path, segmentOf(t, base, word))
}

// writeFile makes a file that is as old as the bubble.
func writeFile(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	date(t, path, time.Now().Add(-time.Hour))
}

func date(t testing.TB, path string, at time.Time) {
	t.Helper()
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

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

// flip changes a bit of a file.
func flip(t testing.TB, path string, at int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	patch(t, path, at, []byte{b[at] ^ 0x10})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// forget has the page cache let go of a file.
func forget(t *testing.T, f *segment.File) {
	t.Helper()
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	f.Uncache(0, f.Size())
	if slices.Contains(f.Cached(), true) {
		t.Skip("this file system keeps its pages")
	}
}
