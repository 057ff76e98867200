package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	soakPause  = 4 * time.Millisecond // of a sender between two messages: a segment lasts less than a second
	soakSample = time.Second
	soakExpire = 2 * time.Second // between two requests to remove expired segments, of which each removes ten at most
	soakGrowth = 1.05            // the most that the end may be above a sixth of the way
)

// soak runs a mixed load for so long on a store whose segments are small and expire at once, and compares what the broker holds at the end
// with what it held after a sixth of the time: memory, descriptors, goroutines. Then it audits what is left of the log.
func soak(p plan, dir string, length time.Duration) error {
	if length == 0 {
		return nil
	}
	http, err := freePort()
	if err != nil {
		return err
	}
	b := &broker{binary: p.binary, dir: dir, http: http, settings: append(p.mode.settings(), "fileReservedTime=0")}
	if err := firstStart(b); err != nil {
		return err
	}
	defer b.kill()
	l := newLedger()
	s := &soakers{b: b, l: l, stop: make(chan struct{})}
	var all sync.WaitGroup
	l.pause = soakPause
	all.Go(func() { l.run(b.port, p.seed, s.stop) })
	for queue := range queues {
		all.Go(func() { s.check(s.reads(queue)) })
	}
	all.Go(func() { s.check(s.churns(rand.New(rand.NewPCG(p.seed, 4)))) })
	all.Go(func() { s.check(s.expires()) })
	samples, err := s.watch(http, length)
	close(s.stop)
	all.Wait()
	if err == nil {
		err = s.failed
	}
	if err != nil {
		return fmt.Errorf("soak: %w\n%s", err, b.out)
	}
	if err := s.settle(); err != nil {
		return err
	}
	fmt.Printf("soak: %v, %d acknowledged, %d pulled, %d connections came and went\n", length, l.count, s.pulled.Load(), s.churned.Load())
	if err := compare(samples); err != nil {
		return err
	}
	return l.audit(b, rand.New(rand.NewPCG(p.seed, 5)), 0)
}

type soakers struct {
	b               *broker
	l               *ledger
	stop            chan struct{}
	pulled, churned atomic.Int64

	mu     sync.Mutex
	failed error // the first one; guarded by mu
}

func (s *soakers) check(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = err
	}
}

// pause waits; false when the soak ends.
func (s *soakers) pause(d time.Duration) bool {
	select {
	case <-s.stop:
		return false
	case <-time.After(d):
		return true
	}
}

// reads follows a queue to its end; what expired meanwhile it passes over, as a consumer does.
func (s *soakers) reads(queue int) error {
	c, err := dial(s.b.port)
	if err != nil {
		return err
	}
	defer c.Close()
	for next := int64(0); ; {
		a, err := c.pull(topic, queue, next)
		if err != nil {
			return err
		}
		if next, err = strconv.ParseInt(a.Ext["nextBeginOffset"], 10, 64); err != nil {
			return fmt.Errorf("pull of queue %d: code %d, %s: %w", queue, a.Code, a.Remark, err)
		}
		if a.Code == answerOK {
			s.pulled.Add(1)
		} else if !s.pause(10 * time.Millisecond) {
			return nil
		}
	}
}

// churns opens a connection, asks for a topic of the last dozen or makes it, and closes the connection: in turn politely and in the middle of a request.
func (s *soakers) churns(rng *rand.Rand) error {
	for s.pause(50 * time.Millisecond) {
		c, err := dial(s.b.port)
		if err != nil {
			return err
		}
		if n := s.churned.Add(1); n%2 == 0 {
			if _, err = c.createTopic("Soak"+strconv.Itoa(rng.IntN(12)), queues); err != nil {
				return err
			}
		} else if _, err = c.Write([]byte{0, 0, 1, 0, 0}); err != nil {
			return err
		}
		c.Close()
	}
	return nil
}

func (s *soakers) expires() error {
	c, err := dial(s.b.port)
	if err != nil {
		return err
	}
	defer c.Close()
	for s.pause(soakExpire) {
		a, err := c.call(codeDeleteExpired, nil, nil)
		if err != nil || a.Code != answerOK {
			return fmt.Errorf("request %d: %v, %w", codeDeleteExpired, a, err)
		}
		if err := s.forget(c); err != nil {
			return err
		}
	}
	return nil
}

// forget takes out of the ledger what has expired.
func (s *soakers) forget(c *conn) error {
	var low [queues]int64
	for queue := range low {
		var err error
		if low[queue], err = c.offset(codeMinOffset, topic, queue); err != nil {
			return err
		}
	}
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	for at, m := range s.l.acked {
		if at.offset < low[at.queue] {
			delete(s.l.acked, at)
			delete(s.l.sent, m.id)
		}
	}
	return nil
}

// settle waits until the broker removes no more, so that what the ledger expects is there.
func (s *soakers) settle() error {
	c, err := dial(s.b.port)
	if err != nil {
		return err
	}
	defer c.Close()
	for before := int64(-1); ; time.Sleep(time.Second) {
		low, err := c.offset(codeMinOffset, topic, 0)
		if err != nil || low == before {
			return errors.Join(err, s.forget(c))
		}
		before = low
	}
}

// gauges are what must not grow, by their names in the metrics.
var gauges = []string{"process_resident_memory_bytes", "process_open_fds", "go_goroutines"}

// watch samples the gauges until length has passed or a soaker failed.
func (s *soakers) watch(http int, length time.Duration) ([][]float64, error) {
	var samples [][]float64
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(soakSample) {
		s.mu.Lock()
		err := s.failed
		s.mu.Unlock()
		if err != nil {
			return nil, err
		}
		sample, err := readGauges(http)
		if err != nil {
			return nil, err
		}
		samples = append(samples, sample)
	}
	return samples, nil
}

func readGauges(port int) ([]float64, error) {
	answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", port))
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	sample := make([]float64, len(gauges))
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if i := slices.Index(gauges, name); i >= 0 {
			if sample[i], err = strconv.ParseFloat(value, 64); err != nil {
				return nil, err
			}
		}
	}
	if i := slices.Index(sample, 0); i >= 0 {
		return nil, fmt.Errorf("the metrics have no %s", gauges[i])
	}
	return sample, nil
}

// compare holds the medians of two stretches of a tenth of the time against each other: one at a sixth of the way, one at the end.
func compare(samples [][]float64) error {
	width := max(len(samples)/10, 1)
	middle := len(samples) / 6
	begin, end := samples[max(middle-width/2, 0):min(middle+width/2+1, len(samples))], samples[len(samples)-width:]
	var grown []string
	for i, name := range gauges {
		before, after := median(begin, i), median(end, i)
		fmt.Printf("soak: %s %.0f after a sixth of the time, %.0f at the end (%+.1f %%)\n", name, before, after, (after/before-1)*100)
		if after > before*soakGrowth {
			grown = append(grown, name)
		}
	}
	if grown != nil {
		return fmt.Errorf("soak: more than %.0f %% growth: %s", (soakGrowth-1)*100, strings.Join(grown, ", "))
	}
	return nil
}

func median(samples [][]float64, i int) float64 {
	var values []float64
	for _, s := range samples {
		values = append(values, s[i])
	}
	slices.Sort(values)
	return values[len(values)/2]
}
