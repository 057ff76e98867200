package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"ringmq/engine/inspect"
	"ringmq/engine/message"
)

func storeDumpCommand() *cobra.Command {
	var f storeFlags
	var d dumpFlags
	cmd := &cobra.Command{
		Use:   "dump DIR",
		Short: "Print records, queue or key entries, settings, checkpoint or mark, as text or JSON lines; also of a store in use",
		Long: "Print records in the order of the log, with the stretches between them that hold none; queue entries queue by queue; entries of key files;\n" +
			"topics, groups, offsets and whatever else config/*.json holds; checkpoint and mark. All filters must agree. Times are those of storing:\n" +
			"RFC 3339 or milliseconds since 1970. An entry is chosen by its record.",
		Example: "  ringmq store dump --topic Orders --queue 3 --since 2026-11-29T08:00:00Z --limit 10 DIR\n" +
			"  ringmq store dump --what entries --key 4711 --format json DIR",
		RunE: func(cmd *cobra.Command, args []string) error {
			filter, err := d.filter(cmd)
			if err != nil {
				return usageError{err}
			}
			s, err := f.open(args[0])
			if err != nil {
				return err
			}
			defer s.Close()
			out := bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10)
			if err := d.dump(cmd, s, filter, out); err != nil {
				return err
			}
			return out.Flush()
		},
	}
	f.register(cmd)
	d.register(cmd)
	return cmd
}

// dumpFlags are what is printed and how.
type dumpFlags struct {
	what, format string
	from, to     int64
	topic, key   string
	queue        int32
	since, until string
	limit        int64
	body         bool
}

func (d *dumpFlags) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&d.what, "what", "records", "records, entries, index, config, checkpoint or mark")
	fl.StringVar(&d.format, "format", "text", "text, or json: an object a line")
	fl.Int64Var(&d.from, "from", 0, "records from this `offset` on")
	fl.Int64Var(&d.to, "to", 0, "records before this `offset`")
	fl.StringVar(&d.topic, "topic", "", "of this topic")
	fl.Int32Var(&d.queue, "queue", 0, "of this queue `id`")
	fl.StringVar(&d.key, "key", "", "with this key, or unique key")
	fl.StringVar(&d.since, "since", "", "stored at this `time` or later")
	fl.StringVar(&d.until, "until", "", "stored before this `time`")
	fl.Int64Var(&d.limit, "limit", 0, "end after this `number` of records or entries")
	fl.BoolVar(&d.body, "body", false, "print bodies: quoted in text, base64 in json")
}

// filter checks the flags.
func (d *dumpFlags) filter(cmd *cobra.Command) (f inspect.Filter, err error) {
	f = inspect.Filter{From: d.from, To: d.to, Topic: d.topic, QueueID: d.queue, HasQueue: cmd.Flags().Changed("queue"), Key: d.key}
	switch d.what {
	case "records", "entries", "index":
	case "config", "checkpoint", "mark":
		for _, name := range []string{"from", "to", "topic", "queue", "key", "since", "until", "limit", "body"} {
			if cmd.Flags().Changed(name) && !(d.what == "config" && (name == "topic" || name == "limit")) {
				return f, fmt.Errorf("--%s has no meaning with --what=%s", name, d.what)
			}
		}
	default:
		return f, fmt.Errorf("--what=%s: allowed are records, entries, index, config, checkpoint, mark", d.what)
	}
	if d.body && d.what != "records" {
		return f, fmt.Errorf("--body has no meaning with --what=%s", d.what)
	}
	if d.format != "text" && d.format != "json" {
		return f, fmt.Errorf("--format=%s: allowed are text, json", d.format)
	}
	for _, n := range []struct {
		flag  string
		value int64
	}{{"from", d.from}, {"to", d.to}, {"queue", int64(d.queue)}, {"limit", d.limit}} {
		if n.value < 0 {
			return f, fmt.Errorf("--%s=%d: allowed is 0 and above", n.flag, n.value)
		}
	}
	if f.Since, err = parseTime("since", d.since); err != nil {
		return f, err
	}
	if f.Until, err = parseTime("until", d.until); err != nil {
		return f, err
	}
	// Such a filter takes nothing: better to say so than to print nothing.
	if d.to > 0 && d.to <= d.from {
		return f, fmt.Errorf("--to=%d: allowed is above --from=%d", d.to, d.from)
	}
	if f.Until > 0 && f.Until <= f.Since {
		return f, fmt.Errorf("--until=%s: allowed is a time behind --since=%s", d.until, d.since)
	}
	return f, nil
}

func parseTime(flag, text string) (ms int64, err error) {
	if text == "" {
		return 0, nil
	}
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms >= 0 {
		return ms, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, fmt.Errorf("--%s=%s: allowed are times as 2026-11-29T20:00:00Z and milliseconds since 1970", flag, text)
	}
	return t.UnixMilli(), nil
}

func (d *dumpFlags) dump(cmd *cobra.Command, s *inspect.Store, f inspect.Filter, out io.Writer) error {
	p := printer{out: out, json: d.format == "json", body: d.body}
	left := d.limit
	if left == 0 {
		left = math.MaxInt64
	}
	next := func(err error) error {
		if left--; err == nil && left == 0 {
			return inspect.ErrEnough
		}
		return err
	}
	switch d.what {
	case "records":
		return s.Records(cmd.Context(), f, func(r *message.Record) error { return next(p.record(r)) }, p.hole)
	case "entries":
		return s.Entries(cmd.Context(), f, func(e inspect.QueueEntry) error { return next(p.entry(e)) })
	case "index":
		return s.Keys(cmd.Context(), f, func(e inspect.KeyEntry) error { return next(p.key(e)) })
	case "config":
		return dumpConfig(cmd, s, f.Topic, p, next)
	case "checkpoint":
		if s.State.CheckpointError != nil {
			return s.State.CheckpointError
		}
		if !s.State.HasCheckpoint {
			return fmt.Errorf("the store has no checkpoint")
		}
		return p.checkpoint(&s.State.Checkpoint)
	}
	if s.State.MarkError != nil {
		return s.State.MarkError
	}
	if !s.State.HasMark {
		return fmt.Errorf("the store has no mark: ringmq has not had it yet")
	}
	return p.mark(&s.State.Mark)
}

// dumpConfig prints settings. Of a file that cannot be read that is told, and its backup printed.
func dumpConfig(cmd *cobra.Command, s *inspect.Store, topic string, p printer, next func(error) error) error {
	return s.Config(func(item inspect.ConfigItem) error {
		if topic != "" && item.Topic() != topic {
			return nil
		}
		return next(p.config(item))
	}, func(file string, err error) {
		fmt.Fprintf(cmd.ErrOrStderr(), "ringmq: %v\n", err)
	})
}
