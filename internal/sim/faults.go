package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"ringmq/engine/checkpoint"
	"ringmq/engine/segment"
	"ringmq/engine/segment/memstore"
)

var errBroken = errors.New("the device is broken")

func (m *machine) fault(k kind, rng *rand.Rand) error {
	switch k {
	case failSync:
		return m.failing(rng, &memstore.Fault{Op: memstore.OpSync, Always: true, Err: errBroken})
	case failWrite:
		return m.failing(rng, &memstore.Fault{Op: memstore.OpWrite, Always: true, Err: errBroken, Short: rng.IntN(6000)})
	case failDerived:
		return m.failingQueues(rng)
	case noSpace:
		return m.noSpaceLeft(rng)
	case fullDisk:
		return m.diskFull(rng)
	case slowDisk:
		return m.slowly(rng)
	case rot:
		return m.rot(rng)
	}
	panic(fmt.Sprintf("BUG: sim: there is no step %d", k))
}

// failing has every write or sync of the log fail. The store must latch at the first; then the power goes, or only the process ends.
func (m *machine) failing(rng *rand.Rand, fault *memstore.Fault) error {
	before := m.disk.Log.Count(fault.Op)
	m.broken = true
	m.disk.Log.Inject(fault)
	for range 1 + rng.IntN(3) {
		m.put(rng)
		if hangs, err := m.settle(); err != nil || hangs {
			return err
		}
	}
	m.pause(time.Duration(rng.IntN(3000)) * time.Millisecond)
	if hangs, err := m.settle(); err != nil || hangs {
		return err
	}
	if m.disk.Log.Count(fault.Op) > before && m.store.Latched() == nil {
		return fmt.Errorf("a %s of the log failed, and the store goes on", fault.Op)
	}
	if err := m.pullSome(rng); err != nil { // reads go on
		return err
	}
	return m.restart(rng, "failed "+string(fault.Op))
}

// restart is a power cut, a kill, or a stop that cannot be complete, and a start on a disk that works again.
func (m *machine) restart(rng *rand.Rand, where string) error {
	switch rng.IntN(3) {
	case 0:
		return m.cutAndStart(rng, where)
	case 1:
		if err := m.end(where); err != nil {
			return err
		}
		return m.start(rng)
	}
	return m.stop(rng)
}

// failingQueues has every sync of queues and index fail: that costs no message and stops nobody.
func (m *machine) failingQueues(rng *rand.Rand) error {
	m.broken = true
	m.disk.FailSync(errBroken)
	for range 1 + rng.IntN(4) {
		m.put(rng)
		m.pause(time.Duration(rng.IntN(3000)) * time.Millisecond)
		if hangs, err := m.settle(); err != nil || hangs {
			return err
		}
	}
	return m.restart(rng, "failed sync of queues")
}

// noSpaceLeft makes no new segment; what needs one is refused until there is room again.
func (m *machine) noSpaceLeft(rng *rand.Rand) error {
	m.noSpace = true
	m.disk.Log.Inject(&memstore.Fault{Op: memstore.OpCreate, Always: true, Err: unix.ENOSPC})
	for range 1 + rng.IntN(12) {
		m.put(rng)
		if hangs, err := m.settle(); err != nil || hangs {
			return err
		}
	}
	if err := m.pullSome(rng); err != nil {
		return err
	}
	if m.held == nil {
		m.disk.Heal()
	}
	m.pause(1200 * time.Millisecond)
	if hangs, err := m.settle(); err != nil || hangs {
		return err
	}
	if m.held != nil {
		return m.cutAndStart(rng, "no space")
	}
	m.noSpace = false
	m.put(rng)
	return nil
}

// diskFull fills the disk up and empties it: the store refuses and takes messages by itself.
func (m *machine) diskFull(rng *rand.Rand) error {
	m.full, m.forced = true, true
	m.usage.Store(96)
	m.pause(1100 * time.Millisecond)
	defer m.usage.Store(10)
	if hangs, err := m.settle(); err != nil || hangs {
		return err
	}
	if m.store.DiskFull() == nil {
		return errors.New("the disk is full, and messages are taken")
	}
	puts := m.Acked
	m.put(rng)
	if hangs, err := m.settle(); err != nil || hangs {
		return err
	}
	if m.Acked != puts {
		return errors.New("the disk is full, and a message was taken")
	}
	m.usage.Store(10)
	m.pause(1100 * time.Millisecond)
	if hangs, err := m.settle(); err != nil || hangs {
		return err
	}
	m.full = false
	m.put(rng)
	return nil
}

// slowly has a sync take longer than senders wait: they are answered 10, and the message stays.
func (m *machine) slowly(rng *rand.Rand) error {
	if m.held != nil || m.noSpace {
		return nil
	}
	m.slow = true
	m.holdAt("sync", 1)
	m.put(rng)
	hangs, err := m.settle()
	if err != nil {
		return err
	}
	if hangs {
		// Longer than syncFlushTimeout and the interval at which it is looked for, and no longer: nobody else must come to wait for a lock.
		time.Sleep((syncFlushTimeoutMS + 101) * time.Millisecond)
		m.rests()
		if err := m.takeAnswers(); err != nil {
			return err
		}
		if m.options.SyncFlush && len(m.waiting) > 0 {
			return fmt.Errorf("%v waits longer than syncFlushTimeout", m.waiting[0])
		}
	}
	m.held.letGo()
	m.disk.Heal()
	m.held = nil
	if _, err := m.settle(); err != nil {
		return err
	}
	m.slow = false
	return nil
}

// rot changes bytes of a few records while the machine is off: below the mark the others stay, above it the log ends there.
func (m *machine) rot(rng *rand.Rand) error {
	if err := m.cut(rng, "rot"); err != nil {
		return err
	}
	mark, ok, err := checkpoint.LoadMark(filepath.Join(m.disk.Dir, "ringmq", "mark"))
	if err != nil || !ok {
		return fmt.Errorf("the mark after a power cut: %v, %w", ok, err)
	}
	records := m.model.readable(m.min)
	if len(records) == 0 {
		return m.start(rng)
	}
	for range 1 + rng.IntN(3) {
		r := records[rng.IntN(len(records))]
		if r.at < 0 || r.at == mark.Last || r.rotten {
			continue // without the record that the mark is known by there is no mark
		}
		if r.end() > mark.Flushed {
			if r.at < mark.Flushed {
				continue
			}
			m.bound = min(m.bound, r.at)
			for _, later := range m.model.records {
				later.promised = later.promised && later.at >= 0 && later.at < r.at
			}
		}
		m.rotOne(rng, r)
	}
	return m.start(rng)
}

// rotOne changes a bit of what a record's own checks cover: size, magic, checksum, position, body. Other fields have no checksum in this
// format.
func (m *machine) rotOne(rng *rand.Rand, r *record) {
	const bodyAt = 88 // with IPv4 hosts
	offsets := []int64{rng.Int64N(12), 28 + rng.Int64N(8), bodyAt + rng.Int64N(int64(len(r.body)))}
	off := offsets[rng.IntN(len(offsets))]
	segmentSize := m.options.SegmentSize
	at := int64(r.at)
	name := segment.Name(at - at%segmentSize)
	if m.disk.Log.Live(name) == nil {
		return // it went with the power
	}
	r.rotten = true
	m.say("rot at %d, byte %d of number %d of %v", at, off, r.number, r.queue)
	m.disk.Log.Rot(name, at%segmentSize+off, 1<<rng.IntN(8))
}
