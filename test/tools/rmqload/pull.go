package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"syscall"
	"time"
)

// puller reads some queues from an offset to their ends, over one connection with one pull in flight for each.
type puller struct {
	r       *result
	fd      int
	queues  map[int]*pulledQueue
	live    int // queues that have not ended
	in, out []byte
}

type pulledQueue struct {
	id     int
	offset int64
	sentNS int64
	ended  bool
}

// silence ends a run whose broker answers no more.
const silence = 30 * time.Second

// Codes of answers to pulls.
const (
	found       = 0
	notFound    = 19
	retryNow    = 20
	offsetMoved = 21
)

func newPuller(connection int, r *result) (*puller, error) {
	fd, err := dial()
	if err != nil {
		return nil, err
	}
	p := &puller{r: r, fd: fd, queues: make(map[int]*pulledQueue), in: make([]byte, 48<<20)}
	for id := connection; id < *queues; id += *conns {
		p.queues[id] = &pulledQueue{id: id, offset: *from}
	}
	p.live = len(p.queues)
	return p, nil
}

func (p *puller) run() error {
	defer syscall.Close(p.fd)
	for _, q := range p.queues {
		p.ask(q, now())
	}
	if err := writeAll(p.fd, p.out); err != nil {
		return err
	}
	heardNS := now()
	for have := 0; p.live > 0; {
		n, e := read(p.fd, p.in[have:])
		t := now()
		switch {
		case e == syscall.EINTR:
			continue
		case e == syscall.EAGAIN:
			if t > measuredTo || t-heardNS > int64(silence) {
				return nil
			}
			continue
		case e != 0 || n == 0:
			return fmt.Errorf("read: %d bytes, %w", n, e)
		}
		heardNS = t
		have += n
		p.out = p.out[:0]
		used, err := p.answers(p.in[:have], t)
		if err != nil {
			return err
		}
		if used > 0 {
			have = copy(p.in, p.in[used:have])
		}
		if err := writeAll(p.fd, p.out); err != nil {
			return err
		}
	}
	return nil
}

func (p *puller) ask(q *pulledQueue, t int64) {
	q.sentNS = t
	p.out = append(p.out, frame(11, opaqueBase+q.id, []field{{"consumerGroup", *group}, {"topic", *topic}, {"queueId", strconv.Itoa(q.id)},
		{"queueOffset", strconv.FormatInt(q.offset, 10)}, {"maxMsgNums", strconv.Itoa(*maxNums)}, {"sysFlag", "4"},
		{"commitOffset", "0"}, {"suspendTimeoutMillis", "0"}, {"subscription", *sub}, {"subVersion", "0"}, {"expressionType", "TAG"}}, nil)...)
}

// answers takes the whole frames of b, and returns how many bytes they had.
func (p *puller) answers(b []byte, t int64) (used int, err error) {
	var a answer
	for {
		n, err := a.next(b[used:])
		if n == 0 || err != nil {
			return used, err
		}
		used += n
		q := p.queues[a.opaque-opaqueBase]
		if q == nil {
			return used, fmt.Errorf("answer of code %d to no request: opaque %d", a.code, a.opaque)
		}
		p.r.requests++
		p.r.latency.add(t - q.sentNS)
		more, err := p.take(q, &a, t)
		if err != nil {
			return used, err
		}
		if more && t < measuredTo {
			p.ask(q, t)
			continue
		}
		if !q.ended {
			q.ended = true
			p.live--
		}
		p.r.endOffsets += q.offset
	}
}

// take looks at one answer and tells whether the queue goes on.
func (p *puller) take(q *pulledQueue, a *answer, t int64) (more bool, err error) {
	next, ok := a.field("nextBeginOffset")
	switch a.code {
	case found:
		p.r.scan(q, a.body)
		p.r.lastNS = t
		if !ok {
			return false, errors.New("an answer without nextBeginOffset")
		}
	case retryNow, offsetMoved:
		p.r.refused(a)
	case notFound:
		return false, nil
	default:
		p.r.refused(a)
		return false, nil
	}
	if ok {
		q.offset = next
	}
	return true, nil
}

// scan walks over the records of one answer.
func (r *result) scan(q *pulledQueue, b []byte) {
	next, first := q.offset, true
	for len(b) >= 88 {
		size := int(binary.BigEndian.Uint32(b))
		if size < 88 || size > len(b) {
			r.foreign++
			return
		}
		record := b[:size]
		b = b[size:]
		body := bodyOf(record)
		r.messages++
		r.bytes += int64(len(body))
		if !*verify {
			continue
		}
		number := int64(binary.BigEndian.Uint64(record[20:]))
		if int(binary.BigEndian.Uint32(record[12:])) != q.id || number < next {
			r.backward++
		} else if number > next && !first {
			r.gaps++
		}
		first, next = false, number+1
		r.check(record, body)
	}
	if len(b) != 0 {
		r.foreign++
	}
}

// bodyOf finds the body behind two addresses, each of which is IPv6 if its bit of the system flag says so.
func bodyOf(record []byte) []byte {
	flags, at := binary.BigEndian.Uint32(record[36:]), 48+(4+4)+8+(4+4)+4+8 // born at, store time, stored by, reconsume times, prepared offset
	for _, bit := range []uint32{1 << 4, 1 << 5} {
		if flags&bit != 0 {
			at += 12
		}
	}
	n := int(binary.BigEndian.Uint32(record[at:]))
	return record[at+4 : at+4+n]
}

// check compares a body with the record's checksum and with its own.
func (r *result) check(record, body []byte) {
	if magic := binary.BigEndian.Uint32(record[4:]); magic != 0xDAA320A7 && magic != 0xDAA320AB {
		r.foreign++
	}
	if crc32.ChecksumIEEE(body)&0x7fffffff != binary.BigEndian.Uint32(record[8:]) {
		r.badCRC++
	}
	if len(body) < 16 || binary.LittleEndian.Uint32(body) != sumMagic {
		r.foreign++
		return
	}
	end := len(body) - 4
	if binary.LittleEndian.Uint32(body[end:]) != crc32.ChecksumIEEE(body[:end]) {
		r.badSum++
	}
}
