package consumequeue_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
)

const (
	perFile  = 50 // entries of a file in most tests
	fileSize = perFile * consumequeue.EntrySize
)

var zero = consumequeue.ID{Topic: "T", QueueID: 0}

// entry is a made-up entry of the n-th record of 100 bytes.
func entry(n int) consumequeue.Entry {
	return consumequeue.Entry{Offset: message.Offset(n) * 100, Size: 100, TagsCode: int64(n) * 7}
}

func open(t testing.TB, o consumequeue.Options) *consumequeue.Table {
	t.Helper()
	if o.FileSize == 0 {
		o.FileSize = fileSize
	}
	table, err := consumequeue.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func put(t testing.TB, q *consumequeue.Queue, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		if err := q.Put(message.QueueOffset(n), entry(n)); err != nil {
			t.Fatal(err)
		}
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// all reads every entry from First on, a few at a time.
func all(t testing.TB, q *consumequeue.Queue) []consumequeue.Entry {
	t.Helper()
	var got []consumequeue.Entry
	var some [17]consumequeue.Entry
	for at := q.First(); at < q.Max(); {
		n, err := q.Read(at, some[:])
		if err != nil || n == 0 {
			t.Fatalf("read at %d of %d: %d entries, %v", at, q.Max(), n, err)
		}
		got = append(got, some[:n]...)
		at += message.QueueOffset(n)
	}
	return got
}

// expect says that the queue holds entries from to to, and no more.
func expect(t testing.TB, q *consumequeue.Queue, from, to int) {
	t.Helper()
	if q == nil {
		t.Fatal("no such queue")
	}
	if q.First() != message.QueueOffset(from) || q.Max() != message.QueueOffset(to) {
		t.Fatalf("queue from %d to %d, want %d to %d", q.First(), q.Max(), from, to)
	}
	for i, got := range all(t, q) {
		if want := entry(from + i); got != want {
			t.Fatalf("entry %d is %+v, want %+v", from+i, got, want)
		}
	}
	if want := message.Offset(to) * 100; to > from && q.LastOffset() != want {
		t.Fatalf("last offset %d, want %d", q.LastOffset(), want)
	}
}

// file is the path of the number-th file of queue T/0.
func file(dir string, number int) string {
	name := strconv.Itoa(number * fileSize)
	return filepath.Join(dir, "T", "0", strings.Repeat("0", 20-len(name))+name)
}

// made makes a closed store with one queue of n entries and returns its folder.
func made(t testing.TB, n int) string {
	t.Helper()
	dir := t.TempDir()
	table := open(t, consumequeue.Options{Dir: dir})
	put(t, table.Get(zero), 0, n)
	check(t, table.Close())
	return dir
}

func overwrite(t testing.TB, path string, off int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	check(t, err)
	_, err = f.WriteAt(b, off)
	check(t, err)
	check(t, f.Close())
}

// logged collects log lines.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logged) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.b.String()), "\n")
}

// expectLines says that exactly these repairs were logged, each in one line.
func (l *logged) expectLines(t testing.TB, want ...string) {
	t.Helper()
	lines := l.lines()
	if len(want) == 0 && len(lines) == 1 && lines[0] == "" {
		return
	}
	if len(lines) != len(want) {
		t.Fatalf("logged %q, want %d lines", lines, len(want))
	}
	for i := range want {
		if !strings.Contains(lines[i], want[i]) {
			t.Fatalf("logged %q, want %q", lines[i], want[i])
		}
	}
}

// syncer counts and can be made to fail.
type syncer struct {
	mu    sync.Mutex
	calls [][]string // names of the files of each call
	fail  error
}

var errDevice = errors.New("device")

func (s *syncer) SyncFds(fds []int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, fd := range fds {
		name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		if err != nil {
			return err
		}
		names = append(names, name)
	}
	s.calls = append(s.calls, names)
	return s.fail
}

func (s *syncer) synced(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, names := range s.calls {
		for _, name := range names {
			if name == path {
				return true
			}
		}
	}
	return false
}
