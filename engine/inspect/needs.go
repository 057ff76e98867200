package inspect

import (
	"fmt"

	"ringmq/engine/consumequeue"
)

// Needs is what a repair has to do, as Verify found it. What the log has lost is not among it: see Finding.Lasting.
type Needs struct {
	Refused []string    // why no store can be opened on these files
	Short   []ShortFile // segments at the end of the log that an allocation cut short
	Tail    []Stretch   // bytes behind the end of the log, by segment
	Queues  []QueueNeed // by topic, then queue id
	Index   IndexNeed   // of all key files together
	Why     string      // of Index
	Small   []SmallNeed // checkpoint and mark, as far as they are wrong
	Abort   bool        // the abort file is there
}

// ShortFile is a segment of less than its size: one without a byte goes, another is filled up with zeros.
type ShortFile struct {
	Path       string
	Size, Full int64
}

// Stretch is a part of one segment.
type Stretch struct {
	Path     string
	From, To int64
	Records  int64 // whole ones
}

// QueueNeed is what one queue needs. Several may be so at once; Anew makes the others needless.
type QueueNeed struct {
	ID       consumequeue.ID
	Missing  int64  // records without an entry, which is put
	Behind   int64  // entries of records behind the end of the log, which go
	Anew     bool   // entries are wrong: all are made anew
	Records  int64  // of it in the log
	Why      string // of Anew
	NoFolder bool
}

// IndexNeed is what the key files need.
type IndexNeed int

// What key files may need.
const (
	IndexWhole    IndexNeed = iota
	IndexComplete           // records lack keys
	IndexAnew               // something in it is wrong
)

// SmallNeed is a small file that is to be written anew.
type SmallNeed struct {
	Path string
	Why  string
}

// None tells that there is nothing to do.
func (n *Needs) None() bool {
	return len(n.Refused) == 0 && len(n.Short) == 0 && len(n.Tail) == 0 && len(n.Queues) == 0 && n.Index == IndexWhole && len(n.Small) == 0 && !n.Abort
}

func (n *Needs) needIndex(need IndexNeed, why string) {
	if need > n.Index {
		n.Index, n.Why = need, why
	}
}

func (n *Needs) needSmall(path, why string) {
	for _, known := range n.Small {
		if known.Path == path {
			return
		}
	}
	n.Small = append(n.Small, SmallNeed{path, why})
}

// planSegments finds what an open makes of the sizes of segments, and which it refuses.
func (n *Needs) planSegments(s *Store) {
	last := len(s.segments) - 1
	for ; last >= 0 && s.segments[last].size == 0; last-- {
		n.Short = append(n.Short, ShortFile{s.segments[last].path, 0, s.segmentSize})
	}
	for i := range last + 1 {
		f := &s.segments[i]
		switch {
		case f.base%s.segmentSize != 0:
			n.Refused = append(n.Refused, fmt.Sprintf("%s: its name is no multiple of the size of segments, %d", f.path, s.segmentSize))
		case f.size == s.segmentSize:
		case f.size < s.segmentSize && i == last:
			n.Short = append(n.Short, ShortFile{f.path, f.size, s.segmentSize})
		default:
			n.Refused = append(n.Refused, fmt.Sprintf("%s: it has %d bytes, a segment of this log has %d", f.path, f.size, s.segmentSize))
		}
	}
}

// needQueue notes what a queue's cursor has found.
func (n *Needs) needQueue(c *cursor) {
	need := QueueNeed{ID: c.q.id, Records: c.records, Why: c.anew}
	for _, p := range []problem{missingFront, missingBack} {
		if found := c.problems[p]; found != nil {
			need.Missing += found.count
		}
	}
	if found := c.problems[beyond]; found != nil {
		need.Behind = found.count
	}
	for _, p := range []problem{wrong, wrongTags} {
		if found := c.problems[p]; found != nil && need.Why == "" {
			need.Why = found.why
		}
	}
	need.Anew = need.Why != "" && need.Records > 0
	if need.Why != "" || need.Missing > 0 || need.Behind > 0 {
		n.Queues = append(n.Queues, need)
	}
}
