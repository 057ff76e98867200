package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// report prints the line, and returns what connections ended with.
func report(m *measured) error {
	all := newResult()
	var texts []string
	for _, r := range m.results {
		all.add(r)
		if r.err != nil {
			texts = append(texts, r.err.Error())
		}
	}
	line := counts(all)
	if len(texts) > 0 {
		line["io_errors"] = texts
	}
	m.addUsage(line, all)
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	fmt.Println(string(text))
	if len(texts) > 0 {
		return errors.New("connections ended before their time: " + texts[0])
	}
	return nil
}

func counts(all *result) map[string]any {
	seconds := float64(measuredTo-measuredFrom) / 1e9
	if *mode == "pull" || *count > 0 && all.lastNS < measuredTo {
		seconds = float64(all.lastNS-measuredFrom) / 1e9
	}
	seconds = max(seconds, 1e-9)
	h := &all.latency
	line := map[string]any{
		"mode": *mode, "size": *size, "conns": *conns, "hdr": *hdr, "secs": round(seconds, 3),
		"msgs": all.messages, "msg_s": round(float64(all.messages)/seconds, 1), "MB_s": round(float64(all.bytes)/seconds/1e6, 2),
		"reqs": all.requests, "p50_us": round(h.quantile(.5), 1), "p95_us": round(h.quantile(.95), 1), "p99_us": round(h.quantile(.99), 1),
		"p999_us": round(h.quantile(.999), 1), "max_us": round(float64(h.max)/1e3, 1), "errors": all.errors,
	}
	if h.n > 0 {
		line["mean_us"] = round(float64(h.sum)/float64(h.n)/1e3, 1)
	}
	if *label != "" {
		line["label"] = *label
	}
	if len(all.remarks) > 0 {
		line["remarks"] = all.remarks
	}
	if *mode == "send" {
		line["inflight"], line["batch"], line["lost"] = *window, *batch, all.lost
		return line
	}
	line["bad_crc"], line["bad_sum"], line["gaps"] = all.badCRC, all.badSum, all.gaps
	line["backward"], line["foreign"], line["end_offsets_sum"] = all.backward, all.foreign, all.endOffsets
	return line
}

func (m *measured) addUsage(line map[string]any, all *result) {
	perMillion := func(seconds float64) float64 {
		if all.messages == 0 {
			return 0
		}
		return round(seconds/float64(all.messages)*1e6, 3)
	}
	line["client_cpu_s_per_M"] = perMillion(m.used.self)
	if len(m.servers) == 0 {
		return
	}
	line["server_cpu_s"], line["server_cpu_s_per_M"] = round(m.used.server, 2), perMillion(m.used.server)
	line["rss_peak_MiB"] = round(float64(m.peakKiB)/1024, 1)
	line["rss_hwm_MiB"] = round(float64(memory(m.servers, "VmHWM"))/1024, 1)
	if m.used.at > 0 { // CPUs that others kept busy: what makes a run doubtful
		line["other_cpu_cores"] = round((m.used.machine-m.used.server-m.used.self)/m.used.at, 2)
	}
}

func round(v float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(v*scale) / scale
}
