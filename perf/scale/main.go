// Command scale shows what very many queues cost a running broker: it starts one, sends to every queue, pulls every queue, stops the broker
// and starts it again, kills it and starts it once more, and pulls every queue each time. It prints one JSON line, and fails when a limit is
// passed or a message is missing.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"
)

var (
	binary   = flag.String("ringmq", "bin/ringmq", "the broker")
	dir      = flag.String("dir", "", "where the store goes, which is removed at the end")
	port     = flag.Int("port", 19011, "client port of the broker; the name server takes the next but one, the fast port is two below")
	topics   = flag.Int("topics", 500, "topics")
	perTopic = flag.Int("queues", 100, "queues of each topic")
	messages = flag.Int("messages", 10, "messages of each queue")
	inFlight = flag.Int("inflight", 256, "requests in flight")
	cold     = flag.Bool("cold", false, "drop the page cache before each start (needs root)")
	keep     = flag.Bool("keep", false, "leave the store, and the broker's log in it")
	set      = flag.String("set", "", "one more key=value for the broker")

	maxRSS      = flag.Int64("rss", 600, "MiB that may be resident at any time")
	maxFiles    = flag.Int64("files", 4096, "descriptors that may be open at any time")
	maxMappings = flag.Int64("mappings", 20000, "mappings that there may be at any time")
	maxStart    = flag.Duration("start", 3*time.Second, "how long a start after a clean stop may take")
)

// result is the line that is printed; times in seconds.
type result struct {
	Bench      string  `json:"bench"`
	Queues     int     `json:"queues"`
	Messages   int     `json:"messages"`
	Sends      float64 `json:"sends_s"`
	Dispatch   float64 `json:"dispatched_after_s"`
	Pulls      float64 `json:"pulls_s"`
	Stop       float64 `json:"stop_s"`
	Clean      float64 `json:"start_clean_s"`
	CleanCPU   float64 `json:"start_clean_cpu_s"`
	CleanPulls float64 `json:"pulls_after_clean_s"`
	Killed     float64 `json:"start_killed_s"`
	KilledCPU  float64 `json:"start_killed_cpu_s"`
	KillPulls  float64 `json:"pulls_after_kill_s"`
	Cold       bool    `json:"cold"`
	MaxRSS     int64   `json:"max_rss_mib"`
	IdleRSS    int64   `json:"rss_after_start_mib"`
	Files      int64   `json:"max_descriptors"`
	Mappings   int64   `json:"max_mappings"`
}

func main() {
	flag.Parse()
	log.SetFlags(log.Ltime)
	folder, err := os.MkdirTemp(*dir, "ringmq-scale")
	if err != nil {
		log.Fatal(err)
	}
	r, err := run(folder)
	if err != nil {
		err = fmt.Errorf("%w; the broker's log ends with\n%s", err, tail(filepath.Join(folder, "log")))
	}
	if !*keep {
		err = errors.Join(err, os.RemoveAll(folder))
	}
	line, _ := json.Marshal(r) // numbers and texts only
	fmt.Println(string(line))
	if err == nil {
		err = r.check()
	}
	if err != nil {
		log.Fatal(err)
	}
}

func (r *result) check() error {
	switch {
	case r.MaxRSS > *maxRSS:
		return fmt.Errorf("%d MiB were resident, allowed are %d", r.MaxRSS, *maxRSS)
	case r.Files > *maxFiles:
		return fmt.Errorf("%d descriptors were open, allowed are %d", r.Files, *maxFiles)
	case r.Mappings > *maxMappings:
		return fmt.Errorf("there were %d mappings, allowed are %d", r.Mappings, *maxMappings)
	case r.Clean > maxStart.Seconds():
		return fmt.Errorf("the start after a clean stop took %.2f s, allowed are %s", r.Clean, *maxStart)
	}
	return nil
}

func run(folder string) (r result, err error) {
	r = result{Bench: "scale", Queues: *topics * *perTopic, Cold: *cold}
	b, err := start(folder)
	if err != nil {
		return r, err
	}
	defer func() { b.end() }()
	load, err := connect(b)
	if err != nil {
		return r, err
	}
	if err := load.createTopics(); err != nil {
		return r, err
	}
	if r.Sends, err = timed("sends", func() error { return load.send(0, *messages) }); err != nil {
		return r, err
	}
	if r.Dispatch, err = timed("dispatch behind the sends", func() error { return load.dispatched(*messages) }); err != nil {
		return r, err
	}
	if r.Pulls, err = timed("pulls", func() error { return load.pull(*messages) }); err != nil {
		return r, err
	}
	r.seen(b)

	if r.Stop, err = timed("clean stop", b.stop); err != nil {
		return r, err
	}
	if b, err = start(folder); err != nil {
		return r, err
	}
	r.Clean, r.CleanCPU, r.IdleRSS = b.startTook.Seconds(), b.startCPU.Seconds(), b.usage().rss
	if load, err = connect(b); err != nil {
		return r, err
	}
	if r.CleanPulls, err = timed("pulls after a clean stop", func() error { return load.pull(*messages) }); err != nil {
		return r, err
	}

	if _, err = timed("one more message to each queue", func() error { return load.send(*messages, *messages+1) }); err != nil {
		return r, err
	}
	if err = load.dispatched(*messages + 1); err != nil {
		return r, err
	}
	r.seen(b)
	b.end()
	if b, err = start(folder); err != nil {
		return r, err
	}
	r.Killed, r.KilledCPU = b.startTook.Seconds(), b.startCPU.Seconds()
	if load, err = connect(b); err != nil {
		return r, err
	}
	if r.KillPulls, err = timed("pulls after kill -9", func() error { return load.pull(*messages + 1) }); err != nil {
		return r, err
	}
	r.seen(b)
	r.Messages = r.Queues * (*messages + 1)
	return r, b.stop()
}

// seen keeps the largest of what the broker was seen to use.
func (r *result) seen(b *broker) {
	most := b.most()
	r.MaxRSS, r.Files, r.Mappings = max(r.MaxRSS, most.rss), max(r.Files, most.files), max(r.Mappings, most.mappings)
}

func timed(what string, do func() error) (float64, error) {
	begun := time.Now()
	err := do()
	took := time.Since(begun)
	log.Printf("%s: %.2f s", what, took.Seconds())
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return took.Seconds(), err
}
