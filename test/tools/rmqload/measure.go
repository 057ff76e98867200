package main

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

var (
	epoch        = time.Now()
	measuredFrom int64 // as now; both are set before the connections begin
	measuredTo   int64
	sentTotal    atomic.Int64 // with -count
)

// now is in ns since the start of the program.
func now() int64 { return int64(time.Since(epoch)) }

// result is what one connection has counted.
type result struct {
	messages, bytes, requests int64
	latency                   histogram
	lost                      int64          // requests without an answer
	errors                    map[int]int64  // by code
	remarks                   map[int]string // the first of each code
	err                       error
	badCRC, badSum            int64
	gaps, backward, foreign   int64
	endOffsets                int64
	lastNS                    int64
	_                         [64]byte // another connection's counts are on another cache line
}

func newResult() *result { return &result{errors: make(map[int]int64), remarks: make(map[int]string)} }

func (r *result) refused(a *answer) {
	r.errors[a.code]++
	if _, ok := r.remarks[a.code]; !ok {
		r.remarks[a.code] = a.remark()
	}
}

func (r *result) add(o *result) {
	r.messages += o.messages
	r.bytes += o.bytes
	r.requests += o.requests
	r.latency.merge(&o.latency)
	r.lost += o.lost
	r.badCRC += o.badCRC
	r.badSum += o.badSum
	r.gaps += o.gaps
	r.backward += o.backward
	r.foreign += o.foreign
	r.endOffsets += o.endOffsets
	r.lastNS = max(r.lastNS, o.lastNS)
	for code, n := range o.errors {
		r.errors[code] += n
	}
	for code, text := range o.remarks {
		r.remarks[code] = text
	}
}

// measured is a run.
type measured struct {
	servers []int
	results []*result
	used    usage
	peakKiB int64
}

// measure runs all connections.
func measure(servers []int) *measured {
	m := &measured{servers: servers, results: make([]*result, *conns)}
	var ready, running sync.WaitGroup
	begin, ended := make(chan struct{}), make(chan struct{})
	for i := range m.results {
		r := newResult()
		m.results[i] = r
		ready.Add(1)
		running.Go(func() {
			runtime.LockOSThread()
			run, err := connection(i, r)
			ready.Done()
			if r.err = err; err == nil {
				<-begin
				r.err = run()
			}
		})
	}
	ready.Wait()
	go func() { running.Wait(); close(ended) }()
	measuredFrom = now() + int64(*warm)
	measuredTo = measuredFrom + int64(*dur)
	before := usageNow(servers)
	close(begin)
	if *warm > 0 {
		time.Sleep(*warm)
		before = usageNow(servers)
	}
	m.watch(ended)
	m.used = usageNow(servers).since(before)
	<-ended
	return m
}

func connection(i int, r *result) (run func() error, err error) {
	if *mode == "pull" {
		p, err := newPuller(i, r)
		if err != nil {
			return nil, err
		}
		return p.run, nil
	}
	s, err := newSender(i, r)
	if err != nil {
		return nil, err
	}
	return s.run, nil
}

// watch looks at the memory of the servers until the measured time is over, or the connections have ended.
func (m *measured) watch(ended <-chan struct{}) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	over := time.After(time.Duration(measuredTo - now()))
	for {
		m.peakKiB = max(m.peakKiB, memory(m.servers, "VmRSS"))
		select {
		case <-tick.C:
		case <-over:
			return
		case <-ended:
			return
		}
	}
}
