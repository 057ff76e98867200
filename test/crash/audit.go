package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// audit checks a running broker against the ledger: the log is whole, every queue rises by one from min to max, bodies are what was sent, nothing
// twice, every acknowledged message at its place, each sender's order kept, and the next message of each queue gets the old max. Acknowledged
// messages may be missing from the end of the log, if they are younger than window.
func (l *ledger) audit(b *broker, rng *rand.Rand, window time.Duration) error {
	if _, err := walk(b.store()); err != nil {
		return err
	}
	c, err := dial(b.port)
	if err != nil {
		return err
	}
	defer c.Close()
	found := map[place]string{}
	seen := map[string]place{}
	for queue := range queues {
		if err := l.auditQueue(c, queue, found, seen); err != nil {
			return fmt.Errorf("queue %d: %w", queue, err)
		}
	}
	if err := l.auditAcked(found, window); err != nil {
		return err
	}
	for name := range l.topics {
		if there, err := c.hasTopic(name); err != nil || !there {
			return fmt.Errorf("topic %s was acknowledged and is lost (%v)", name, err)
		}
	}
	for queue := range queues {
		if err := l.probe(c, queue, rng); err != nil {
			return fmt.Errorf("queue %d: %w", queue, err)
		}
	}
	for _, word := range []string{"BUG", "panic", "fatal error"} {
		if strings.Contains(b.out.String(), word) {
			return fmt.Errorf("the broker's log says %s:\n%s", word, b.out)
		}
	}
	return nil
}

// losses are acknowledged messages that were allowed to go, and did.
type losses struct {
	count  int
	oldest time.Duration // before the round struck
}

func (l losses) String() string {
	if l.count == 0 {
		return "none lost"
	}
	return fmt.Sprintf("%d lost of the last %d ms", l.count, l.oldest.Milliseconds())
}

// auditAcked forgets what was allowed to go, for its place is given to others.
func (l *ledger) auditAcked(found map[place]string, window time.Duration) error {
	l.losses = losses{}
	last := int64(-1) // of what is there
	for at, m := range l.acked {
		if found[at] == m.id {
			last = max(last, m.offset)
		}
	}
	for at, m := range l.acked {
		if found[at] == m.id {
			continue
		}
		age := l.struck.Sub(m.at)
		lost := fmt.Sprintf("acknowledged message %s is lost: queue %d offset %d holds %q", m.id, at.queue, at.offset, found[at])
		switch {
		case window == 0:
			return errors.New(lost)
		case m.offset < last:
			return fmt.Errorf("%s, and behind it in the log, at %d, an acknowledged one is there: a hole at %d", lost, last, m.offset)
		case age > window:
			return fmt.Errorf("%s: it was %v old, more than %v", lost, age, window)
		}
		l.losses.count++
		l.losses.oldest = max(l.losses.oldest, age)
		delete(l.acked, at)
	}
	return nil
}

func (l *ledger) auditQueue(c *conn, queue int, found map[place]string, seen map[string]place) error {
	low, err := c.offset(codeMinOffset, topic, queue)
	if err != nil {
		return err
	}
	high, err := c.offset(codeMaxOffset, topic, queue)
	if err != nil {
		return err
	}
	if low > high {
		return fmt.Errorf("min %d above max %d", low, high)
	}
	lastOf := map[string]int{} // sender -> number of its last message in this queue
	for next := low; next < high; {
		a, err := c.pull(topic, queue, next)
		if err != nil {
			return err
		}
		if a.Code != answerOK || len(a.body) == 0 {
			return fmt.Errorf("pull at %d of [%d, %d): code %d, %s", next, low, high, a.Code, a.Remark)
		}
		for rest := a.body; len(rest) > 0; next++ {
			size := int(binary.BigEndian.Uint32(rest))
			if size < 91 || size > len(rest) {
				return fmt.Errorf("at %d: record of %d bytes in %d", next, size, len(rest))
			}
			if err := l.auditRecord(rest[:size], place{queue, next}, found, seen, lastOf); err != nil {
				return err
			}
			rest = rest[size:]
		}
	}
	return nil
}

func (l *ledger) auditRecord(r []byte, at place, found map[place]string, seen map[string]place, lastOf map[string]int) error {
	if q, o := int(binary.BigEndian.Uint32(r[12:])), int64(binary.BigEndian.Uint64(r[20:])); q != at.queue || o != at.offset {
		return fmt.Errorf("at %d: the record says queue %d offset %d", at.offset, q, o)
	}
	body := r[88 : 88+binary.BigEndian.Uint32(r[84:])]
	id := bodyID(body)
	sum, known := l.sent[id]
	if !known || crc32.ChecksumIEEE(body) != sum {
		return fmt.Errorf("at %d: body of %q was never sent so", at.offset, id)
	}
	if other, twice := seen[id]; twice {
		return fmt.Errorf("%s is there twice: queue %d offset %d and queue %d offset %d", id, other.queue, other.offset, at.queue, at.offset)
	}
	seen[id], found[at] = at, id
	sender, text, _ := strings.Cut(id, "-")
	number, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	if last, any := lastOf[sender]; any && number <= last {
		return fmt.Errorf("at %d: %s stands behind %s-%d", at.offset, id, sender, last)
	}
	lastOf[sender] = number
	return nil
}

// probe sends one message; it has to get the old max.
func (l *ledger) probe(c *conn, queue int, rng *rand.Rand) error {
	want, err := c.offset(codeMaxOffset, topic, queue)
	if err != nil {
		return err
	}
	id := "s0-" + strconv.Itoa(l.next[0])
	l.next[0]++
	body := newBody(rng, id)
	l.sent[id] = crc32.ChecksumIEEE(body)
	code, got, err := c.send(topic, queue, body)
	if err != nil {
		return err
	}
	if code != answerOK || got.queueOffset != want {
		return fmt.Errorf("a send after the start: code %d, offset %d, want %d", code, got.queueOffset, want)
	}
	l.acked[place{queue, want}] = stored{id, got.logOffset, time.Now()}
	return nil
}
