package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"ringmq/broker"
	"ringmq/internal/config"
)

// printBanner says what runs where. Scripts wait for its "boot success" lines, whose words are the original's.
func printBanner(out io.Writer, v *config.Values, b *broker.Broker, n names, took time.Duration) {
	recovery, at := b.Store().Recovery(), b.Store().Positions()
	mode, reason := b.Store().Ring()
	if reason != "" {
		mode += " (" + reason + ")"
	}
	var phases []string
	for _, p := range recovery.Phases {
		phases = append(phases, fmt.Sprintf("%s %s", p.Name, p.Took.Round(100*time.Microsecond)))
	}
	stop := "clean"
	if !recovery.Clean {
		stop = "unclean"
	}
	fmt.Fprintf(out, "ringmq %s: %s, id %d, cluster %s\n", version, v.Text("brokerRole"), v.Int("brokerId"), v.Text("brokerClusterName"))
	fmt.Fprintf(out, "  clients  %s, fast port %d, listening on %s\n", address(v, "brokerIP1", "listenPort"), fastPort(v), v.Text("bindAddress"))
	fmt.Fprintf(out, "  store    %s, last stop %s, log %d to %d\n", v.Text("storePathRootDir"), stop, at.Min, at.End)
	by := v.Text("ringmq.appendPath")
	if v.Bool("transientStorePoolEnable") {
		_, size := b.Store().PoolRoom()
		by = fmt.Sprintf("transient pool of %d MiB, answered before it is written out", size>>20)
	}
	fmt.Fprintf(out, "  flush    %s, append by %s, %s\n", v.Text("flushDiskType"), by, mode)
	fmt.Fprintf(out, "  start    %s (%s)\n", took.Round(100*time.Microsecond), strings.Join(phases, ", "))
	if v.Text("bindAddress") != "127.0.0.1" {
		fmt.Fprintf(out, "  warning  ports %d, %d and the name server's have no access control\n", v.Int("listenPort"), fastPort(v))
	}
	if n.embedded != nil {
		fmt.Fprintf(out, "The Name Server boot success. serializeType=JSON, address %s\n", n.embedded.Addr())
	}
	fmt.Fprintf(out, "The broker[%s, %s] boot success. serializeType=JSON and name server is %s\n",
		v.Text("brokerName"), address(v, "brokerIP1", "listenPort"), strings.Join(n.addresses, ";"))
}
