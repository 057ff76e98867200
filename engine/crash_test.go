package engine_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ringmq/engine"
	"ringmq/engine/flush"
	"ringmq/engine/segment"
	"ringmq/engine/segment/memstore"
)

// crashRun goes through a row of power cuts. The log is in a storage that forgets pages which were not flushed, any of them; the small files and
// the queues are on disk, as they are at that moment, as they were before, or gone.
type crashRun struct {
	t        *testing.T
	rng      *rand.Rand
	options  engine.Options
	disk     *memstore.Storage
	oldMarks [][]byte

	*ledger // of the round
}

// ledger is what senders did.
type ledger struct {
	mu    sync.Mutex
	sent  map[int32][]string // by queue: in the order they were put
	acked map[string]bool
}

func newLedger() *ledger { return &ledger{sent: map[int32][]string{}, acked: map[string]bool{}} }

func (l *ledger) put(queue int32, body string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[queue] = append(l.sent[queue], body)
}

func (l *ledger) ack(body string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[body] = true
}

func (l *ledger) allAcked() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.acked)
}

func (l *ledger) allSent() map[int32][]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	sent := map[int32][]string{}
	for queue, list := range l.sent {
		sent[queue] = slices.Clone(list)
	}
	return sent
}

const crashQueues = 4

// Power cuts lose nothing that was acknowledged under sync flush, and under async flush only the end: what is left of each queue is the
// beginning of what was sent. Each cut is followed by the next, on what the one before has left.
func TestPowerCuts(t *testing.T) {
	for _, syncFlush := range []bool{true, false} {
		for _, by := range []string{"pool", "mapping", "transient"} {
			if syncFlush && by == "transient" {
				continue
			}
			t.Run(fmt.Sprintf("sync=%v/by=%s", syncFlush, by), func(t *testing.T) {
				t.Parallel()
				seed := uint64(time.Now().UnixNano())
				t.Logf("seed %d", seed)
				r := &crashRun{
					t: t, rng: rand.New(rand.NewPCG(seed, 0)), disk: memstore.New(), ledger: newLedger(),
				}
				r.options = small(t.TempDir())
				r.options.SyncFlush, r.options.MappedAppend, r.options.TransientPool = syncFlush, by == "mapping", by == "transient"
				r.options.Flush = func() flush.Settings {
					return flush.Settings{
						FlushIntervalMS: 5, FlushThoroughIntervalMS: 20, SyncFlushTimeoutMS: 5000,
						CommitIntervalMS: 3, CommitLeastPages: 4, CommitThoroughIntervalMS: 7,
					}
				}
				r.options.QueueFlush = func() engine.QueueFlushSettings {
					return engine.QueueFlushSettings{IntervalMS: 10, ThoroughIntervalMS: 50}
				}
				rounds := 6
				if testing.Short() {
					rounds = 2
				}
				for round := range rounds {
					r.round(round)
				}
			})
		}
	}
}

func (r *crashRun) round(round int) {
	disk := r.disk
	r.options.Storage = func(string) (segment.Storage, error) { return disk, nil }
	s, err := engine.Open(r.options)
	if err != nil {
		r.t.Fatalf("round %d: %v", round, err)
	}
	r.check(s, round)
	var stop atomic.Bool
	var wg sync.WaitGroup
	var count atomic.Int64
	for queue := range int32(crashQueues) {
		seed := r.rng.Uint64()
		one := sender{ledger: r.ledger, store: s, queue: queue, rng: rand.New(rand.NewPCG(seed, 1)), stop: &stop, count: &count}
		wg.Go(func() { one.run(r.t, round) })
	}
	for least := int64(50 + r.rng.IntN(400)); count.Load() < least; {
		time.Sleep(200 * time.Microsecond)
	}
	fault := r.rng.IntN(6)
	if fault == markLost || fault == allLost {
		stop.Store(true)
		wg.Wait()
		settle(r.t, s) // the transient pool may not be written out yet
	}
	r.cut(fault)
	stop.Store(true)
	wg.Wait()
	if err := s.Close(); err != nil { // goes on with the files as they would have been without the cut
		r.t.Fatalf("round %d: close: %v", round, err)
	}
}

// sender puts one message after the other into its queue.
type sender struct {
	ledger *ledger
	store  *engine.Store
	queue  int32
	rng    *rand.Rand
	stop   *atomic.Bool
	count  *atomic.Int64
}

func (s *sender) run(t *testing.T, round int) {
	c := newCall()
	for i := 0; !s.stop.Load(); i++ {
		body := fmt.Sprintf("%d-%d-%d %s", s.queue, round, i, strings.Repeat("x", s.rng.IntN(3000)))
		c.request.Message = text(testTopic, s.queue, body, "TAGS\x01a\x02")
		s.ledger.put(s.queue, body)
		s.store.Put(&c.request)
		if result := c.wait(t); result.Status == engine.PutOK {
			s.ledger.ack(body)
		}
		s.count.Add(1)
	}
}

// cut takes the power away while senders go on: what was acknowledged before must be found, what is found must have been sent before it was
// over. What is kept of the log is taken last, so that the small files are never ahead of it.
func (r *crashRun) cut(fault int) {
	next := newLedger()
	next.acked = r.allAcked()
	dir := r.t.TempDir()
	copyTree(r.t, r.options.Dir, dir)
	keepPercent := r.rng.IntN(101)
	if fault == markLost || fault == allLost {
		// The end of a process that was idle: without a mark a torn end of a segment that is not the last one would count as damage.
		keepPercent = 100
	}
	r.tamper(dir, fault)
	r.disk = r.disk.CrashClone(r.rng, keepPercent)
	next.sent = r.allSent()
	r.ledger = next
	r.options.Dir = dir
}

// What else goes wrong in a cut.
const (
	queuesLost = iota
	markLost
	allLost
	markOld
	// and above: nothing
)

// tamper puts an older state of the derived files in the place of the newest, or none.
func (r *crashRun) tamper(dir string, fault int) {
	mark := filepath.Join(dir, "ringmq", "mark")
	if b, err := os.ReadFile(mark); err == nil {
		r.oldMarks = append(r.oldMarks, b)
	}
	switch fault {
	case queuesLost:
		remove(r.t, filepath.Join(dir, "consumequeue"))
	case markLost:
		remove(r.t, mark)
	case allLost:
		remove(r.t, filepath.Join(dir, "ringmq"))
		remove(r.t, filepath.Join(dir, "checkpoint"))
	case markOld:
		if n := len(r.oldMarks); n > 0 {
			writeFile(r.t, mark, r.oldMarks[r.rng.IntN(n)])
		}
	}
}

// check compares a store that was opened after a cut with what was sent before it.
func (r *crashRun) check(s *engine.Store, round int) {
	settle(r.t, s)
	if len(s.Recovery().Damaged) > 0 {
		r.t.Errorf("round %d: damaged %+v", round, s.Recovery().Damaged)
	}
	if err := auditLog(s); err != nil {
		r.t.Errorf("round %d: %v", round, err)
	}
	for queue := range int32(crashQueues) {
		got := bodies(records(r.t, s, testTopic, queue))
		sent := r.sent[queue]
		if len(got) > len(sent) || !slices.Equal(got, sent[:len(got)]) {
			r.t.Fatalf("round %d: queue %d serves what was not sent, or not in its order", round, queue)
		}
		for _, body := range sent[len(got):] {
			if r.acked[body] && r.options.SyncFlush {
				r.t.Fatalf("round %d: acknowledged message %.10s of queue %d is lost, recovery %+v", round, body, queue, s.Recovery())
			}
			delete(r.acked, body)
		}
		r.sent[queue] = sent[:len(got)]
	}
}

func copyTree(t testing.TB, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			if os.IsNotExist(err) {
				return nil // a temporary file that has got its name meanwhile
			}
			return err
		}
		rel, _ := filepath.Rel(from, path)
		target := filepath.Join(to, rel)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			if os.IsNotExist(err) {
				return nil
			}
			return err
		}
		return os.WriteFile(target, bytes.Clone(b), 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A start that is killed at any moment is still unclean at the next one, and nothing is lost: here the files are copied at random moments of
// a start, as a kill would leave them.
func TestKillsDuringStart(t *testing.T) {
	t.Parallel()
	h := fiveFiles(t)
	last := h.records[2999]
	clear(h.log[last.at+last.size-100 : last.at+last.size]) // a torn end makes the start change things
	h.write(true)
	dir := h.dir
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 5 {
		var book logBook
		o := fiveFilesOptions(h, &book)
		o.Dir = dir
		killed := filepath.Join(t.TempDir(), "store")
		copied := make(chan struct{})
		wait := time.Duration(rng.IntN(30)) * time.Millisecond
		go func() {
			defer close(copied)
			time.Sleep(wait)
			copyTree(t, dir, killed)
		}()
		s, err := engine.Open(o)
		<-copied
		if err != nil {
			t.Fatal(err)
		}
		if s.Recovery().Clean {
			t.Errorf("start %d was taken to be clean", i)
		}
		closeStore(t, s)
		dir = killed
	}
	var book logBook
	o := fiveFilesOptions(h, &book)
	o.Dir = dir
	s := open(t, o)
	for queue := range int32(4) {
		if got, want := bodies(records(t, s, testTopic, queue)), h.want(queue, 2999); !slices.Equal(got, want) {
			t.Errorf("queue %d serves %d messages, want %d", queue, len(got), len(want))
		}
	}
	audit(t, s)
}
