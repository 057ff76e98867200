package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"ringmq/engine/dispatch"
	"ringmq/engine/inspect"
	"ringmq/engine/repair"
)

// Errors that make `store repair` end with code 1; what they mean has been printed.
var (
	errNotWritten = errors.New("the store needs a repair; nothing has been written, --write does it")
	errLasting    = errors.New("the store is not whole: the log has lost what no repair brings back")
)

func storeRepairCommand() *cobra.Command {
	var f storeFlags
	var write bool
	var jsonFile string
	var o repair.Options
	cmd := &cobra.Command{
		Use:   "repair DIR",
		Short: "Make queues, key files and checkpoint go with the log, and cut its torn end; without --write only say what would be done",
		Long: "Find what verify finds, and say what would put it right: a torn end of the log is cut, queues and key files are completed or made anew\n" +
			"of the log, checkpoint and mark are written. What is removed is kept below DIR/ringmq/cut. What the log itself has lost stays as it is and\n" +
			"is named. Without --write not a byte is written. A store in use is refused.\n\n" +
			"Exit code: 0 whole, with --write after the repair; 1 not whole, or not to be repaired; 2 wrong usage.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.QueueFileSize < 0 || o.QueueFileSize%20 != 0 {
				return usageError{fmt.Errorf("--queueFileSize=%d: allowed are multiples of 20", o.QueueFileSize)}
			}
			if _, err := dispatch.ParseDelays(cmp.Or(o.DelayLevels, dispatch.DefaultDelays)); err != nil {
				return usageError{fmt.Errorf("--delayLevels=%s: %w", o.DelayLevels, err)}
			}
			var err error
			o.Dir, o.LogDir = args[0], f.logDir
			if o.IndexSlots, o.IndexEntries, err = f.indexShape(); err != nil {
				return err
			}
			var done func()
			o.Progress, done = progressOn(cmd.ErrOrStderr())
			defer done()
			if !write {
				p, err := repair.Look(cmd.Context(), o)
				done()
				if err != nil {
					return noStore(err)
				}
				return tellPlan(cmd.OutOrStdout(), jsonFile, p)
			}
			out, err := repair.Do(cmd.Context(), o)
			done()
			if err != nil {
				return noStore(err)
			}
			return tellOutcome(cmd.OutOrStdout(), jsonFile, out)
		},
	}
	f.register(cmd)
	fl := cmd.Flags()
	fl.BoolVar(&write, "write", false, "do it")
	fl.StringVar(&jsonFile, "json", "", "write the report as JSON to `file`; - is the standard output, in place of the text")
	fl.Int64Var(&o.QueueFileSize, "queueFileSize", 0, "mappedFileSizeConsumeQueue in `bytes`, where no queue file tells it")
	fl.StringVar(&o.DelayLevels, "delayLevels", "", "messageDelayLevel of the broker, a `list` of times, where it is not the default")
	fl.BoolVar(&o.NoIndex, "noIndex", false, "the broker keeps no key files (messageIndexEnable=false): do not look at them")
	return cmd
}

func tellPlan(out io.Writer, jsonFile string, p *repair.Plan) error {
	if err := writeJSON(out, jsonFile, p); err != nil {
		return err
	}
	if jsonFile != "-" {
		printPlan(out, p, "would ")
	}
	switch {
	case len(p.Actions) > 0:
		return errNotWritten
	case lastingDamage(p.Lasting):
		return errLasting
	}
	return nil
}

func tellOutcome(out io.Writer, jsonFile string, o *repair.Outcome) error {
	if err := writeJSON(out, jsonFile, o); err != nil {
		return err
	}
	if jsonFile != "-" {
		printPlan(out, o.Plan, "")
		if len(o.Plan.Actions) > 0 {
			fmt.Fprintf(out, "done: %d records were walked over, the log ends at %d, %d bytes were cut, %d queue entries dropped\n",
				o.Records, o.End, o.CutBytes, o.Dropped)
		}
		fmt.Fprintln(out, "verify:")
		printReport(out, o.After)
	}
	switch {
	case o.After.Whole:
		return nil
	case lastingDamage(o.After.Findings):
		return errLasting
	}
	return errNotWhole
}

func printPlan(w io.Writer, p *repair.Plan, mood string) {
	for _, a := range p.Actions {
		fmt.Fprintf(w, "%s%-8s %s: %s\n", mood, a.Verb, placeOf(a.Path, a.Topic, a.QueueID), plainText(a.Text))
	}
	for i := range p.Lasting {
		f := &p.Lasting[i]
		fmt.Fprintf(w, "stays    %s: %s: %s\n", f.Kind, placeOf(f.Path, f.Topic, f.QueueID), plainText(f.Text))
	}
	for _, note := range p.Notes {
		fmt.Fprintf(w, "note     %s\n", note)
	}
	if len(p.Actions) == 0 {
		fmt.Fprintln(w, "nothing to repair")
	}
}

// lastingDamage tells whether the log has lost something.
func lastingDamage(findings []inspect.Finding) bool {
	for i := range findings {
		if findings[i].Lasting && findings[i].Severity != inspect.Unfinished {
			return true
		}
	}
	return false
}
