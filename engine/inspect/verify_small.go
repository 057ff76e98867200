package inspect

import (
	"fmt"
	"path/filepath"

	"ringmq/engine/consumequeue"
)

// checkCheckpoint compares what the checkpoint claims with the log.
func (v *verifier) checkCheckpoint() {
	st, r := &v.s.State, &v.report
	path := filepath.Join(v.s.dir, "checkpoint")
	if st.CheckpointError != nil {
		v.small(KindCheckpoint, path, st.CheckpointError.Error())
	}
	if !st.HasCheckpoint {
		if st.CheckpointError == nil {
			v.small(KindCheckpoint, path, "it is missing")
		}
		return
	}
	c := &st.Checkpoint
	for _, claim := range []struct {
		what string
		ms   int64
	}{{"flushed", c.LogTimeMS}, {"in a flushed queue", c.QueueTimeMS}, {"in a full index file", c.IndexTimeMS}} {
		if claim.ms > r.LastTimeMS {
			v.small(KindCheckpoint, path, fmt.Sprintf("it says that a message stored at %s is %s; the last one of the log was stored at %s",
				timeText(claim.ms), claim.what, timeText(r.LastTimeMS)))
		}
	}
	for _, claim := range []struct {
		what   string
		offset int64
	}{{"confirmed up to", int64(c.Confirmed)}, {"in flushed queues up to", int64(c.QueueOffset)}} {
		if claim.offset > r.End {
			v.small(KindCheckpoint, path, fmt.Sprintf("it says that the log is %s %d; it ends at %d", claim.what, claim.offset, r.End))
		}
	}
}

// checkMark compares what the mark claims with log and queues.
func (v *verifier) checkMark() {
	st, r := &v.s.State, &v.report
	path := filepath.Join(v.s.dir, "ringmq", "mark")
	if st.MarkError != nil {
		v.small(KindMark, path, st.MarkError.Error())
	}
	if !st.HasMark {
		return
	}
	m := &st.Mark
	if v.markWhy != "" {
		if int64(m.Last) < r.Min && m.Last >= 0 {
			return // its record has gone the way of all old ones
		}
		v.small(KindMark, path, "it is not of this log: "+v.markWhy)
		return
	}
	if !v.markStands {
		return
	}
	if int64(m.Flushed) > r.End {
		v.small(KindMark, path, fmt.Sprintf("it says that the device has the log up to %d; it ends at %d", m.Flushed, r.End))
	}
	for i := range m.Queues {
		q := &m.Queues[i]
		c := v.cursors[q.Topic][q.QueueID]
		end := int64(0)
		if c != nil {
			end = c.end
		}
		if end < int64(q.Max) {
			id := q.QueueID
			text := fmt.Sprintf("it says that queue %s has entries up to %d; it ends at %d",
				queueName(consumequeue.ID{Topic: q.Topic, QueueID: q.QueueID}), q.Max, end)
			r.Needs.needSmall(path, text)
			r.add(Finding{Kind: KindMark, Severity: Damage, Path: path, Topic: q.Topic, QueueID: &id, Offset: -1, Number: end, Count: int64(q.Max) - end, Text: text})
		}
	}
}

// small adds a finding about a small file, which a repair writes anew.
func (v *verifier) small(kind Kind, path, text string) {
	v.report.Needs.needSmall(path, text)
	v.report.add(damaged(kind, path, "%s", text))
}
