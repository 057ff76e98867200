package engine_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ringmq/engine"
	"ringmq/engine/message"
	"ringmq/internal/fixture"
)

// fixtureOptions are those of the broker that made the store.
func fixtureOptions(t testing.TB, dir string, e *fixture.Expectation) engine.Options {
	t.Helper()
	o := small(dir)
	o.SegmentSize, o.QueueFileSize = number(t, e.Config["mappedFileSizeCommitLog"]), number(t, e.Config["mappedFileSizeConsumeQueue"])
	o.MaxMessageSize, o.PoolSize = 600<<10, 2<<20
	o.IndexSlots, o.IndexEntries = 5000, 20000
	o.AllowPending = true
	return o
}

func number(t testing.TB, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Every message that the Java broker of the same version served from its store is served, byte for byte; and again after a stop and
// a start, which then walks nothing.
func TestStoresOfRealBrokers(t *testing.T) {
	for _, c := range fixture.WholeStores() {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			dir, want := fixture.Store(t, c.Version, c.Name), fixture.Expected(t, c.Version, c.Name)
			o := fixtureOptions(t, dir, want)
			s := open(t, o)
			settle(t, s)
			if got := s.Positions(); int64(got.End) != want.AfterLoad.Max || int64(got.Min) != want.AfterLoad.Min {
				t.Errorf("the log is [%d, %d), want [%d, %d)", got.Min, got.End, want.AfterLoad.Min, want.AfterLoad.Max)
			}
			if got := s.Recovery(); int(got.Records) != want.Scan.Records || !got.FirstOpening || len(got.Damaged) > 0 || got.CutBytes > 0 {
				t.Errorf("recovery %+v, want %d records and nothing wrong", got, want.Scan.Records)
			}
			if clean := strings.HasPrefix(c.Name, "clean") || c.Name == "propcrc"; s.Recovery().Clean != clean {
				t.Errorf("clean is %v", s.Recovery().Clean)
			}
			compareMessages(t, s, want, nil)
			compareKeys(t, s, want)
			if c.Version == "5.5.0" {
				compareSearches(t, s, want)
			}
			closeStore(t, s)

			s = open(t, o)
			if got := s.Recovery(); got.Records != 0 || got.FirstOpening || !got.Clean || got.From != got.End {
				t.Errorf("second opening: recovery %+v, want nothing to do", got)
			}
			compareMessages(t, s, want, nil)
			compareKeys(t, s, want)
			audit(t, s)
		})
	}
}

// compareMessages checks that exactly the messages that the broker served are there, but for those that lost allows to be missing.
func compareMessages(t *testing.T, s *engine.Store, want *fixture.Expectation, lost func(fixture.Message) bool) {
	t.Helper()
	type queue struct {
		topic string
		id    int32
	}
	ownRecords := map[int64]bool{} // written by the Java broker after it had started, so not in the store
	for _, r := range want.AppendedAfterStart.Records {
		ownRecords[r.CommitLogOffset] = true
	}
	expected := map[queue]map[int64]fixture.Message{}
	for _, m := range append(want.Messages, want.NotServed.Records...) {
		if ownRecords[m.CommitLogOffset] {
			continue
		}
		q := queue{m.Topic, m.QueueID}
		if expected[q] == nil {
			expected[q] = map[int64]fixture.Message{}
		}
		expected[q][m.QueueOffset] = m
	}
	for q, messages := range expected {
		for _, r := range records(t, s, q.topic, q.id) {
			m, ok := messages[int64(r.QueueOffset)]
			if !ok {
				t.Errorf("%s/%d serves number %d, which the broker did not", q.topic, q.id, r.QueueOffset)
				continue
			}
			delete(messages, int64(r.QueueOffset))
			compareRecord(t, s, &r, m)
		}
		for _, m := range messages {
			if lost == nil || !lost(m) {
				t.Errorf("%s/%d does not serve number %d", q.topic, q.id, m.QueueOffset)
			}
		}
	}
}

func compareRecord(t *testing.T, s *engine.Store, r *message.Record, m fixture.Message) {
	t.Helper()
	name := fmt.Sprintf("%s/%d number %d", m.Topic, m.QueueID, m.QueueOffset)
	if int64(r.Offset) != m.CommitLogOffset || r.Size != m.StoreSize {
		t.Errorf("%s: at %d, %d bytes, want at %d, %d bytes", name, r.Offset, r.Size, m.CommitLogOffset, m.StoreSize)
		return
	}
	if m.RecordSHA256 == "" {
		return
	}
	view, ok := s.Record(r.Offset)
	if !ok {
		t.Errorf("%s: no record at %d", name, r.Offset)
		return
	}
	defer view.Release()
	sum := sha256.Sum256(view.Bytes)
	if got := hex.EncodeToString(sum[:]); !strings.HasPrefix(got, m.RecordSHA256) {
		t.Errorf("%s: the record's bytes differ", name)
	}
}

func compareSearches(t *testing.T, s *engine.Store, want *fixture.Expectation) {
	t.Helper()
	appended := map[string]bool{}
	for _, r := range want.AppendedAfterStart.Records {
		appended[fmt.Sprint(r.Topic, r.QueueID)] = true
	}
	for _, q := range want.Queues {
		if appended[fmt.Sprint(q.Topic, q.QueueID)] {
			continue
		}
		for _, search := range q.SearchOffsetByTimestamp {
			if got, ok := s.OffsetByTime([]byte(q.Topic), q.QueueID, search.Timestamp); !ok || int64(got) != *search.Lower {
				t.Errorf("%s/%d: first from %d is number %d, want %d", q.Topic, q.QueueID, search.Timestamp, got, *search.Lower)
			}
			if got, ok := s.LastOffsetByTime([]byte(q.Topic), q.QueueID, search.Timestamp); !ok || int64(got) != *search.Upper {
				t.Errorf("%s/%d: last up to %d is number %d, want %d", q.Topic, q.QueueID, search.Timestamp, got, *search.Upper)
			}
		}
	}
}

// After each damage the broker recovers what Apache RocketMQ recovers, or more where that loses messages which are there; docs/format.md lists
// where.
func TestTornStoresOfRealBrokers(t *testing.T) {
	differ := differences{how: map[string][]string{}}
	t.Run("stores", func(t *testing.T) {
		for _, c := range fixture.TornStores(t) {
			t.Run(c.String(), func(t *testing.T) {
				t.Parallel()
				checkTorn(t, c.Version, strings.TrimPrefix(c.Name, "torn/"), &differ)
			})
		}
	})
	differ.compareList(t)
}

func checkTorn(t *testing.T, version, name string, differ *differences) {
	dir, want := fixture.Store(t, version, "torn/"+name), fixture.Expected(t, version, "torn/"+name)
	undamaged := fixture.Expected(t, version, "killed")
	o := fixtureOptions(t, dir, undamaged)
	var book logBook
	o.Logger = book.logger()
	s := open(t, o)
	settle(t, s)
	differ.add(t, version, name, javaOutcome(want), ringmqOutcome(t, s))
	end := want.AfterLoad.Max
	switch name {
	case "cq_first_file_missing", // lost by Apache: entries whose file is gone are not built again
		"segment_empty_file", "segment_wrong_size": // refused by Apache
		want, end = undamaged, undamaged.AfterLoad.Max
	case "last_segment_missing": // Apache goes back to before the end record, which is whole
		end = (end + o.SegmentSize - 1) / o.SegmentSize * o.SegmentSize
	}
	if got := s.Positions(); int64(got.End) != end {
		t.Errorf("the log ends at %d, want %d", got.End, end)
	}
	compareMessages(t, s, want, nil)
	checkEveryKey(t, s)
	cutAside := exists(t, filepath.Join(dir, "ringmq", "cut", "*"))
	switch name {
	case "tail_zero_half", "tail_header_zeroed", "tail_size_only", "tail_garbage", "tail_negative_size", "mid_corrupt":
		if !cutAside || s.Recovery().CutBytes == 0 || !book.has("cut and kept aside") {
			t.Error("what was cut was not kept aside")
		}
	default:
		if cutAside {
			t.Error("something was cut")
		}
	}
	if strings.HasPrefix(name, "cq_longer") || name == "last_segment_missing" || name == "commitlog_missing" {
		if s.Recovery().Dropped == 0 || !book.has("queue entries without a record") {
			t.Errorf("no entries were dropped")
		}
	}
	audit(t, s)
	closeStore(t, s)
	s = open(t, o)
	if got := s.Recovery(); got.Records != 0 || !got.Clean {
		t.Errorf("second opening: recovery %+v, want nothing to do", got)
	}
	audit(t, s)
}
