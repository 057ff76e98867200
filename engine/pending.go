package engine

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
	"ringmq/internal/fastjson"
)

// Topics through which a Java broker delivers later. Who would deliver them is not built, so messages that wait in them would be
// forgotten in silence.
const (
	halfTopic         = "RMQ_SYS_TRANS_HALF_TOPIC"
	halfRocksTopic    = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
	halfGroup         = "CID_RMQ_SYS_TRANS"
	timerTopic        = "rmq_sys_wheel_timer"
	reviveTopicPrefix = "rmq_sys_REVIVE_LOG_"
	reviveGroup       = "CID_RMQ_SYS_REVIVE_GROUP"
	scheduleTopic     = "SCHEDULE_TOPIC_XXXX"

	propertyTimerOut = "TIMER_OUT_MS"

	// pendingEnough ends the counting of timer messages: there are this many or more.
	pendingEnough = 1000
)

// refusePending refuses a store with messages that wait for a service which is not built, unless it is asked to leave them where they
// are. What cannot be proven to be delivered counts as waiting.
func (s *Store) refusePending() error {
	counts := s.pending()
	if len(counts) == 0 {
		return nil
	}
	var list []string
	for _, c := range counts {
		list = append(list, fmt.Sprintf("%s: %d", c.topic, c.count))
	}
	text := strings.Join(list, ", ")
	if s.options.AllowPending {
		s.options.Logger.Warn("ringmq.allowPending: messages that this version cannot deliver stay where they are", "messages", text)
		return nil
	}
	return fmt.Errorf("%w: %s; let the broker that took them deliver them, or set ringmq.allowPending=true to leave them untouched", ErrPending, text)
}

type pendingTopic struct {
	topic string
	count int64
}

func (s *Store) pending() []pendingTopic {
	consumed, delayed := s.consumerOffsets(), s.delayOffsets()
	var counts []pendingTopic
	s.queues.Range(func(q *consumequeue.Queue) bool {
		topic, waiting := q.ID.Topic, int64(0)
		switch {
		case topic == halfTopic || topic == halfRocksTopic:
			waiting = unconsumed(q, consumed[topic+"@"+halfGroup])
		case strings.HasPrefix(topic, reviveTopicPrefix):
			waiting = unconsumed(q, consumed[topic+"@"+reviveGroup])
		case topic == scheduleTopic:
			level := strconv.Itoa(int(q.ID.QueueID) + 1)
			waiting = int64(q.Max() - max(q.Min(), message.QueueOffset(delayed[level])))
		case topic == timerTopic:
			waiting = s.timersWaiting(q)
		}
		if waiting > 0 {
			counts = addPending(counts, topic, waiting)
		}
		return true
	})
	return counts
}

func addPending(counts []pendingTopic, topic string, n int64) []pendingTopic {
	for i := range counts {
		if counts[i].topic == topic {
			counts[i].count += n
			return counts
		}
	}
	return append(counts, pendingTopic{topic, n})
}

func unconsumed(q *consumequeue.Queue, offsets map[string]int64) int64 {
	return int64(q.Max() - max(q.Min(), message.QueueOffset(offsets[strconv.Itoa(int(q.ID.QueueID))])))
}

// timersWaiting counts the timer messages that were not yet read into the wheel, and those in it whose time had not come when the broker
// last noted what time it had come to.
func (s *Store) timersWaiting(q *consumequeue.Queue) int64 {
	readMS, readUpTo := s.timerCheck()
	count := int64(0)
	for at := q.Max() - 1; at >= q.Min() && count < pendingEnough; at-- {
		if at >= readUpTo || s.timerOut(q, at) > readMS {
			count++
		}
	}
	return count
}

// timerOut is when a timer message is due; one that does not tell is due never.
func (s *Store) timerOut(q *consumequeue.Queue, at message.QueueOffset) int64 {
	var entry [1]consumequeue.Entry
	if n, err := q.Read(at, entry[:]); err != nil || n == 0 {
		return never
	}
	view, ok := s.log.Segments().View(int64(entry[0].Offset), int(entry[0].Size))
	if !ok {
		return never
	}
	defer view.Release()
	var r message.Record
	if kind, err := check(view.Bytes, entry[0].Offset, &r); err != nil || kind != message.Whole {
		return never
	}
	text, _ := message.Property(r.Properties, propertyTimerOut)
	due, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return never
	}
	return due
}

// timerCheck reads of config/timercheck the time that the wheel had come to and the number of the next timer message to be read.
func (s *Store) timerCheck() (readMS int64, readUpTo message.QueueOffset) {
	b, err := os.ReadFile(filepath.Join(s.paths.config, "timercheck"))
	if err != nil || len(b) < 24 {
		return 0, 0
	}
	return int64(binary.BigEndian.Uint64(b)), message.QueueOffset(binary.BigEndian.Uint64(b[16:]))
}

// consumerOffsets are the offsets by topic@group and queue id.
func (s *Store) consumerOffsets() map[string]map[string]int64 {
	var file struct {
		OffsetTable map[string]map[string]int64 `json:"offsetTable"`
	}
	s.readConfig("consumerOffset.json", &file)
	return file.OffsetTable
}

// delayOffsets are the numbers of the next message to be delivered, by level.
func (s *Store) delayOffsets() map[string]int64 {
	var file struct {
		OffsetTable map[string]int64 `json:"offsetTable"`
	}
	s.readConfig("delayOffset.json", &file)
	return file.OffsetTable
}

// readConfig reads a settings file or, failing that, its backup. With neither nothing is proven, so into stays empty.
func (s *Store) readConfig(name string, into any) {
	path := filepath.Join(s.paths.config, name)
	for _, path := range []string{path, path + ".bak"} {
		if b, err := os.ReadFile(path); err == nil && len(b) > 0 && fastjson.Unmarshal(b, into) == nil {
			return
		}
	}
}
