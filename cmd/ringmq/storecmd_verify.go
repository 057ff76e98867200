package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"ringmq/engine/inspect"
)

// errNotWhole makes `store verify` end with code 1; what it means has been printed.
var errNotWhole = errors.New("the store is not whole")

func storeVerifyCommand() *cobra.Command {
	var f storeFlags
	var jsonFile string
	var noIndex bool
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Check every record, every queue and key entry, checkpoint and mark; code 1 if the store is not whole",
		Long: "Check every record against its checksum and place, every queue and key entry against its record and every record against its entries,\n" +
			"the chains of key files, checkpoint and mark against all that. A store in use is checked up to its last whole record; what moves behind it is not judged.\n\n" +
			"Exit code: 0 whole, 1 not whole or not to be checked, 2 wrong usage.",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := f.open(args[0])
			if err != nil {
				return err
			}
			defer s.Close()
			progress, done := progressOn(cmd.ErrOrStderr())
			report, err := s.Verify(cmd.Context(), inspect.VerifyOptions{Progress: progress, NoIndex: noIndex})
			done()
			if err != nil {
				return err
			}
			return tellReport(cmd.OutOrStdout(), jsonFile, report)
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&noIndex, "noIndex", false, "do not look at key files, nor miss them (messageIndexEnable=false)")
	cmd.Flags().StringVar(&jsonFile, "json", "", "write the report as JSON to `file`; - is the standard output, in place of the text")
	return cmd
}

func tellReport(out io.Writer, jsonFile string, report *inspect.Report) error {
	if err := writeJSON(out, jsonFile, report); err != nil {
		return err
	}
	if jsonFile != "-" {
		printReport(out, report)
	}
	if !report.Whole {
		return errNotWhole
	}
	return nil
}

// writeJSON writes a report to a file, or to out for -; without a name nowhere.
func writeJSON(out io.Writer, name string, report any) error {
	if name == "" {
		return nil
	}
	text, err := json.MarshalIndent(report, "", "\t")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if name == "-" {
		_, err = out.Write(text)
	} else {
		err = os.WriteFile(name, text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

func printReport(w io.Writer, r *inspect.Report) {
	for i := range r.Findings {
		f := &r.Findings[i]
		fmt.Fprintf(w, "%-10s %s: %s: %s\n", f.Severity, f.Kind, placeOf(f.Path, f.Topic, f.QueueID), plainText(f.Text))
	}
	if r.Unlisted > 0 {
		fmt.Fprintf(w, "and %s more\n", count(r.Unlisted, "finding"))
	}
	fmt.Fprintf(w, "log: %s in %d to %d, %s of %d bytes", count(r.Records, "record"), r.Min, r.End, count(r.Segments, "segment"), r.SegmentSize)
	if r.Records > 0 {
		fmt.Fprintf(w, ", stored %s to %s", storeTime(r.FirstTimeMS), storeTime(r.LastTimeMS))
	}
	fmt.Fprintf(w, "\nqueues: %d with %d entries", r.Queues, r.Entries)
	if r.Expired > 0 {
		fmt.Fprintf(w, ", %d of them of records that retention has removed", r.Expired)
	}
	if r.Fillers > 0 {
		fmt.Fprintf(w, ", %d of them fillers", r.Fillers)
	}
	fmt.Fprintf(w, "\nkey files: %d with %d entries", r.IndexFiles, r.IndexEntries)
	if r.IndexExpired > 0 {
		fmt.Fprintf(w, ", %d of them of records that retention has removed", r.IndexExpired)
	}
	if r.Sealed > 0 {
		fmt.Fprintf(w, "\nseals: %d compared with their segments", r.Sealed)
	}
	fmt.Fprintf(w, "\nread: %.1f MiB of log in %v, %.0f MB/s\n", float64(r.Bytes)/(1<<20), time.Duration(r.TookMS)*time.Millisecond, float64(r.BytesPerSecond)/1e6)
	if r.InUse {
		fmt.Fprintf(w, "in use: checked up to %d, what stands behind it moves; %d records there wait for their entry\n", r.End, r.Waiting)
	}
	switch unfinished := int64(len(r.Findings)) + r.Unlisted - r.Damages; {
	case !r.Whole:
		fmt.Fprintf(w, "NOT WHOLE; damage or torn: %d, unfinished: %d\n", r.Damages, unfinished)
	case unfinished > 0:
		fmt.Fprintf(w, "whole; unfinished, for the next start to mend or pass over: %d\n", unfinished)
	default:
		fmt.Fprintln(w, "whole")
	}
}

// placeOf names a queue, or a file.
func placeOf(path, topic string, queueID *int32) string {
	if queueID == nil {
		return plainText(path)
	}
	return fmt.Sprintf("queue %s/%d", plainText(topic), *queueID)
}

// progressOn draws a bar if out is a terminal. done wipes it out.
func progressOn(out io.Writer) (progress func(done, total int64), done func()) {
	file, ok := out.(*os.File)
	if !ok {
		return nil, func() {}
	}
	if _, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS); err != nil {
		return nil, func() {}
	}
	var bar *progressbar.ProgressBar
	progress = func(done, total int64) {
		if bar == nil {
			bar = progressbar.NewOptions64(max(total, 1), progressbar.OptionSetWriter(file), progressbar.OptionSetDescription("log"),
				progressbar.OptionShowBytes(true), progressbar.OptionUseIECUnits(true), progressbar.OptionSetWidth(40),
				progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
		}
		_ = bar.Set64(done) // a bar that cannot be drawn is no reason to stop
	}
	return progress, func() {
		if bar != nil {
			_ = bar.Finish()
		}
	}
}
