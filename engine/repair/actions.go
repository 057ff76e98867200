package repair

import (
	"fmt"
	"path/filepath"
	"strconv"

	"ringmq/engine/consumequeue"
	"ringmq/engine/inspect"
	"ringmq/engine/message"
)

// Verb says what an action does.
type Verb string

// The verbs.
const (
	Cut      Verb = "cut"      // bytes behind the end of the log, to ringmq/cut
	Fill     Verb = "fill"     // a short segment, with zeros
	Remove   Verb = "remove"   // a segment without a byte; the abort file
	Complete Verb = "complete" // entries or keys that are missing are put
	Drop     Verb = "drop"     // queue entries of records that are not there
	Rebuild  Verb = "rebuild"  // files go to ringmq/cut, and are made anew of the log
	Write    Verb = "write"    // checkpoint and mark
)

// Action is one thing that a repair does.
type Action struct {
	Verb    Verb   `json:"verb"`
	Path    string `json:"path"`
	Topic   string `json:"topic,omitempty"`
	QueueID *int32 `json:"queueId,omitempty"`
	Offset  int64  `json:"offset"` // in the log, or -1
	Count   int64  `json:"count"`  // bytes of the log, or entries
	Text    string `json:"text"`
}

func (p *Plan) add(verb Verb, path string, offset, n int64, format string, args ...any) {
	p.Actions = append(p.Actions, Action{Verb: verb, Path: path, Offset: offset, Count: n, Text: fmt.Sprintf(format, args...)})
}

func (p *Plan) fromLog(r *inspect.Report) {
	for _, f := range r.Needs.Short {
		if f.Size == 0 {
			p.add(Remove, f.Path, -1, 0, "it has no byte")
			continue
		}
		p.add(Fill, f.Path, -1, f.Full-f.Size, "it has %d bytes of %d: zeros are put behind them", f.Size, f.Full)
	}
	for _, t := range r.Needs.Tail {
		whole := ""
		if t.Records > 0 {
			whole = fmt.Sprintf(", among them %d whole records", t.Records)
		}
		p.add(Cut, t.Path, t.From, t.To-t.From, "%d bytes from %d to %d%s: the log ends at %d; they are kept in %s",
			t.To-t.From, t.From, t.To, whole, r.End, filepath.Join(p.Dir, "ringmq", "cut"))
	}
}

// fromQueues says whether queue files may have to be made.
func (p *Plan) fromQueues(r *inspect.Report) (made bool) {
	for i := range r.Needs.Queues {
		need := &r.Needs.Queues[i]
		made = made || need.Records > 0
		switch {
		case need.Anew:
			p.anew(need.ID)
			p.queue(Rebuild, need.ID, need.Records, fmt.Sprintf("from %d records of the log, the old files go to %s: %s",
				need.Records, filepath.Join(p.Dir, "ringmq", "cut", "consumequeue"), need.Why))
			continue
		case need.Why != "":
			p.queue(Drop, need.ID, 0, "what stands behind its end: "+need.Why)
		}
		if need.Missing > 0 {
			p.queue(Complete, need.ID, need.Missing, entries(need.Missing, "record that has none", "records that have none"))
		}
		if need.Behind > 0 {
			p.queue(Drop, need.ID, need.Behind, entries(need.Behind, "record behind the end of the log", "records behind the end of the log"))
		}
	}
	return made
}

// entries says of how many entries and of what records something is done.
func entries(n int64, one, more string) string {
	if n == 1 {
		return "1 entry of a " + one
	}
	return fmt.Sprintf("%d entries of %s", n, more)
}

func (p *Plan) queue(verb Verb, id consumequeue.ID, n int64, text string) {
	p.Actions = append(p.Actions, Action{
		Verb: verb, Path: filepath.Join(p.Dir, "consumequeue", id.Topic, strconv.Itoa(int(id.QueueID))), Topic: id.Topic, QueueID: &id.QueueID,
		Offset: -1, Count: n, Text: text,
	})
}

// fromIndex decides about the key files. One that ringmq kept can be completed; of one of a Java broker nobody knows what it lacks.
func (p *Plan) fromIndex(o *Options, s *inspect.Store, r *inspect.Report) {
	dir := filepath.Join(p.Dir, "index")
	switch needs := &r.Needs; {
	case o.NoIndex || needs.Index == inspect.IndexWhole && !p.indexBehind(s, r):
		p.repairs.KeepIndex = true
	case needs.Index == inspect.IndexAnew || r.IndexFiles > 0 && !s.OwnIndex():
		p.repairs.NewIndex = true
		p.add(Rebuild, dir, -1, int64(r.IndexFiles), "from %d records of the log, the old files go to %s: %s",
			r.Records, filepath.Join(p.Dir, "ringmq", "cut", "index"), needs.Why)
	case needs.Index == inspect.IndexComplete:
		p.add(Complete, dir, -1, r.KeysMissing, "%s", needs.Why)
	}
}

// indexBehind tells whether ringmq's own file says less of the key files than there is: after a kill their head is made again of it.
func (p *Plan) indexBehind(s *inspect.Store, r *inspect.Report) bool {
	return s.OwnIndex() && (r.Unclean || s.State.Indexed.Position < message.Offset(r.End))
}

// fromSmall comes last: mark and checkpoint are written after everything else, and whenever something was.
func (p *Plan) fromSmall(r *inspect.Report) {
	needs := &r.Needs
	written := make(map[string]bool)
	for _, small := range needs.Small {
		written[small.Path] = true
		p.add(Write, small.Path, -1, 0, "%s", small.Why)
	}
	if len(p.Actions) == 0 && !needs.Abort {
		return
	}
	for _, path := range []string{filepath.Join(p.Dir, "checkpoint"), filepath.Join(p.Dir, "ringmq", "mark")} {
		if !written[path] {
			p.add(Write, path, -1, 0, "as a clean stop leaves it")
		}
	}
	if needs.Abort {
		p.add(Remove, filepath.Join(p.Dir, "abort"), -1, 0, "the last stop was not complete; after the repair nothing is left to do")
	}
}
