package repair_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringmq/engine"
	"ringmq/engine/checkpoint"
	"ringmq/engine/consumequeue"
	"ringmq/engine/inspect"
	"ringmq/engine/repair"
)

const (
	segmentSize   = 64 << 10
	queueFileSize = 2000
	messages      = 500
)

func ownOptions(dir string) engine.Options {
	return engine.Options{
		Dir: dir, SegmentSize: segmentSize, QueueFileSize: queueFileSize, PoolSize: 256 << 10, UnlockedPool: true, DiskWarningRatio: 1, PutWaitMS: 60_000,
		IndexSlots: 250, IndexEntries: 1000,
	}
}

type answer chan engine.PutStatus

func (a answer) PutDone(_ *engine.PutRequest, r *engine.PutResult) { a <- r.Status }

// written is the folder of a store of ringmq with messages in four queues of two topics, stopped cleanly.
func written(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	s, err := engine.Open(ownOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	done := make(answer, 1)
	for i := range messages {
		p := engine.PutRequest{Done: done}
		p.Message.Topic, p.Message.QueueID = fmt.Sprintf("Topic%d", i%2), int32(i/2%2)
		p.Message.Body = []byte(strings.Repeat("body ", 60))
		p.Message.Properties = fmt.Appendf(nil, "TAGS\x01t%d\x02KEYS\x01k%d other\x02UNIQ_KEY\x01u%d\x02", i%3, i, i)
		p.Message.BornHost, p.Message.StoreHost = netip.MustParseAddrPort("127.0.0.1:5000"), netip.MustParseAddrPort("127.0.0.1:10911")
		s.Put(&p)
		select {
		case status := <-done:
			if status != engine.PutOK {
				t.Fatalf("put %d: status %d", i, status)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("a put was not answered")
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func copyOf(t *testing.T, whole string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func patch(t testing.TB, path string, at int64, b ...byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

func verify(t testing.TB, dir string) *inspect.Report {
	t.Helper()
	s, err := inspect.Open(inspect.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := s.Verify(context.Background(), inspect.VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func firstKeyFile(t testing.TB, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "index", "*"))
	if err != nil || len(names) < 2 {
		t.Fatalf("%d key files, %v", len(names), err)
	}
	return names[0]
}

func TestWholeStoreIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := written(t)
	before := treeOf(t, dir)
	out, err := repair.Do(context.Background(), repair.Options{Dir: dir})
	if err != nil || len(out.Plan.Actions) > 0 || !out.After.Whole {
		t.Fatalf("%+v, %v", out, err)
	}
	if after := treeOf(t, dir); after != before {
		t.Errorf("changed:\n%s\nwas\n%s", after, before)
	}
}

// Each damage of what is derived is put right, by the files that are said to be; the store is then as it was.
func TestDamageIsRepaired(t *testing.T) {
	t.Parallel()
	whole := written(t)
	wholeReport := verify(t, whole)
	queue := filepath.Join("consumequeue", "Topic0", "0", "00000000000000000000")
	second := filepath.Join("consumequeue", "Topic0", "0", "00000000000000002000")
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		verbs  []repair.Verb
		kept   string // a path below ringmq/cut
	}{
		"an entry's offset":  {func(t *testing.T, dir string) { patch(t, filepath.Join(dir, queue), 67, 0xff) }, []repair.Verb{repair.Rebuild}, "consumequeue/Topic0/0/00000000000000000000"},
		"an entry's tags":    {func(t *testing.T, dir string) { patch(t, filepath.Join(dir, queue), 119, 1) }, []repair.Verb{repair.Rebuild}, "consumequeue/Topic0/0"},
		"an entry erased":    {func(t *testing.T, dir string) { patch(t, filepath.Join(dir, queue), 140, make([]byte, 20)...) }, []repair.Verb{repair.Rebuild, repair.Write}, "consumequeue/Topic0/0"},
		"a short queue file": {func(t *testing.T, dir string) { os.Truncate(filepath.Join(dir, queue), 1000) }, []repair.Verb{repair.Rebuild, repair.Write}, "consumequeue/Topic0/0"},
		"a queue file gone":  {func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, queue)) }, []repair.Verb{repair.Complete}, ""},
		"the last file gone": {func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, second)) }, []repair.Verb{repair.Complete, repair.Write}, ""},
		"a queue gone":       {func(t *testing.T, dir string) { os.RemoveAll(filepath.Join(dir, "consumequeue", "Topic1", "1")) }, []repair.Verb{repair.Complete, repair.Write}, ""},
		"all queues gone":    {func(t *testing.T, dir string) { os.RemoveAll(filepath.Join(dir, "consumequeue")) }, []repair.Verb{repair.Complete, repair.Complete, repair.Complete, repair.Complete, repair.Write}, ""},
		"an entry too many": {func(t *testing.T, dir string) {
			patch(t, filepath.Join(dir, second), 500, consumequeue.AppendEntry(nil, consumequeue.Entry{Offset: 1, Size: 400})...)
		}, []repair.Verb{repair.Rebuild}, "consumequeue/Topic0/0"},
		"a key's hash":       {func(t *testing.T, dir string) { patch(t, firstKeyFile(t, dir), 40+1000+20*7, 1) }, []repair.Verb{repair.Rebuild}, "index"},
		"a key's chain":      {func(t *testing.T, dir string) { patch(t, firstKeyFile(t, dir), 40+1000+20*7+19, 1) }, []repair.Verb{repair.Rebuild}, "index"},
		"a key's record":     {func(t *testing.T, dir string) { patch(t, firstKeyFile(t, dir), 40+1000+20*7+11, 1) }, []repair.Verb{repair.Rebuild}, "index"},
		"a slot":             {func(t *testing.T, dir string) { patch(t, firstKeyFile(t, dir), 40+3, 99) }, []repair.Verb{repair.Rebuild}, "index"},
		"a key file gone":    {func(t *testing.T, dir string) { os.Remove(firstKeyFile(t, dir)) }, []repair.Verb{repair.Rebuild}, "index"},
		"all key files gone": {func(t *testing.T, dir string) { os.RemoveAll(filepath.Join(dir, "index")) }, []repair.Verb{repair.Rebuild}, ""},
		"a short key file":   {func(t *testing.T, dir string) { os.Truncate(firstKeyFile(t, dir), 40) }, []repair.Verb{repair.Rebuild}, "index"},
		"a short checkpoint": {func(t *testing.T, dir string) { os.Truncate(filepath.Join(dir, "checkpoint"), 24) }, []repair.Verb{repair.Write}, ""},
		"no checkpoint":      {func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, "checkpoint")) }, []repair.Verb{repair.Write}, ""},
		"a damaged mark":     {func(t *testing.T, dir string) { patch(t, filepath.Join(dir, "ringmq", "mark"), 20, 9) }, []repair.Verb{repair.Write}, ""},
		"a byte behind": {func(t *testing.T, dir string) {
			patch(t, lastSegment(dir, wholeReport), wholeReport.End%segmentSize+100, 7)
		}, []repair.Verb{repair.Cut}, fmt.Sprintf("%020d", wholeReport.End)},
		"an abort file": {func(t *testing.T, dir string) { os.WriteFile(filepath.Join(dir, "abort"), nil, 0o644) }, []repair.Verb{repair.Remove}, ""},
		"an empty segment": {func(t *testing.T, dir string) {
			os.WriteFile(filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", 5*segmentSize)), nil, 0o644)
		}, []repair.Verb{repair.Remove}, ""},
		"a kill at the end": {func(t *testing.T, dir string) {
			os.WriteFile(filepath.Join(dir, "abort"), nil, 0o644)
			os.Truncate(filepath.Join(dir, second), 480)
			os.Truncate(filepath.Join(dir, second), 2000)
		}, []repair.Verb{repair.Complete, repair.Write, repair.Remove}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := copyOf(t, whole)
			c.change(t, dir)
			o := repair.Options{Dir: dir, QueueFileSize: queueFileSize, IndexSlots: 250, IndexEntries: 1000}
			before := treeOf(t, dir)
			plan := look(t, o)
			if treeOf(t, dir) != before {
				t.Error("a look has changed the store")
			}
			var verbs []repair.Verb
			for _, a := range plan.Actions {
				if a.Text != always {
					verbs = append(verbs, a.Verb)
				}
			}
			if !slices.Equal(verbs, c.verbs) || len(plan.Lasting) > 0 {
				t.Errorf("would %v (%+v), want %v", texts(plan), plan.Lasting, c.verbs)
			}
			out, err := repair.Do(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			checkDone(t, out)
			if r := out.After; !r.Whole || len(r.Findings) > 0 || r.Records != messages || r.Entries != messages || r.IndexEntries != 4*messages {
				t.Errorf("after the repair %+v", r)
			}
			if c.kept != "" {
				if _, err := os.Stat(filepath.Join(dir, "ringmq", "cut", c.kept)); err != nil {
					t.Errorf("the old is not kept: %v", err)
				}
			}
			s, err := engine.Open(ownOptions(dir))
			if err != nil {
				t.Fatal(err)
			}
			r := s.Recovery()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if !r.Clean || r.Records != 0 || r.FirstOpening {
				t.Errorf("it is opened with recovery %+v", r)
			}
		})
	}
}

// always is why checkpoint and mark are written whenever anything is done.
const always = "as a clean stop leaves it"

func lastSegment(dir string, r *inspect.Report) string {
	return filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", r.End/segmentSize*segmentSize))
}

// What the log has lost is named, and left as it is; the rest is repaired.
func TestDamageOfTheLogStays(t *testing.T) {
	t.Parallel()
	dir := written(t)
	log := filepath.Join(dir, "commitlog", "00000000000000000000")
	patch(t, log, 300, 1)
	patch(t, filepath.Join(dir, "checkpoint"), 0, 0xff)
	damaged, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	out, err := repair.Do(context.Background(), repair.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Plan.Lasting) != 2 || out.Plan.Lasting[0].Offset != 0 || len(out.Plan.Actions) != 2 || out.Plan.Actions[0].Verb != repair.Write {
		t.Errorf("%v, %+v", texts(out.Plan), out.Plan.Lasting)
	}
	if now, err := os.ReadFile(log); err != nil || string(now) != string(damaged) {
		t.Errorf("the segment was changed, %v", err)
	}
	r := out.After
	if r.Whole || r.Records != messages-1 {
		t.Errorf("%+v", r)
	}
	for _, f := range r.Findings {
		if !f.Lasting {
			t.Errorf("not repaired: %+v", f)
		}
	}
	again, err := repair.Do(context.Background(), repair.Options{Dir: dir})
	if err != nil || len(again.Plan.Actions) > 0 {
		t.Errorf("%v, %v", again, err)
	}
}

// A queue whose record is damaged is not made anew for that; one with a wrong entry beside it is, and its number stays.
func TestNumbersStay(t *testing.T) {
	t.Parallel()
	dir := written(t)
	queue := filepath.Join(dir, "consumequeue", "Topic0", "0", "00000000000000000000")
	patch(t, filepath.Join(dir, "commitlog", "00000000000000000000"), 300, 1)
	patch(t, queue, 67, 0xff)
	out, err := repair.Do(context.Background(), repair.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Plan.Actions) != 3 || out.Plan.Actions[0].Verb != repair.Rebuild {
		t.Errorf("%v", texts(out.Plan))
	}
	if out.After.Fillers != 1 || out.After.Entries != messages {
		t.Errorf("%+v", out.After)
	}
}

// Both kinds of locks are respected: that of an open store of ours, and one as a Java broker takes it.
func TestStoreInUseIsRefused(t *testing.T) {
	t.Parallel()
	dir := written(t)
	os.Remove(filepath.Join(dir, "checkpoint"))
	refused := func(what string) {
		t.Helper()
		before := treeOf(t, filepath.Join(dir, "commitlog"))
		if p, err := repair.Look(context.Background(), repair.Options{Dir: dir}); !errors.Is(err, checkpoint.ErrLocked) {
			t.Errorf("%s: %+v, %v", what, p, err)
		}
		if out, err := repair.Do(context.Background(), repair.Options{Dir: dir}); !errors.Is(err, checkpoint.ErrLocked) {
			t.Errorf("%s: %+v, %v", what, out, err)
		}
		if treeOf(t, filepath.Join(dir, "commitlog")) != before {
			t.Errorf("%s: the log was changed", what)
		}
	}
	lock, err := checkpoint.Acquire(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	refused("own lock")
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	s, err := engine.Open(ownOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	refused("open store")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// The lock of a Java broker is of the POSIX kind: it belongs to a process, so a child takes it.
func TestStoreOfAnotherProcessIsRefused(t *testing.T) {
	dir := written(t)
	release := startLocker(t, filepath.Join(dir, "lock"))
	if _, err := repair.Do(context.Background(), repair.Options{Dir: dir}); !errors.Is(err, checkpoint.ErrLocked) || !strings.Contains(err.Error(), "by process") {
		t.Errorf("%v", err)
	}
	release()
	if _, err := repair.Do(context.Background(), repair.Options{Dir: dir}); err != nil {
		t.Errorf("%v", err)
	}
}

// TestMain is the child that holds a lock, when it is asked to be.
func TestMain(m *testing.M) {
	path := os.Getenv("REPAIR_TEST_LOCK")
	if path == "" {
		os.Exit(m.Run())
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Len: 1})
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("locked")
	_, _ = os.Stdin.Read(make([]byte, 1)) // until the parent closes it
}

// Files on which no store can be opened are refused before anything is changed.
func TestWhatCannotBeOpenedIsRefused(t *testing.T) {
	t.Parallel()
	whole := written(t)
	for name, change := range map[string]func(dir string) error{
		"a short segment in the middle": func(dir string) error {
			return os.Truncate(filepath.Join(dir, "commitlog", "00000000000000000000"), 4096)
		},
		"a long segment": func(dir string) error {
			return os.Truncate(filepath.Join(dir, "commitlog", "00000000000000000000"), 2*segmentSize)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := copyOf(t, whole)
			if err := change(dir); err != nil {
				t.Fatal(err)
			}
			before := treeOf(t, dir)
			if out, err := repair.Do(context.Background(), repair.Options{Dir: dir}); !errors.Is(err, repair.ErrRefused) || !strings.Contains(err.Error(), "00000000000000000000: it has ") {
				t.Errorf("%+v, %v", out, err)
			}
			if treeOf(t, dir) != before {
				t.Error("it was changed")
			}
		})
	}
	if _, err := repair.Look(context.Background(), repair.Options{Dir: t.TempDir()}); !errors.Is(err, inspect.ErrNoStore) {
		t.Error(err)
	}
}
