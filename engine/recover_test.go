package engine_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"ringmq/engine"
	"ringmq/engine/checkpoint"
	"ringmq/engine/consumequeue"
)

// fiveFiles is a store of 5 log files with 3,000 messages in 4 queues of several files each.
func fiveFiles(t *testing.T) *handmade {
	h := newHandmade(t, 256<<10, 200)
	for i := range 3000 {
		h.add(int32(i%4), 400, int64(1_000_000+i*10))
	}
	if n := (len(h.log) + h.segmentSize - 1) / h.segmentSize; n != 5 {
		t.Fatalf("BUG: %d log files", n)
	}
	return h
}

func fiveFilesOptions(h *handmade, book *logBook) engine.Options {
	o := small(h.dir)
	o.SegmentSize, o.QueueFileSize = int64(h.segmentSize), int64(h.cqUnits*20)
	o.Logger = book.logger()
	return o
}

func checkAll(t *testing.T, s *engine.Store, h *handmade) {
	t.Helper()
	settle(t, s)
	for queue := range int32(4) {
		if got, want := bodies(records(t, s, testTopic, queue)), h.want(queue, len(h.records)); !slices.Equal(got, want) {
			t.Errorf("queue %d serves %d messages, want %d", queue, len(got), len(want))
		}
	}
	audit(t, s)
}

// A checkpoint, whatever it says, never keeps an entry from being built: all entries of files 3 to 5 are gone.
func TestWrongCheckpointCostsTimeOnly(t *testing.T) {
	last := int64(1_000_000 + 2999*10)
	checkpoints := map[string]any{
		"zero":                 checkpoint.Checkpoint{},
		"absent":               nil,
		"empty":                []byte{},
		"10 bytes":             make([]byte, 10),
		"random":               randomBytes(4096),
		"all the last record":  checkpoint.Checkpoint{LogTimeMS: last, QueueTimeMS: last, IndexTimeMS: last, QueueOffset: 1 << 20},
		"queues claimed ahead": checkpoint.Checkpoint{LogTimeMS: last / 2, QueueTimeMS: last},
		"one year ahead":       checkpoint.Checkpoint{LogTimeMS: last + 31_536_000_000, QueueTimeMS: last + 31_536_000_000, IndexTimeMS: last + 31_536_000_000},
		"negative":             slices.Repeat([]byte{0xff}, 4096),
		"older than all":       checkpoint.Checkpoint{LogTimeMS: 1, QueueTimeMS: 1, IndexTimeMS: 1},
	}
	for name, content := range checkpoints {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := fiveFiles(t)
			for id, units := range h.queues {
				for i := 0; i < len(units); i += 20 {
					if int(binary.BigEndian.Uint64(units[i:])) >= 2*h.segmentSize {
						clear(h.queues[id][i:])
						break
					}
				}
			}
			h.write(true)
			path := filepath.Join(h.dir, "checkpoint")
			switch content := content.(type) {
			case nil:
				remove(t, path)
			case []byte:
				writeFile(t, path, content)
			case checkpoint.Checkpoint:
				if err := content.Save(path); err != nil {
					t.Fatal(err)
				}
			}
			var book logBook
			s := open(t, fiveFilesOptions(h, &book))
			checkAll(t, s, h)
			closeStore(t, s)
			if c, err := checkpoint.Load(path); err != nil || c.LogTimeMS < last || c.QueueOffset == 0 {
				t.Errorf("after a clean stop the checkpoint is %+v, %v", c, err)
			}
		})
	}
}

func randomBytes(n int) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// Only the last entries of file 4 are missing, and file 5 has one record.
func TestEntriesMissingAtTheEndOfAFile(t *testing.T) {
	t.Parallel()
	h := newHandmade(t, 64<<10, 1000)
	for i := 0; (len(h.log)-1)/h.segmentSize < 4; i++ {
		h.add(int32(i%4), 400, int64(1000+i))
	}
	for id, units := range h.queues {
		h.queues[id] = units[:len(units)-5*20]
	}
	h.write(true)
	var book logBook
	s := open(t, fiveFilesOptions(h, &book))
	checkAll(t, s, h)
}

// A clean stop is said to be clean, and the next start reads nothing of the log.
func TestCleanStopIsQuick(t *testing.T) {
	t.Parallel()
	h := fiveFiles(t)
	h.write(false)
	var book logBook
	closeStore(t, open(t, fiveFilesOptions(h, &book)))
	if !book.has("first opening") {
		t.Error("the first opening was not said to be one")
	}
	var second logBook
	s := open(t, fiveFilesOptions(h, &second))
	if r := s.Recovery(); !r.Clean || r.Records != 0 || r.FirstOpening {
		t.Errorf("recovery %+v", r)
	}
	if !second.has("last stop was clean") || second.has("first opening") {
		t.Errorf("log:\n%s", second.String())
	}
	checkAll(t, s, h)
}

// A start that fails half way leaves the store as not stopped cleanly, from the first change on.
func TestAbortFileStandsBeforeAnyChange(t *testing.T) {
	t.Parallel()
	h := fiveFiles(t)
	h.write(false)
	var book logBook
	o := fiveFilesOptions(h, &book)
	o.DiskUsage = nil
	s := open(t, o)
	if !exists(t, filepath.Join(h.dir, "abort")) {
		t.Error("no abort file while running")
	}
	closeStore(t, s)
	if exists(t, filepath.Join(h.dir, "abort")) {
		t.Error("the abort file is there after a clean stop")
	}
}

// One helper file missing, empty or odd: the store opens, has every message, and says in a line what it did.
func TestOddHelperFiles(t *testing.T) {
	cases := []struct {
		name string
		harm func(t *testing.T, h *handmade)
		says string // part of a line; empty if nothing has to be done
	}{
		{"last queue file deleted", func(t *testing.T, h *handmade) { remove(t, h.queueFile(2, 3)) }, ""},
		{"first queue file deleted", func(t *testing.T, h *handmade) { remove(t, h.queueFile(2, 0)) }, ""},
		{"queue file in the middle deleted", func(t *testing.T, h *handmade) { remove(t, h.queueFile(2, 1)) }, ""},
		{"no queues", func(t *testing.T, h *handmade) { remove(t, filepath.Join(h.dir, "consumequeue")) }, "first opening"},
		{"no index", func(t *testing.T, h *handmade) { remove(t, filepath.Join(h.dir, "index")) }, ""},
		{"zero queue file behind the last", func(t *testing.T, h *handmade) {
			writeFile(t, h.queueFile(1, 4), make([]byte, h.cqUnits*20))
		}, ""},
		{"two empty log files", func(t *testing.T, h *handmade) {
			writeFile(t, h.segmentFile(5), nil)
			writeFile(t, h.segmentFile(6), nil)
		}, "removed a segment of 0 bytes"},
		{"an empty log file", func(t *testing.T, h *handmade) { writeFile(t, h.segmentFile(5), nil) }, "removed a segment of 0 bytes"},
		{"half a log file of zeros", func(t *testing.T, h *handmade) {
			writeFile(t, h.segmentFile(5), make([]byte, h.segmentSize/2))
		}, "filled up a short segment"},
		{"entries beyond the log", func(t *testing.T, h *handmade) {
			for i := range 20 {
				patch(t, h.queueFile(3, 3), (150+i)*20, unit(len(h.log)+i*400, 400, 0))
			}
		}, "queue entries without a record"},
		{"an entry of half a record", func(t *testing.T, h *handmade) {
			last := h.records[2999]
			patch(t, h.queueFile(last.id.QueueID, 3), (last.number%h.cqUnits+1)*20, unit(last.at+last.size/2, last.size, 0))
		}, "queue entries without a record"},
		{"stray files", func(t *testing.T, h *handmade) {
			for _, dir := range []string{".", "commitlog", "consumequeue", "consumequeue/T", "consumequeue/T/0", "index"} {
				for _, name := range []string{".DS_Store", "x.tmp", "00000000000000000abc"} {
					writeFile(t, filepath.Join(h.dir, dir, name), []byte("stray"))
				}
			}
		}, ""},
		{"lock file left over", func(*testing.T, *handmade) {}, ""},
	}
	for _, c := range cases {
		for _, killed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/killed=%v", c.name, killed), func(t *testing.T) {
				t.Parallel()
				h := fiveFiles(t)
				h.write(killed)
				c.harm(t, h)
				var book logBook
				o := fiveFilesOptions(h, &book)
				s := open(t, o)
				if c.says != "" && !book.has(c.says) {
					t.Errorf("no line with %q:\n%s", c.says, book.String())
				}
				checkAll(t, s, h)
				closeStore(t, s)
				checkReopened(t, h, o)
			})
		}
	}
}

func checkReopened(t *testing.T, h *handmade, o engine.Options) {
	t.Helper()
	s := open(t, o)
	if r := s.Recovery(); r.Records != 0 || r.CutBytes != 0 || r.Dropped != 0 {
		t.Errorf("second recovery %+v, want nothing to do", r)
	}
	audit(t, s)
}

// The same harm to a store of our own, with a mark: what is lost is noticed and built again.
func TestLostQueueFilesOfAnOwnStore(t *testing.T) {
	harms := map[string]func(t *testing.T, h *handmade){
		"last queue file":  func(t *testing.T, h *handmade) { remove(t, h.queueFile(2, 3)) },
		"first queue file": func(t *testing.T, h *handmade) { remove(t, h.queueFile(2, 0)) },
		"middle file":      func(t *testing.T, h *handmade) { remove(t, h.queueFile(2, 1)) },
		"one queue":        func(t *testing.T, h *handmade) { remove(t, filepath.Join(h.dir, "consumequeue", testTopic, "1")) },
		"all queues":       func(t *testing.T, h *handmade) { remove(t, filepath.Join(h.dir, "consumequeue")) },
		"last entries":     func(t *testing.T, h *handmade) { patch(t, h.queueFile(0, 3), 100*20, make([]byte, 100*20)) },
		"mark":             func(t *testing.T, h *handmade) { remove(t, filepath.Join(h.dir, "ringmq", "mark")) },
		"mark torn":        func(t *testing.T, h *handmade) { patch(t, filepath.Join(h.dir, "ringmq", "mark"), 20, []byte{0xff}) },
		"checkpoint":       func(t *testing.T, h *handmade) { remove(t, filepath.Join(h.dir, "checkpoint")) },
		"everything of ours": func(t *testing.T, h *handmade) {
			remove(t, filepath.Join(h.dir, "ringmq"))
			remove(t, filepath.Join(h.dir, "consumequeue"))
		},
	}
	for name, harm := range harms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := fiveFiles(t)
			h.write(false)
			var book logBook
			o := fiveFilesOptions(h, &book)
			closeStore(t, open(t, o))
			harm(t, h)
			checkAll(t, open(t, o), h)
		})
	}
}

// All messages of one queue were in segments that retention, or somebody, has removed from the front.
func TestLogWithoutItsFirstSegments(t *testing.T) {
	t.Parallel()
	h := newHandmade(t, 64<<10, 100)
	for i := range 50 {
		h.add(7, 400, int64(1000+i)) // all in the first segment
	}
	for i := range 800 {
		h.add(int32(i%2), 400, int64(2000+i))
	}
	h.write(true)
	remove(t, h.segmentFile(0))
	remove(t, h.segmentFile(1))
	var book logBook
	s := open(t, fiveFilesOptions(h, &book))
	if got := s.Positions().Min; int(got) != 2*h.segmentSize {
		t.Errorf("min is %d, want %d", got, 2*h.segmentSize)
	}
	for queue := range int32(2) {
		var want []string
		for _, r := range h.records {
			if r.id.QueueID == queue && r.at >= 2*h.segmentSize {
				want = append(want, r.body)
			}
		}
		if got := bodies(records(t, s, testTopic, queue)); !slices.Equal(got, want) {
			t.Errorf("queue %d serves %d messages, want %d", queue, len(got), len(want))
		}
	}
	gone := s.Queue([]byte(testTopic), 7)
	if gone == nil || gone.Min() > gone.Max() || gone.Max() != 50 {
		t.Errorf("queue 7: %v", gone)
	}
	audit(t, s)
}

// All messages of one queue are lost with the end of the log: the queue is empty, and usable.
func TestQueueOfALostTail(t *testing.T) {
	t.Parallel()
	h := newHandmade(t, 64<<10, 100)
	for i := range 400 {
		h.add(int32(i%2), 400, int64(1000+i))
	}
	cut := len(h.log)
	for i := range 30 {
		h.add(5, 400, int64(9000+i))
	}
	clear(h.log[cut:])
	h.write(true)
	var book logBook
	s := open(t, fiveFilesOptions(h, &book))
	if q := s.Queue([]byte(testTopic), 5); q != nil && (q.Min() != q.Max() || q.Max() != 0) {
		t.Errorf("queue 5 is [%d, %d), want empty", q.Min(), q.Max())
	}
	if r := put(t, s, 5, "again"); r.QueueOffset != 0 {
		t.Errorf("number %d, want 0", r.QueueOffset)
	}
	audit(t, s)
}

// Two records claim one number, as a log may have that a broker wrote after it had lost entries: the entry that is there stays.
func TestTwoRecordsOfOneNumber(t *testing.T) {
	t.Parallel()
	h := newHandmade(t, 64<<10, 100)
	for i := range 10 {
		h.add(0, 300, int64(1000+i))
	}
	id := consumequeue.ID{Topic: testTopic}
	first := h.queues[id][9*20:]
	h.queues[id] = slices.Clone(h.queues[id][:9*20])
	h.add(0, 320, 2000) // number 9 once more
	h.queues[id] = append(h.queues[id][:9*20], first...)
	h.write(true)
	var book logBook
	s := open(t, fiveFilesOptions(h, &book))
	if got, want := bodies(records(t, s, testTopic, 0)), h.want(0, 10); !slices.Equal(got, want) {
		t.Errorf("served %q", got)
	}
	if !book.has("two records claim one number", "number=9") {
		t.Errorf("it was not told:\n%s", book.String())
	}
	audit(t, s)
}

// While recovery is long it says each second how far it is, and Open names each phase.
func TestPhasesAreKept(t *testing.T) {
	t.Parallel()
	h := fiveFiles(t)
	h.write(true)
	var book logBook
	s := open(t, fiveFilesOptions(h, &book))
	if len(s.Recovery().Phases) < 5 {
		t.Errorf("phases %+v", s.Recovery().Phases)
	}
	for _, p := range s.Recovery().Phases {
		if !book.has(p.Name, "took=") || p.Took < 0 || p.Took > time.Minute {
			t.Errorf("phase %+v is not told", p)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Run("a store in use", func(t *testing.T) {
		dir := t.TempDir()
		open(t, small(dir))
		_, err := engine.Open(small(dir))
		mustBe(t, err, checkpoint.ErrLocked)
	})
	for name, path := range map[string]string{
		"DLedger":            "dledger-n0/data/00000000000000000000",
		"DLedger in the log": "commitlog/dledger-n0/x",
		"RocksDB":            "consumequeue_rocksdb/CURRENT",
		"RocksDB queues":     "consumequeue/CURRENT",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeFile(t, filepath.Join(dir, path), nil)
			_, err := engine.Open(small(dir))
			mustBe(t, err, engine.ErrForeign)
			if exists(t, filepath.Join(dir, "abort")) {
				t.Error("an abort file was made")
			}
		})
	}
	t.Run("another segment size", func(t *testing.T) {
		h := fiveFiles(t)
		h.write(false)
		o := small(h.dir)
		o.SegmentSize = 128 << 10
		if _, err := engine.Open(o); err == nil {
			t.Error("no error")
		}
		if exists(t, filepath.Join(h.dir, "abort")) {
			t.Error("a store that was refused unchanged has an abort file")
		}
		var book logBook
		checkAll(t, open(t, fiveFilesOptions(h, &book)), h)
	})
	t.Run("a queue file size that is no multiple of 20 is rounded up", func(t *testing.T) {
		o := small(t.TempDir())
		o.QueueFileSize = 1003
		var book logBook
		o.Logger = book.logger()
		s := open(t, o)
		put(t, s, 0, "x")
		if !book.has("rounded up", "asked=1003", "used=1020") {
			t.Errorf("it was not told:\n%s", book.String())
		}
		audit(t, s)
	})
}

func TestEmptyStoreLeavesLittle(t *testing.T) {
	dir := t.TempDir()
	s := open(t, small(dir))
	if p := s.Positions(); p != (engine.Positions{}) {
		t.Errorf("positions %+v, want all zero", p)
	}
	closeStore(t, s)
	s = open(t, small(dir))
	if !s.Recovery().Clean || s.Positions().End != 0 {
		t.Errorf("recovery %+v", s.Recovery())
	}
	put(t, s, 0, "first")
	audit(t, s)
	if _, err := os.Stat(filepath.Join(dir, "commitlog", fmt.Sprintf("%020d", 0))); err != nil {
		t.Error(err)
	}
}
