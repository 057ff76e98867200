// Package metrics serves what the parts count: /metrics in Prometheus' text form, /healthz and pprof. It alone knows the names
// under which figures are exposed; nothing here runs per message.
package metrics

import (
	"fmt"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"ringmq/engine"
	"ringmq/engine/scrub"
)

// Store is what is asked of the store at each scrape.
type Store interface {
	Positions() engine.Positions
	PoolRoom() (room, size int64)
	Latched() error
	DiskFull() error
	Ring() (mode, reason string) // "ring" or "plain", and why
	Counters() engine.Counters
	Damages() []scrub.Damage
}

// Handler serves the figures of store.
func Handler(store Store) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	register(registry, store)
	registerCounters(registry, store.Counters())

	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		for _, err := range []error{store.Latched(), store.DiskFull()} {
			if err != nil {
				http.Error(w, "sends are refused: "+err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		fmt.Fprintln(w, "ok")
		for _, d := range store.Damages() { // an answer of 503 would have the broker replaced, and the good messages with it
			fmt.Fprintln(w, "damaged:", &d)
		}
	})
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

func register(registry *prometheus.Registry, store Store) {
	for name, position := range map[string]func(p engine.Positions) int64{
		"min":        func(p engine.Positions) int64 { return int64(p.Min) },
		"end":        func(p engine.Positions) int64 { return int64(p.End) },
		"committed":  func(p engine.Positions) int64 { return int64(p.Committed) },
		"flushed":    func(p engine.Positions) int64 { return int64(p.Flushed) },
		"readable":   func(p engine.Positions) int64 { return int64(p.Readable) },
		"dispatched": func(p engine.Positions) int64 { return int64(p.Dispatched) },
	} {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ringmq_log_position_bytes", Help: "Positions in the commit log.", ConstLabels: prometheus.Labels{"position": name},
		}, func() float64 { return float64(position(store.Positions())) }))
	}
	gauge := func(name, help string, value func() float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	gauge("ringmq_commit_behind_bytes", "Bytes appended that are in the pool only: a kill loses them.", func() float64 {
		p := store.Positions()
		return float64(p.End - p.Committed)
	})
	gauge("ringmq_pool_bytes", "Size of the pool; 0 with appends to the mapping.", func() float64 {
		_, size := store.PoolRoom()
		return float64(size)
	})
	gauge("ringmq_pool_room_bytes", "Bytes of the pool that can be appended to at once.", func() float64 {
		room, _ := store.PoolRoom()
		return float64(room)
	})
	gauge("rocketmq_storage_flush_behind_bytes", "Bytes appended that the device does not have yet.", func() float64 {
		p := store.Positions()
		return float64(p.End - p.Flushed)
	})
	gauge("rocketmq_storage_dispatch_behind_bytes", "Bytes readable that the queues do not show yet.", func() float64 {
		p := store.Positions()
		return float64(p.Readable - p.Dispatched)
	})
	gauge("ringmq_latched", "1 when a failed write or flush has closed the store for sends.", func() float64 {
		if store.Latched() != nil {
			return 1
		}
		return 0
	})
	gauge("ringmq_disk_full", "1 when messages are refused until the disk has room.", func() float64 {
		if store.DiskFull() != nil {
			return 1
		}
		return 0
	})
	gauge("ringmq_log_damages", "Stretches of the log that are known to be damaged.", func() float64 { return float64(len(store.Damages())) })
	gauge("ringmq_uring", "1 when flushes of many files go through io_uring, 0 when by plain calls.", func() float64 {
		if mode, _ := store.Ring(); mode == "ring" {
			return 1
		}
		return 0
	})
}
