package main

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"
)

const (
	topic   = "Crash"
	queues  = 4
	senders = 8
)

// ledger is what the suite knows: every body that was ever sent, and what was acknowledged where.
type ledger struct {
	mu     sync.Mutex
	sent   map[string]uint32 // "sender-number" -> checksum of its body
	acked  map[place]stored  // queue and offset -> what was acknowledged there
	topics map[string]bool   // topics whose creation was acknowledged
	next   [senders]int      // number of each sender's next message
	pause  time.Duration     // of each sender between two messages
	count  int               // acknowledged in this round
	struck time.Time         // when this round's kill or cut came
	losses losses            // what the last audit missed and may miss
}

// stored is an acknowledged message.
type stored struct {
	id     string // "sender-number"
	offset int64  // in the log
	at     time.Time
}

type place struct {
	queue  int
	offset int64
}

func newLedger() *ledger {
	return &ledger{sent: map[string]uint32{}, acked: map[place]stored{}, topics: map[string]bool{}}
}

// newBody makes a body that tells whose it is and carries 50 to 3,000 random letters.
func newBody(rng *rand.Rand, id string) []byte {
	body := make([]byte, 0, 3100)
	body = append(body, id...)
	body = append(body, ' ')
	for n := 50 + rng.IntN(2951); n > 0; n-- {
		body = append(body, byte('a'+rng.IntN(26)))
	}
	return body
}

func bodyID(body []byte) string {
	id, _, _ := bytes.Cut(body, []byte(" "))
	return string(id)
}

// run sends from all senders until stop is closed or the broker is gone. Each sender waits for the answer before it sends the next.
func (l *ledger) run(port int, seed uint64, stop <-chan struct{}) {
	l.count = 0
	var all sync.WaitGroup
	for s := range senders {
		all.Go(func() { l.sender(port, s, rand.New(rand.NewPCG(seed, uint64(s))), stop) })
	}
	all.Wait()
}

func (l *ledger) sender(port, s int, rng *rand.Rand, stop <-chan struct{}) {
	c, err := dial(port)
	if err != nil {
		return
	}
	defer c.Close()
	for {
		select {
		case <-stop:
			return
		default:
		}
		l.mu.Lock()
		id := "s" + strconv.Itoa(s) + "-" + strconv.Itoa(l.next[s])
		l.next[s]++
		l.mu.Unlock()
		body := newBody(rng, id)
		queue := rng.IntN(queues)
		l.mu.Lock()
		l.sent[id] = crc32.ChecksumIEEE(body)
		l.mu.Unlock()
		code, to, err := c.send(topic, queue, body)
		if err != nil {
			return
		}
		if code != answerOK {
			time.Sleep(10 * time.Millisecond) // a latched broker refuses quickly
			continue
		}
		l.acknowledged(id, queue, to)
		time.Sleep(l.pause)
	}
}

func (l *ledger) acknowledged(id string, queue int, to position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := place{queue, to.queueOffset}
	if other, taken := l.acked[at]; taken {
		panic(fmt.Sprintf("queue %d offset %d was given to %s and to %s", queue, to.queueOffset, other.id, id))
	}
	l.acked[at] = stored{id, to.logOffset, time.Now()}
	l.count++
}
