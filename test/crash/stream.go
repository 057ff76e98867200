package main

import (
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// answerTime is how long a broker on the slowest disk may take for an answer.
const answerTime = 60 * time.Second

const refusedPause = 200 * time.Millisecond

// stream is a connection with up to window sends on their way, and what came of them.
type stream struct {
	*conn
	ledger *ledger
	name   string        // of its messages, before the number
	room   chan struct{} // holds one for each send on its way
	tally  tally

	mu       sync.Mutex
	byOpaque map[int]sending // guarded by mu
}

// sending is a send on its way.
type sending struct {
	id    string
	queue int
	begun time.Time
}

// tally is how often each code was the answer, and the longest wait for it.
type tally struct {
	count   map[int]int
	slowest map[int]time.Duration
}

func (t *tally) add(code, count int, took time.Duration) {
	if t.count == nil {
		t.count, t.slowest = map[int]int{}, map[int]time.Duration{}
	}
	t.count[code] += count
	t.slowest[code] = max(t.slowest[code], took)
}

func (t *tally) addAll(other tally) {
	for code, count := range other.count {
		t.add(code, count, other.slowest[code])
	}
}

func (t *tally) String() string {
	var parts []string
	for _, code := range slices.Sorted(maps.Keys(t.count)) {
		parts = append(parts, fmt.Sprintf("%d x code %d (longest %d ms)", t.count[code], code, t.slowest[code].Milliseconds()))
	}
	return strings.Join(parts, ", ")
}

// only reports a code that is not allowed.
func (t *tally) only(allowed ...int) error {
	for code := range t.count {
		if !slices.Contains(allowed, code) {
			return fmt.Errorf("answers: %s; allowed are %v", t, allowed)
		}
	}
	return nil
}

// streams runs n streams until stop is closed and every send is answered. An unanswered one is an error.
func (l *ledger) streams(port, n int, name string, window int, seed uint64, stop <-chan struct{}) (tally, error) {
	list, errs := make([]*stream, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		c, err := dial(port)
		if err != nil {
			return tally{}, err
		}
		defer c.Close()
		list[i] = &stream{conn: c, ledger: l, name: name + strconv.Itoa(i), room: make(chan struct{}, window), byOpaque: map[int]sending{}}
	}
	for i, s := range list {
		all.Go(func() { errs[i] = s.run(rand.New(rand.NewPCG(seed, uint64(i))), stop) })
	}
	all.Wait()
	var sum tally
	for i, s := range list {
		if errs[i] != nil {
			return sum, fmt.Errorf("%s, %v so far: %w", s.name, &s.tally, errs[i])
		}
		sum.addAll(s.tally)
	}
	return sum, nil
}

// run sends from one goroutine and takes answers in the other.
func (s *stream) run(rng *rand.Rand, stop <-chan struct{}) error {
	sent, ended := make(chan struct{}, cap(s.room)), make(chan error, 1)
	go func() {
		defer close(sent)
		ended <- s.sendAll(rng, stop, sent)
	}()
	for range sent {
		if err := s.take(); err != nil {
			_ = s.Close() // ends the sender
			return err
		}
	}
	return <-ended
}

func (s *stream) sendAll(rng *rand.Rand, stop <-chan struct{}, sent chan<- struct{}) error {
	for number := 0; ; number++ {
		select {
		case <-stop:
			return nil
		case s.room <- struct{}{}:
		}
		next := sending{s.name + "-" + strconv.Itoa(number), rng.IntN(queues), time.Now()}
		body := newBody(rng, next.id)
		s.ledger.mu.Lock()
		s.ledger.sent[next.id] = crc32.ChecksumIEEE(body)
		s.ledger.mu.Unlock()
		s.mu.Lock()
		s.byOpaque[s.opaque+1] = next
		s.mu.Unlock()
		if err := s.write(codeSend, sendFields(topic, next.queue), body); err != nil {
			return err
		}
		sent <- struct{}{}
	}
}

// take waits for one answer, no matter which.
func (s *stream) take() error {
	if err := s.SetReadDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	a, err := s.read()
	if err != nil {
		return err
	}
	s.mu.Lock()
	to, known := s.byOpaque[a.Opaque]
	delete(s.byOpaque, a.Opaque)
	s.mu.Unlock()
	if !known {
		return fmt.Errorf("answer to request %d, which does not wait for one", a.Opaque)
	}
	code, at, err := a.stored()
	if err != nil {
		return err
	}
	s.tally.add(code, 1, time.Since(to.begun))
	switch code {
	case answerOK:
		s.ledger.acknowledged(to.id, to.queue, at)
	case answerFlushTimeout:
	default: // refused at once: the next one a little later
		time.AfterFunc(refusedPause, func() { <-s.room })
		return nil
	}
	<-s.room
	return nil
}
