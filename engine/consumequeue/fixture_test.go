package consumequeue_test

import (
	"path/filepath"
	"strconv"
	"testing"

	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
	"ringmq/internal/fixture"
)

func openFixture(t *testing.T, c fixture.Case, e *fixture.Expectation, l *logged) *consumequeue.Table {
	t.Helper()
	size, err := strconv.ParseInt(e.Config["mappedFileSizeConsumeQueue"], 10, 64)
	check(t, err)
	return open(t, consumequeue.Options{
		Dir: filepath.Join(fixture.Store(t, c.Version, c.Name), "consumequeue"), FileSize: size, Sync: &countingSyncer{}, Logger: l.logger(),
	})
}

// The queues of the brokers' stores hold what the broker says of each message, entry by entry, and are opened without a repair.
func TestStoresOfRealBrokers(t *testing.T) {
	t.Parallel()
	for _, c := range fixture.WholeStores() {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			e := fixture.Expected(t, c.Version, c.Name)
			var l logged
			table := openFixture(t, c, e, &l)
			defer table.Close()
			l.expectLines(t)
			missing := 0
			for _, m := range e.Messages {
				q := table.Find([]byte(m.Topic), m.QueueID)
				if q == nil {
					t.Fatalf("no queue %s/%d", m.Topic, m.QueueID)
				}
				var got [1]consumequeue.Entry
				n, err := q.Read(message.QueueOffset(m.QueueOffset), got[:])
				check(t, err)
				if n == 0 {
					missing++
					continue
				}
				want := consumequeue.Entry{Offset: message.Offset(m.CommitLogOffset), Size: m.StoreSize, TagsCode: message.TagsCode([]byte(m.Tags))}
				if m.Topic == "SCHEDULE_TOPIC_XXXX" {
					want.TagsCode = got[0].TagsCode // time of delivery
				}
				if got[0] != want {
					t.Errorf("%s/%d entry %d is %+v, want %+v", m.Topic, m.QueueID, m.QueueOffset, got[0], want)
				}
			}
			behind := map[fixture.Case]int{{Version: "4.9.7", Name: "killed"}: 1, {Version: "5.5.0", Name: "killed_aged"}: 1}
			if missing != behind[c] {
				t.Errorf("%d entries are missing, want %d", missing, behind[c])
			}
			own := map[string]int64{}
			for _, r := range e.AppendedAfterStart.Records {
				own[r.Topic+"/"+strconv.Itoa(int(r.QueueID))]++
			}
			short := 0
			for _, want := range e.Queues {
				q := table.Get(consumequeue.ID{Topic: want.Topic, QueueID: want.QueueID})
				end := want.Max - own[want.Topic+"/"+strconv.Itoa(int(want.QueueID))]
				short += int(end) - int(q.Max())
				if q.Min() != message.QueueOffset(want.Min) && q.Max() > 0 {
					t.Errorf("%s/%d: min %d, want %d", want.Topic, want.QueueID, q.Min(), want.Min)
				}
			}
			if short != missing {
				t.Errorf("queues lack %d entries, want %d", short, missing)
			}
		})
	}
}

// Damaged queues are opened, and whatever they still hold is right.
func TestTornStoresOfRealBrokers(t *testing.T) {
	t.Parallel()
	for _, c := range fixture.TornStores(t) {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			e := fixture.Expected(t, c.Version, c.Name)
			var l logged
			table := openFixture(t, c, e, &l)
			defer table.Close()
			if min := message.Offset(e.AfterLoad.Min); min >= 0 && e.Failure == "" {
				table.SetLogMin(min)
				_, err := table.Cut(message.Offset(e.AfterLoad.Max))
				check(t, err)
			}
			for _, m := range e.Messages {
				q := table.Find([]byte(m.Topic), m.QueueID)
				if q == nil {
					continue // a folder that was removed
				}
				if q.First() > q.Min() || q.Min() > q.Max() {
					t.Fatalf("%s/%d: first %d, min %d, max %d", m.Topic, m.QueueID, q.First(), q.Min(), q.Max())
				}
				var got [1]consumequeue.Entry
				n, err := q.Read(message.QueueOffset(m.QueueOffset), got[:])
				check(t, err)
				if n == 1 && (got[0].Offset != message.Offset(m.CommitLogOffset) || got[0].Size != m.StoreSize) {
					t.Errorf("%s/%d entry %d is %+v, want %+v", m.Topic, m.QueueID, m.QueueOffset, got[0], m)
				}
			}
			for _, want := range e.Queues {
				if q := table.Find([]byte(want.Topic), want.QueueID); q != nil && e.AppendedAfterStart.Records == nil &&
					int64(q.Max()) > want.Max {
					t.Errorf("%s/%d: max %d, want at most %d", want.Topic, want.QueueID, q.Max(), want.Max)
				}
			}
		})
	}
}
