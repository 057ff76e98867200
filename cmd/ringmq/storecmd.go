package main

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"ringmq/engine/inspect"
)

// storeCommand looks into a store folder. Nothing below it but `repair --write` writes a byte into the store.
func storeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store",
		Short: "Look into a store folder, of ringmq or of a Java broker, without changing it; repair it",
		Args:  knownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(storeStatCommand(), storeVerifyCommand(), storeDumpCommand(), storeCompareCommand(), storeRepairCommand())
	return cmd
}

// storeFlags are what the commands share.
type storeFlags struct {
	logDir                   string
	indexSlots, indexEntries int64
}

func (f *storeFlags) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.logDir, "commitlog", "", "`folder` of the log, where storePathCommitLog names another than DIR/commitlog")
	fl.Int64Var(&f.indexSlots, "indexSlots", 0, "maxHashSlotNum of the broker, a `number`, where key files have not four entries to a slot")
	fl.Int64Var(&f.indexEntries, "indexEntries", 0, "maxIndexNum of the broker, a `number`, with --indexSlots")
	cmd.Args = oneFolder
}

func oneFolder(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError{fmt.Errorf("%s takes one folder, that of storePathRootDir, not %d", cmd.CommandPath(), len(args))}
	}
	return nil
}

// open opens the store; a folder that is none is wrong usage.
func (f *storeFlags) open(dir string) (*inspect.Store, error) {
	slots, entries, err := f.indexShape()
	if err != nil {
		return nil, err
	}
	s, err := inspect.Open(inspect.Options{Dir: dir, LogDir: f.logDir, IndexSlots: slots, IndexEntries: entries})
	return s, noStore(err)
}

// noStore makes a folder that is no store wrong usage.
func noStore(err error) error {
	if errors.Is(err, inspect.ErrNoStore) {
		return usageError{err}
	}
	return err
}

// indexShape checks the flags that say how key files are divided.
func (f *storeFlags) indexShape() (slots, entries int32, err error) {
	if f.indexSlots == 0 && f.indexEntries == 0 {
		return 0, 0, nil
	}
	if f.indexSlots < 1 || f.indexEntries < 2 || f.indexSlots > math.MaxInt32 || f.indexEntries > math.MaxInt32 {
		return 0, 0, usageError{fmt.Errorf("--indexSlots=%d --indexEntries=%d: both are needed, at least 1 and 2, at most %d", f.indexSlots, f.indexEntries, math.MaxInt32)}
	}
	return int32(f.indexSlots), int32(f.indexEntries), nil
}

// storeTime is a store time as it is printed: UTC with ms, or the bare number where that is no date.
func storeTime(ms int64) string {
	if ms <= 0 || ms >= lastMS {
		return fmt.Sprint(ms)
	}
	return time.UnixMilli(ms).UTC().Format(timeLayout)
}

const (
	timeLayout = "2006-01-02T15:04:05.000Z07:00"
	lastMS     = 253_402_300_800_000 // the year 10000
)

// count makes one text of a number and a noun.
func count[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// stateText says in words whether and how the store was stopped.
func stateText(st *inspect.State) string {
	text := "stopped cleanly"
	switch {
	case st.Lock.InUse && st.Lock.PID > 0:
		text = fmt.Sprintf("in use by process %d", st.Lock.PID)
	case st.Lock.InUse:
		text = "in use"
	case st.Abort:
		text = "not stopped cleanly: the abort file is there"
	}
	if st.Lock.Last == "java" {
		text += "; a Java broker had it last"
	} else if st.Lock.Last != "" {
		text += "; " + st.Lock.Last + " had it last"
	}
	return text
}
