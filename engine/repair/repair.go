// Package repair makes the derived files of a store, of ringmq or of a Java broker, go with its log, and cuts a torn end of the log: Look
// says what would be done and writes nothing, Do does it.
//
// What is wrong is found by engine/inspect, and put right by engine.Repair, which is the recovery of every start: there is no second way to
// build a queue. What the log itself has lost cannot be repaired; it is named and left as it is.
package repair

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"ringmq/engine"
	"ringmq/engine/checkpoint"
	"ringmq/engine/consumequeue"
	"ringmq/engine/inspect"
)

// ErrRefused is wrapped when the files are such that no store can be opened on them, and no repair is safe.
var ErrRefused = errors.New("repair: refused")

// Options of a repair. Dir is needed.
type Options struct {
	Dir                      string // storePathRootDir
	LogDir                   string // storePathCommitLog; "": <Dir>/commitlog
	QueueFileSize            int64  // mappedFileSizeConsumeQueue where no queue file tells it; 0: 6,000,000
	IndexSlots, IndexEntries int32  // maxHashSlotNum, maxIndexNum where no key file tells them; 0: the defaults
	DelayLevels              string // messageDelayLevel; "": the default
	NoIndex                  bool   // messageIndexEnable=false: key files are not looked at
	Progress                 func(done, total int64)
	Logger                   *slog.Logger // nil: says nothing
}

// Plan is what a repair does.
type Plan struct {
	Dir     string            `json:"dir"`
	Actions []Action          `json:"actions"`
	Notes   []string          `json:"notes"` // what was taken for granted
	Lasting []inspect.Finding `json:"lasting"`

	repairs engine.Repairs
	options engine.Options
}

// Outcome is what a repair has done.
type Outcome struct {
	Plan     *Plan           `json:"plan"`
	Records  int64           `json:"records"`  // walked over
	CutBytes int64           `json:"cutBytes"` // of the log, kept aside
	Dropped  int             `json:"dropped"`  // queue entries
	End      int64           `json:"end"`      // of the log
	After    *inspect.Report `json:"after"`    // what verify says of the store now
}

// Look finds what would be done. It writes nothing. A store in use is an error that wraps checkpoint.ErrLocked.
func Look(ctx context.Context, o Options) (*Plan, error) {
	s, err := o.inspect(false)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if lock := s.State.Lock; lock.InUse {
		if lock.PID > 0 {
			return nil, fmt.Errorf("repair: store %s is %w by process %d; stop it first", o.Dir, checkpoint.ErrLocked, lock.PID)
		}
		return nil, fmt.Errorf("repair: store %s is %w; stop its broker first", o.Dir, checkpoint.ErrLocked)
	}
	return o.plan(ctx, s)
}

// Do repairs the store, under its lock. When nothing is to be done, nothing is written but the lock file, if there was none.
func Do(ctx context.Context, o Options) (*Outcome, error) {
	s, err := o.inspect(false) // before there is a lock file: the folder may be no store
	if err != nil {
		return nil, err
	}
	s.Close()
	out := new(Outcome)
	options := o.engine(s)
	recovery, err := engine.Repair(options, func() (engine.Repairs, bool, error) {
		locked, err := o.inspect(true)
		if err != nil {
			return engine.Repairs{}, false, err
		}
		defer locked.Close()
		if out.Plan, err = o.plan(ctx, locked); err != nil {
			return engine.Repairs{}, false, err
		}
		return out.Plan.repairs, len(out.Plan.Actions) > 0, nil
	})
	if err != nil {
		return nil, err
	}
	out.Records, out.CutBytes, out.Dropped, out.End = recovery.Records, recovery.CutBytes, recovery.Dropped, int64(recovery.End)
	after, err := o.inspect(false)
	if err != nil {
		return nil, err
	}
	defer after.Close()
	out.After, err = after.Verify(ctx, inspect.VerifyOptions{Progress: o.Progress})
	return out, err
}

func (o *Options) inspect(held bool) (*inspect.Store, error) {
	return inspect.Open(inspect.Options{Dir: o.Dir, LogDir: o.LogDir, IndexSlots: o.IndexSlots, IndexEntries: o.IndexEntries, Held: held})
}

// engine makes the options of the broker whose store it is, as far as the files tell them.
func (o *Options) engine(s *inspect.Store) engine.Options {
	sizes := s.Sizes()
	e := engine.Options{
		Dir: o.Dir, LogDir: o.LogDir, SegmentSize: sizes.Segment, QueueFileSize: sizes.QueueFile, DelayLevels: o.DelayLevels,
		IndexSlots: int64(s.IndexSlots), IndexEntries: int64(s.IndexEntries), NoIndex: o.NoIndex, AllowPending: true, Logger: o.Logger,
	}
	if sizes.QueueFile == 0 {
		e.QueueFileSize = o.QueueFileSize
	}
	return e
}

// plan verifies the store and decides.
func (o *Options) plan(ctx context.Context, s *inspect.Store) (*Plan, error) {
	options := o.engine(s)
	if err := options.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	report, err := s.Verify(ctx, inspect.VerifyOptions{Progress: o.Progress, NoIndex: o.NoIndex})
	if err != nil {
		return nil, err
	}
	needs := &report.Needs
	if len(needs.Refused) > 0 {
		return nil, fmt.Errorf("%w: %s%s", ErrRefused, needs.Refused[0], more(len(needs.Refused)-1))
	}
	p := &Plan{Dir: o.Dir, Actions: []Action{}, Notes: []string{}, Lasting: []inspect.Finding{}, options: options}
	for _, f := range report.Findings {
		if f.Lasting {
			p.Lasting = append(p.Lasting, f)
		}
	}
	p.fromLog(report)
	made := p.fromQueues(report)
	p.fromIndex(o, s, report)
	p.fromSmall(report)
	if made && s.Sizes().QueueFile == 0 && o.QueueFileSize == 0 {
		p.Notes = append(p.Notes, "no queue file tells mappedFileSizeConsumeQueue: 6000000 is taken")
	}
	if needs.Index != inspect.IndexWhole && s.IndexSlots == 0 {
		p.Notes = append(p.Notes, "no key file tells maxHashSlotNum and maxIndexNum: 5000000 and 20000000 are taken")
	}
	return p, nil
}

func more(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n)
}

// anew notes that a queue's files are made anew.
func (p *Plan) anew(id consumequeue.ID) { p.repairs.Queues = append(p.repairs.Queues, id) }
