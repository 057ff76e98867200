package inspect

import (
	"fmt"
	"time"
)

// Severity says what a finding means.
type Severity string

// The severities. A store is whole when it has findings of the last one only.
const (
	Damage     Severity = "damage"     // something that was written is lost or wrong
	Torn       Severity = "torn"       // after an unclean stop, bytes behind the end of the log or a queue: the next start cuts them
	Unfinished Severity = "unfinished" // what an unclean stop leaves of derived files; the next start builds it
)

// Kind says what a finding is about.
type Kind string

// The kinds.
const (
	KindSegment    Kind = "segment"    // a file of the log: missing, of another size, unreadable
	KindRecord     Kind = "record"     // a stretch of the log that holds no whole record
	KindTail       Kind = "tail"       // bytes behind the end of the log
	KindQueueFile  Kind = "queue file" // a file of a queue: missing, of another size, with data behind a hole
	KindEntry      Kind = "entry"      // an entry that its record does not bear out
	KindMissing    Kind = "missing"    // a record without an entry
	KindTags       Kind = "tags"       // an entry with another tags code than its record
	KindIndex      Kind = "index"      // a key file, or keys of records
	KindSeal       Kind = "seal"       // bytes of a segment that are not as they were sealed, or a seal
	KindCheckpoint Kind = "checkpoint"
	KindMark       Kind = "mark"
	KindStray      Kind = "stray" // a file that has no place where it is
)

// Finding is one thing that is not as it should be.
type Finding struct {
	Kind     Kind     `json:"kind"`
	Severity Severity `json:"severity"`
	Path     string   `json:"path,omitempty"`
	Topic    string   `json:"topic,omitempty"`
	QueueID  *int32   `json:"queueId,omitempty"`
	Offset   int64    `json:"offset"`            // in the log, or -1
	Number   int64    `json:"number"`            // of the first entry, or -1
	Count    int64    `json:"count,omitempty"`   // of bytes, records or entries
	Records  int64    `json:"records,omitempty"` // whole ones behind a torn place
	Lasting  bool     `json:"lasting,omitempty"` // no repair takes it away: it is the log that has lost something
	Text     string   `json:"text"`
}

// Report is what Verify found.
type Report struct {
	Dir     string `json:"dir"`
	Whole   bool   `json:"whole"`
	InUse   bool   `json:"inUse"`   // checked up to End, what stands behind it moves
	Unclean bool   `json:"unclean"` // an abort file is there, or the store is in use

	Segments    int   `json:"segments"`
	SegmentSize int64 `json:"segmentSize"`
	Min         int64 `json:"min"` // first byte of the log
	End         int64 `json:"end"` // behind its last whole record
	Bytes       int64 `json:"bytes"`
	Records     int64 `json:"records"`
	FirstTimeMS int64 `json:"firstStoreTimeMS"`
	LastTimeMS  int64 `json:"lastStoreTimeMS"`

	Queues        int   `json:"queues"`
	QueueFileSize int64 `json:"queueFileSize"`
	Entries       int64 `json:"entries"`
	Expired       int64 `json:"expired"` // entries of records before the log's first byte
	Fillers       int64 `json:"fillers"`
	Waiting       int64 `json:"waiting"` // records at the tail whose entry is not written yet

	IndexFiles   int   `json:"indexFiles"`
	IndexEntries int64 `json:"indexEntries"`
	IndexExpired int64 `json:"indexExpired"` // entries of records before the log's first byte
	KeysMissing  int64 `json:"keysMissing"`  // records whose keys are not there yet

	Sealed int `json:"sealedSegments"` // compared with their seals

	Needs Needs `json:"-"` // what a repair has to do

	Findings []Finding `json:"findings"`
	Damages  int64     `json:"damages"`  // how many findings are damage or torn
	Unlisted int64     `json:"unlisted"` // findings beyond those that are listed

	TookMS         int64 `json:"tookMS"`
	BytesPerSecond int64 `json:"bytesPerSecond"`
}

// maxFindings bounds the list; the counts go on.
const maxFindings = 1000

func (r *Report) add(f Finding) {
	if f.Severity != Unfinished {
		r.Damages++
	}
	if len(r.Findings) >= maxFindings {
		r.Unlisted++
		return
	}
	r.Findings = append(r.Findings, f)
}

func (r *Report) finish(began time.Time) {
	took := time.Since(began)
	r.Whole = r.Damages == 0
	r.TookMS = took.Milliseconds()
	if took > 0 {
		r.BytesPerSecond = int64(float64(r.Bytes) / took.Seconds())
	}
}

// damaged makes a finding that concerns neither a place of the log nor an entry.
func damaged(kind Kind, path, format string, args ...any) Finding {
	return Finding{Kind: kind, Severity: Damage, Path: path, Offset: -1, Number: -1, Text: fmt.Sprintf(format, args...)}
}
