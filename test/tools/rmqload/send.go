package main

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// sender keeps all slots of one connection in flight: each answer has its slot sent again, in one write with all that were answered with it.
type sender struct {
	r          *result
	fd         int
	slots      []*slot
	in, out    []byte
	messages   int64  // of a request
	seq        uint64 // of the last message
	client     uint64 // first half of its unique keys
	epochMS    int64  // time of day when now was 0
	flight     int
	stopping   bool
	drainEndNS int64
}

// drainTime is how long answers that are still missing are waited for.
const drainTime = 10 * time.Second

func newSender(connection int, r *result) (*sender, error) {
	fd, err := dial()
	if err != nil {
		return nil, err
	}
	s := &sender{
		r: r, fd: fd, slots: make([]*slot, *window), in: make([]byte, 4<<20), messages: int64(max(*batch, 1)),
		seq: uint64(connection) << 44, client: uint64(os.Getpid())<<32 | uint64(connection)<<20, epochMS: time.Now().UnixMilli() - now()/1e6,
	}
	total := 0
	for i := range s.slots {
		s.slots[i] = newSlot(connection, i)
		total += len(s.slots[i].frame)
	}
	s.out = make([]byte, 0, total+1024)
	return s, nil
}

func (s *sender) run() error {
	defer syscall.Close(s.fd)
	defer func() { s.r.lost = int64(s.flight) }()
	t := now()
	for _, slot := range s.slots {
		s.prepare(slot, t)
	}
	s.flight = len(s.slots)
	if err := writeAll(s.fd, s.out); err != nil {
		return err
	}
	for have := 0; s.flight > 0; {
		n, e := read(s.fd, s.in[have:])
		t := now()
		switch {
		case e == syscall.EINTR:
			continue
		case e == syscall.EAGAIN:
			if s.drained(t) {
				return nil
			}
			continue
		case e != 0 || n == 0:
			return fmt.Errorf("read: %d bytes, %w", n, e)
		}
		have += n
		s.stopping = s.stopping || t >= measuredTo
		s.out = s.out[:0]
		used, err := s.answers(s.in[:have], t)
		if err != nil {
			return err
		}
		if used > 0 {
			have = copy(s.in, s.in[used:have])
		}
		if err := writeAll(s.fd, s.out); err != nil {
			return err
		}
		s.r.lastNS = t
	}
	return nil
}

// prepare writes what is new into the slot's frame and adds it to what goes out.
func (s *sender) prepare(slot *slot, t int64) {
	ms, f := s.epochMS+t/1e6, slot.frame
	putDigits(f[slot.born:slot.born+len(bornMark)], ms)
	for i, at := range slot.bodies {
		s.seq++
		fillBody(f[at:at+*size], s.seq)
		if i < len(slot.uniqs) {
			at := slot.uniqs[i]
			putHex(f[at:at+16], s.client)
			putHex(f[at+16:at+32], s.seq<<1^uint64(ms)<<50)
		}
		if i < len(slot.keys) {
			putDigits(f[slot.keys[i]:slot.keys[i]+len(keyMark)], int64(s.seq&(1<<44-1)))
		}
	}
	slot.sentNS, slot.pending = t, true
	s.out = append(s.out, f...)
}

// drained tells whether the wait for the last answers is over.
func (s *sender) drained(t int64) bool {
	if s.stopping = s.stopping || t > measuredTo; !s.stopping {
		return false
	}
	if s.drainEndNS == 0 {
		s.drainEndNS = t + int64(drainTime)
	}
	return t > s.drainEndNS
}

// answers takes the whole frames of b, and returns how many bytes they had.
func (s *sender) answers(b []byte, t int64) (used int, err error) {
	var a answer
	for {
		n, err := a.next(b[used:])
		if n == 0 || err != nil {
			return used, err
		}
		used += n
		i := a.opaque - opaqueBase
		if i < 0 || i >= len(s.slots) || !s.slots[i].pending {
			return used, fmt.Errorf("answer of code %d to no request: opaque %d", a.code, a.opaque)
		}
		slot := s.slots[i]
		slot.pending = false
		s.counted(&a, t, slot)
		if !s.stopping && (*count == 0 || sentTotal.Add(s.messages) < *count) {
			s.prepare(slot, t)
		} else {
			s.flight--
		}
	}
}

// counted counts an answer that came while it was measured, and refusals behind that.
func (s *sender) counted(a *answer, t int64, slot *slot) {
	measured := t >= measuredFrom && t < measuredTo
	if measured {
		s.r.requests++
	}
	switch {
	case a.code != 0 && t >= measuredFrom:
		s.r.refused(a)
	case a.code == 0 && measured:
		s.r.messages += s.messages
		s.r.bytes += s.messages * int64(*size)
		s.r.latency.add(t - slot.sentNS)
	}
}
