package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"ringmq/engine/index"
	"ringmq/engine/message"
)

// Result of a run.
type Result struct {
	Err   error // the rule that was broken, nil if none
	Trace *Trace
	Stats Stats
}

// Run makes the steps of a plan on a new machine. It is called in a bubble of testing/synctest; rests is synctest.Wait. scratch is an empty
// folder.
func Run(shape Shape, plan []Step, scratch string, rests func()) Result {
	m := newMachine(shape, scratch, rests)
	err := m.play(plan)
	m.close()
	return Result{err, m.trace, m.Stats}
}

func (m *machine) play(plan []Step) error {
	if err := m.start(rand.New(rand.NewPCG(0, 0))); err != nil {
		return err
	}
	for _, step := range plan {
		rng := step.rng()
		m.say("- %v", step)
		if err := m.step(step.kind, rng); err != nil {
			return fmt.Errorf("step %v: %w", step, err)
		}
		if err := m.look(rng); err != nil {
			return fmt.Errorf("step %v: %w", step, err)
		}
	}
	rng := rand.New(rand.NewPCG(0, 1))
	for range 2 { // what was cut must not come back
		if err := m.cutAndStart(rng, "at rest"); err != nil {
			return err
		}
	}
	return nil
}

// look settles, and goes on with what hangs, or crashes.
func (m *machine) look(rng *rand.Rand) error {
	hangs, err := m.settle()
	if err != nil || !hangs {
		return err
	}
	return m.hanging(rng)
}

// hanging puts and pulls a little while the machine stands still somewhere, and then it falls, or goes on.
func (m *machine) hanging(rng *rand.Rand) error {
	m.say("it hangs: %s", m.held.what)
	if m.task == nil { // neither starting nor stopping
		puts := rng.IntN(4)
		if m.held.what == dispatching {
			m.leaveBehind(rng)
			puts = rng.IntN(40) // fill segments that are not flushed yet
		}
		for range puts {
			m.put(rng)
			if _, err := m.settle(); err != nil {
				return err
			}
		}
		if err := m.pullSome(rng); err != nil && !errors.Is(err, errHangs) {
			return err
		}
	}
	if rng.IntN(4) > 0 {
		where := m.held.what
		if m.task != nil {
			where = "stop, " + where
		}
		if err := m.fall(rng, where); err != nil {
			return err
		}
		return m.start(rng)
	}
	m.say("it goes on")
	m.held.letGo()
	m.held = nil
	if rng.IntN(2) == 0 {
		m.hold(rng)
	}
	if m.task != nil {
		return m.stopped(rng)
	}
	return m.look(rng)
}

// leaveBehind lets time pass while the dispatcher hangs, so that what it has not seen is flushed, and marks are saved.
func (m *machine) leaveBehind(rng *rand.Rand) {
	time.Sleep(time.Duration(2600+rng.IntN(3400)) * time.Millisecond) // longer than any shape's thorough interval of the log
	m.rests()
}

func (m *machine) step(k kind, rng *rand.Rand) error {
	switch k {
	case put:
		m.put(rng)
	case burst:
		return m.burst(rng)
	case pull:
		return m.pullSome(rng)
	case query:
		return m.querySome(rng)
	case wait:
		pauses := []time.Duration{10, 300, 300, 1100, 1100, 3000, 12_000}
		m.pause(pauses[rng.IntN(len(pauses))] * time.Millisecond)
	case retain:
		m.pause(time.Duration(rng.IntN(25)) * time.Second)
		if !m.held.struck() {
			m.store.DeleteExpired()
			m.pause(1500 * time.Millisecond)
		}
	case hold:
		m.hold(rng)
	case behind:
		m.holdAt(dispatching, 1+rng.IntN(3))
		return m.burst(rng)
	case powerCut:
		return m.cutAndStart(rng, "at rest")
	case kill:
		if err := m.end("at rest"); err != nil {
			return err
		}
		return m.start(rng)
	case stop:
		return m.stop(rng)
	default:
		return m.fault(k, rng)
	}
	return nil
}

func (m *machine) cutAndStart(rng *rand.Rand, where string) error {
	if err := m.cut(rng, where); err != nil {
		return err
	}
	return m.start(rng)
}

// burst puts many without waiting, so that the pool fills up; but when something is to be held one after the other, so that the same is.
func (m *machine) burst(rng *rand.Rand) error {
	for range 3 + rng.IntN(20) {
		m.put(rng)
		if m.held.struck() || m.held == nil && !m.shape.OneByOne {
			continue
		}
		if _, err := m.settle(); err != nil {
			return err
		}
	}
	return nil
}

// pullSome pulls from somewhere in a queue, and asks at its ends.
func (m *machine) pullSome(rng *rand.Rand) error {
	key := someQueue(rng)
	from := message.QueueOffset(rng.Int64N(int64(m.model.next[key]) + 1))
	var err error
	failed := m.call(func() {
		for range 3 {
			if from, err = m.pull(key, from, 1+rng.IntN(10), 1+rng.IntN(8000)); err != nil {
				return
			}
		}
		if !m.held.struck() {
			err = m.mustServe(key)
		}
	})
	return errors.Join(failed, err)
}

// querySome asks for a key, within a time that begins and ends with some message.
func (m *machine) querySome(rng *rand.Rand) error {
	records := m.model.readable(m.min)
	if len(records) == 0 {
		return nil
	}
	a, b := records[rng.IntN(len(records))], records[rng.IntN(len(records))]
	begin, end := min(a.storeMS, b.storeMS), max(a.storeMS, b.storeMS)
	kind, key := index.Unique, a.unique
	switch rng.IntN(3) {
	case 0:
		kind, key = index.Key, keyWords[rng.IntN(len(keyWords))]
	case 1:
		kind, key = index.Tag, a.tag
	}
	return m.query(a.queue.topic, key, kind, begin, end, 1+rng.IntN(20))
}

// stop stops the store as an operator does, and starts it again, sometimes after the power went.
func (m *machine) stop(rng *rand.Rand) error {
	if err := m.lastLook(); err != nil {
		return err
	}
	if !m.broken {
		m.maybeHold(rng, stopPlaces)
	}
	m.run(func(t *task) { t.err = m.store.Close() })
	return m.stopped(rng)
}

func (m *machine) stopped(rng *rand.Rand) error {
	t, hangs, err := m.await()
	if err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	if hangs {
		return m.hanging(rng)
	}
	latched := m.store.Latched() != nil
	switch {
	case t.err == nil && latched:
		return errors.New("the store had latched, and says that its stop was clean")
	case t.err != nil && !latched && !m.broken:
		return fmt.Errorf("stop: %w", t.err)
	case t.err != nil:
		m.say("stop: %v", t.err)
		return m.stoppedBroken(rng)
	}
	if err := m.takeAnswers(); err != nil {
		return err
	}
	m.promiseAll()
	if rng.IntN(2) == 0 {
		if err := m.cut(rng, "stopped"); err != nil {
			return err
		}
	}
	m.cleanly = true
	return m.start(rng)
}

// stoppedBroken starts on what a stop left that could not be complete; the disk works again.
func (m *machine) stoppedBroken(rng *rand.Rand) error {
	if err := m.takeAnswers(); err != nil {
		return err
	}
	m.promise(true)
	m.crashed("broken stop", "at rest")
	m.store, m.waiting, m.broken = nil, nil, false
	m.disk.Heal()
	m.held.letGo()
	m.held = nil
	return m.start(rng)
}

// promiseAll: the store was stopped cleanly.
func (m *machine) promiseAll() {
	m.bound = m.store.Positions().Flushed
	for _, r := range m.model.records {
		r.promised = true
	}
	m.store, m.waiting = nil, nil
}
