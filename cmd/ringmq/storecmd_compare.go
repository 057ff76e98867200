package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"ringmq/engine/inspect"
)

// errDiffer makes `store compare` end with code 1; where the stores part has been printed.
var errDiffer = errors.New("the stores differ")

func storeCompareCommand() *cobra.Command {
	var logDirs [2]string
	var only []string
	var jsonFile string
	cmd := &cobra.Command{
		Use:   "compare DIR DIR",
		Short: "Say where two stores part: records, queues, keys, settings; code 1 if they differ",
		Long: "Compare two stores, as those of a master and its slave, or one before and after: every record with all its fields, minimum, maximum and entries\n" +
			"of each queue, the part of the log that has keys, and the settings. With segments of one size records are compared at their places, else\n" +
			"in turn, all but their places. Of a store in use, what stands behind the end of the other is not judged.\n\n" +
			"Exit code: 0 equal, 1 they differ or could not be read, 2 wrong usage.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageError{fmt.Errorf("%s takes two folders, those of storePathRootDir, not %d", cmd.CommandPath(), len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			parts, err := partsOf(only)
			if err != nil {
				return usageError{err}
			}
			var stores [2]*inspect.Store
			for i, dir := range args {
				if stores[i], err = inspect.Open(inspect.Options{Dir: dir, LogDir: logDirs[i]}); err != nil {
					return noStore(err)
				}
				defer stores[i].Close()
			}
			progress, done := progressOn(cmd.ErrOrStderr())
			c, err := inspect.Compare(cmd.Context(), stores[0], stores[1], inspect.CompareOptions{Parts: parts, Progress: progress})
			done()
			if err != nil {
				return err
			}
			if err := writeJSON(cmd.OutOrStdout(), jsonFile, c); err != nil {
				return err
			}
			if jsonFile != "-" {
				printComparison(cmd.OutOrStdout(), c)
			}
			if !c.Equal {
				return errDiffer
			}
			return nil
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&logDirs[0], "commitlog", "", "`folder` of the first store's log, where storePathCommitLog names another than DIR/commitlog")
	fl.StringVar(&logDirs[1], "commitlog2", "", "`folder` of the second store's log, likewise")
	fl.StringSliceVar(&only, "only", nil, "compare these `parts` only: log, queues, index, config")
	fl.StringVar(&jsonFile, "json", "", "write the report as JSON to `file`; - is the standard output, in place of the text")
	return cmd
}

func partsOf(names []string) (parts []inspect.Part, err error) {
	for _, name := range names {
		switch part := inspect.Part(name); part {
		case inspect.PartLog, inspect.PartQueues, inspect.PartIndex, inspect.PartConfig:
			parts = append(parts, part)
		default:
			return nil, fmt.Errorf("--only=%s: allowed are log, queues, index, config", name)
		}
	}
	return parts, nil
}

func printComparison(w io.Writer, c *inspect.Comparison) {
	for _, d := range c.Differences {
		fmt.Fprintf(w, "%-7s %s: %s\n", d.Part, plainText(d.Place), plainText(d.Text))
	}
	if c.Unlisted > 0 {
		fmt.Fprintf(w, "and %s more\n", count(c.Unlisted, "difference"))
	}
	printSide(w, "first", &c.A)
	printSide(w, "second", &c.B)
	how := "at their places"
	if !c.ByOffset {
		how = "in turn and without their places, since the segments have different sizes"
	}
	fmt.Fprintf(w, "records were compared %s: %d are equal\n", how, c.SameRecords)
	if c.Equal {
		fmt.Fprintln(w, "equal")
	}
}

func printSide(w io.Writer, name string, s *inspect.Side) {
	fmt.Fprintf(w, "%-7s %s: %s in %d to %d, segments of %d bytes, %s, %s in %s", name, s.Dir, count(s.Records, "record"), s.Min, s.End,
		s.SegmentSize, count(s.Queues, "queue"), count(s.Keys, "key"), count(s.IndexFiles, "file"))
	if s.HoleBytes > 0 {
		fmt.Fprintf(w, ", %d bytes hold no whole record", s.HoleBytes)
	}
	if s.InUse {
		fmt.Fprint(w, ", in use")
	}
	fmt.Fprintln(w)
}
