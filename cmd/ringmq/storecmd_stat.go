package main

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"ringmq/engine/inspect"
)

func storeStatCommand() *cobra.Command {
	var f storeFlags
	cmd := &cobra.Command{
		Use:   "stat DIR",
		Short: "List files, offsets, times and queues of a store; also of one in use",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := f.open(args[0])
			if err != nil {
				return err
			}
			defer s.Close()
			sum, err := s.Stat(cmd.Context())
			if err != nil {
				return err
			}
			return printStat(cmd.OutOrStdout(), sum)
		},
	}
	f.register(cmd)
	return cmd
}

func printStat(out io.Writer, sum *inspect.Summary) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "store\t%s\n", sum.Dir)
	fmt.Fprintf(w, "state\t%s\n", stateText(sum.State))
	printLogLine(w, sum)
	printSmallFiles(w, sum.State)
	for _, path := range sum.Strays {
		fmt.Fprintf(w, "stray\t%q\n", path)
	}
	if len(sum.Segments) > 0 {
		fmt.Fprint(w, "\nsegment\tbytes\tallocated\tfirst stored\tlast stored\tmodified\n")
	}
	for i := range sum.Segments {
		printSegment(w, sum, &sum.Segments[i])
	}
	for _, gap := range sum.Gaps {
		fmt.Fprintf(w, "missing\t%d\tfrom %d to %d\n", gap.To-gap.From, gap.From, gap.To)
	}
	printKeyFiles(w, sum.KeyFiles)
	if len(sum.Queues) > 0 {
		fmt.Fprint(w, "\nqueue\tfiles\tfirst\tmin\tmax\tmessages\n")
	}
	for i := range sum.Queues {
		q := &sum.Queues[i]
		fmt.Fprintf(w, "%s/%d\t%d\t%d\t%d\t%d\t%d", plainText(q.ID.Topic), q.ID.QueueID, q.Files, q.First, q.Min, q.Max, q.Max-q.Min)
		if q.Err != nil {
			fmt.Fprintf(w, "\t%v", q.Err)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

func printKeyFiles(w io.Writer, files []inspect.KeyFileSummary) {
	if len(files) > 0 {
		fmt.Fprint(w, "\nkey file\tbytes\tkeys\tfirst record\tlast record\tfirst stored\tlast stored\n")
	}
	for i := range files {
		f, h := &files[i], &files[i].Header
		if f.Err != nil {
			fmt.Fprintf(w, "%s\t%d\t%v\n", f.Name, f.Size, f.Err)
			continue
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\t%s\n", f.Name, f.Size, h.Count-1, h.Begin, h.End, storeTime(h.BeginMS), storeTime(h.EndMS))
	}
}

func printLogLine(w io.Writer, sum *inspect.Summary) {
	if len(sum.Segments) == 0 {
		fmt.Fprint(w, "log\tno segment\n")
		return
	}
	used, first, last := 0, int64(0), int64(0)
	for i := range sum.Segments {
		st := &sum.Segments[i]
		if st.Ahead {
			continue
		}
		used++
		first, last = cmp.Or(first, st.FirstMS), max(last, st.LastMS)
	}
	fmt.Fprintf(w, "log\t%d to %d, %s of %d bytes and %d ahead\n", sum.Min, sum.End, count(used, "segment"), sum.SegmentSize, len(sum.Segments)-used)
	if first > 0 {
		fmt.Fprintf(w, "stored\t%s to %s\n", storeTime(first), storeTime(last))
	}
	messages := int64(0)
	for i := range sum.Queues {
		messages += sum.Queues[i].Max - sum.Queues[i].Min
	}
	fmt.Fprintf(w, "queues\t%d with %s, files of %d bytes\n", len(sum.Queues), count(messages, "message"), sum.QueueFileSize)
}

func printSmallFiles(w io.Writer, st *inspect.State) {
	switch c := &st.Checkpoint; {
	case st.CheckpointError != nil:
		fmt.Fprintf(w, "checkpoint\t%v\n", st.CheckpointError)
	case !st.HasCheckpoint:
		fmt.Fprint(w, "checkpoint\tmissing\n")
	default:
		fmt.Fprintf(w, "checkpoint\tlog %s, queues %s, index %s; master flushed %d, confirmed %d, queues up to %d\n",
			storeTime(c.LogTimeMS), storeTime(c.QueueTimeMS), storeTime(c.IndexTimeMS), c.MasterFlushed, c.Confirmed, c.QueueOffset)
	}
	switch m := &st.Mark; {
	case st.MarkError != nil:
		fmt.Fprintf(w, "mark\t%v\n", st.MarkError)
	case !st.HasMark:
		fmt.Fprint(w, "mark\tnone\n")
	default:
		fmt.Fprintf(w, "mark\tflushed %d, dispatched %d, last record %d stored %s, limit %d, clean stop %v, %d queues\n",
			m.Flushed, m.Dispatched, m.Last, storeTime(m.LastStoreTimeMS), m.Limit, m.Clean, len(m.Queues))
	}
	for i, file := range st.Config {
		head := ""
		if i == 0 {
			head = "config"
		}
		fmt.Fprintf(w, "%s\t%s, %d bytes\n", head, plainText(file.Name), file.Size)
	}
}

func printSegment(w io.Writer, sum *inspect.Summary, st *inspect.SegmentSummary) {
	fmt.Fprintf(w, "%s\t%d\t%d\t", st.Name, st.Size, st.AllocatedBytes)
	switch {
	case st.Err != nil:
		fmt.Fprintf(w, "%v\t\t", st.Err)
	case st.Ahead:
		fmt.Fprint(w, "ahead\t\t")
	default:
		fmt.Fprintf(w, "%s\t%s\t", storeTime(st.FirstMS), storeTime(st.LastMS))
	}
	fmt.Fprint(w, st.Modified.UTC().Format(timeLayout))
	if st.Size != sum.SegmentSize {
		fmt.Fprint(w, "\tnot the size of the others")
	}
	fmt.Fprintln(w)
}
