package engine

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"ringmq/engine/commitlog"
	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
	"ringmq/internal/durable"
)

const (
	// linesOfDamage is how many damaged stretches are told one by one at a start, and maxDamaged how many are kept in memory: a log can be
	// hostile. What is not kept is found out when it is pulled, but for a wrong checksum of a body, which a client sees.
	linesOfDamage = 100
	maxDamaged    = 1 << 16
)

// foundDamage notes a stretch of the log without a whole record.
func (s *Store) foundDamage(d commitlog.Damage) {
	r := &s.recovery
	r.DamagedCount++
	if len(r.Damaged) < maxDamaged {
		r.Damaged = append(r.Damaged, d)
	}
	switch {
	case r.DamagedCount <= linesOfDamage:
		s.options.Logger.Error("the commit log is damaged, no whole record stands here; good ones behind it are kept",
			"from", d.From, "to", d.To, "reason", d.Reason)
	case r.DamagedCount == linesOfDamage+1:
		s.options.Logger.Error("the commit log is damaged at more places, which are not told one by one", "from", d.From)
	}
}

// damagedHead is the first line of ringmq/damaged. Each other line is a stretch: its first position, that behind it, the reason.
const (
	damagedHead    = "ringmq damaged 1"
	maxDamagedFile = 16 << 20
)

// loadDamage reads what earlier starts have found, in the order of the log. A walk begins behind it, and a pull does not look at all of a record.
func (s *Store) loadDamage() []commitlog.Damage {
	f, err := os.Open(s.paths.damaged)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var list []commitlog.Damage
	if err == nil {
		list, err = readDamage(io.LimitReader(f, maxDamagedFile))
		f.Close()
	}
	if err != nil {
		s.options.Logger.Warn("what is known of damage cannot be read; it is found again when it is pulled", "path", s.paths.damaged, "error", err)
		return nil
	}
	return list
}

func readDamage(r io.Reader) (list []commitlog.Damage, err error) {
	lines := bufio.NewScanner(r)
	if !lines.Scan() || lines.Text() != damagedHead {
		return nil, fmt.Errorf("engine: the first line is %.40q, must be %q", lines.Text(), damagedHead)
	}
	end := message.Offset(0)
	for lines.Scan() {
		var d commitlog.Damage
		from, rest, _ := strings.Cut(lines.Text(), " ")
		to, reason, _ := strings.Cut(rest, " ")
		first, err1 := strconv.ParseInt(from, 10, 64)
		behind, err2 := strconv.ParseInt(to, 10, 64)
		d = commitlog.Damage{From: message.Offset(first), To: message.Offset(behind), Reason: reason}
		if err1 != nil || err2 != nil || d.From < end || d.From >= d.To || len(list) >= maxDamaged {
			return nil, fmt.Errorf("engine: line %.80q behind position %d, must be two rising positions and a reason", lines.Text(), end)
		}
		list, end = append(list, d), d.To
	}
	return list, lines.Err()
}

func appendDamage(b []byte, list []commitlog.Damage) []byte {
	b = append(b, damagedHead+"\n"...)
	for _, d := range list {
		b = fmt.Appendf(b, "%d %d %s\n", d.From, d.To, strings.ReplaceAll(d.Reason, "\n", " "))
	}
	return b
}

// fromHealed lowers from to where damage was that is gone, since somebody has brought a segment back: its records get entries and keys.
func (s *Store) fromHealed(from message.Offset, known []commitlog.Damage) (message.Offset, error) {
	low := from
	for _, d := range known {
		if d.From >= s.log.Min() && d.From < low && s.healed(d) {
			low = d.From
		}
	}
	if low == from {
		return from, nil
	}
	s.options.Logger.Info("damage of the commit log is gone, its records are taken up again", "from", low)
	if s.index != nil && s.index.Next() > low {
		return low, s.index.Reset(s.log.Min())
	}
	return low, nil
}

// healed tells whether whole records stand side by side where damage was.
func (s *Store) healed(d commitlog.Damage) bool {
	size := message.Offset(s.options.SegmentSize)
	var r message.Record
	for at := d.From; at < d.To; {
		segmentEnd := at - at%size + size
		view, ok := s.log.Segments().View(int64(at), int(segmentEnd-at))
		if !ok {
			return false
		}
		kind, err := check(view.Bytes, at, &r)
		step := message.Offset(r.Size)
		view.Release()
		if err != nil || kind != message.Whole && kind != message.Blank {
			return false
		}
		at += step
	}
	return true
}

// keepDamage adds what the walk from a position on has found to what was known before it, and saves that.
func (s *Store) keepDamage(known []commitlog.Damage, from message.Offset) {
	var list []commitlog.Damage
	for _, d := range known {
		if d.To > s.log.Min() && d.From < from {
			d.To = min(d.To, from) // a queue that has lost its end may have had the walk begin within it
			list = append(list, d)
		}
	}
	if n := len(list); n > 0 {
		s.options.Logger.Error("the commit log is damaged where earlier starts have found it", "places", n, "first", list[0].From, "last", list[n-1].From)
	}
	list = append(list, s.recovery.Damaged...)
	list = list[:min(len(list), maxDamaged)]
	s.recovery.Damaged = list
	var err error
	switch {
	case slices.Equal(list, known):
	case len(list) == 0:
		err = durable.Remove(s.paths.damaged)
	default:
		err = durable.WriteFile(s.paths.damaged, appendDamage(nil, list))
	}
	if err != nil {
		s.options.Logger.Error("what is known of damage cannot be saved; the next start may not know it", "path", s.paths.damaged, "error", err)
	}
}

// knownDamaged: a walk found that no whole record stands there, whatever its head looks like.
func (s *Store) knownDamaged(entry consumequeue.Entry) bool {
	list := s.recovery.Damaged
	if len(list) == 0 {
		return false
	}
	i, _ := slices.BinarySearchFunc(list, entry.Offset, func(d commitlog.Damage, at message.Offset) int {
		if d.To <= at {
			return -1
		}
		return 1
	})
	return i < len(list) && list[i].From < entry.End()
}

// damaged tells of an entry that was passed over, at most once a second: a consumer comes by again and again.
func (s *Store) damaged(q *consumequeue.Queue, at message.QueueOffset, entry consumequeue.Entry) {
	s.metrics.Damaged.Add(1)
	now := time.Now().UnixNano()
	last := s.damageTold.Load()
	if now-last < int64(time.Second) || !s.damageTold.CompareAndSwap(last, now) {
		return
	}
	s.options.Logger.Error("a message is damaged and was passed over", "topic", q.ID.Topic, "queue", q.ID.QueueID, "number", at,
		"offset", entry.Offset, "size", entry.Size, "passed over so far", s.metrics.Damaged.Load())
}

// taken decides between two records that claim one number of a queue: the entry that was there before stays when it points to a whole record
// which bears the number, for that is the message consumers have seen. Else the later record has it, as with the broker that wrote it.
func (s *Store) taken(q *consumequeue.Queue, r *message.Record, there, made consumequeue.Entry, found bool) bool {
	if there.Offset == made.Offset || there.Filler() {
		return false
	}
	stays := found && s.bearsNumber(q, r.QueueOffset, there)
	if s.recovery.Twice++; s.recovery.Twice <= linesOfDamage {
		s.options.Logger.Warn("two records claim one number of a queue", "topic", q.ID.Topic, "queue", q.ID.QueueID, "number", r.QueueOffset,
			"entry", there.Offset, "record", made.Offset, "entry stays", stays)
	}
	return stays
}

// bearsNumber tells whether an entry points to a whole record of its queue with its number.
func (s *Store) bearsNumber(q *consumequeue.Queue, number message.QueueOffset, e consumequeue.Entry) bool {
	view, ok := s.log.Segments().View(int64(e.Offset), int(e.Size))
	if !ok {
		return false
	}
	defer view.Release()
	var r message.Record
	kind, err := check(view.Bytes, e.Offset, &r)
	return err == nil && kind == message.Whole && string(r.Topic) == q.ID.Topic && r.QueueID == q.ID.QueueID &&
		r.QueueOffset == number && r.Size == e.Size
}
