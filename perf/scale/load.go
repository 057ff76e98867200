package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"ringmq/engine/message"
	"ringmq/net/client"
	"ringmq/net/remoting"
)

// load is a few connections to a broker, and what it is asked for.
type load struct{ clients []*client.Client }

const connections = 4

func connect(*broker) (*load, error) {
	var l load
	for range connections {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		c, err := client.Dial(ctx, client.Options{Address: "127.0.0.1:" + strconv.Itoa(*port)})
		cancel()
		if err != nil {
			return nil, err
		}
		l.clients = append(l.clients, c)
	}
	return &l, nil
}

// each calls do with the numbers below n, a few at a time, and returns the first error.
func (l *load) each(n int, do func(c *client.Client, i int) error) error {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var workers sync.WaitGroup
	for w := range *inFlight {
		workers.Go(func() {
			for failed.Load() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(l.clients[w%len(l.clients)], i); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	workers.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// ask sends one request; any answer but success is an error.
func ask(c *client.Client, code int32, body []byte, fields ...string) (*remoting.Command, error) {
	var request remoting.Command
	request.Reset()
	request.Code, request.Body = code, body
	for i := 0; i < len(fields); i += 2 {
		request.SetStr(fields[i], fields[i+1])
	}
	answer, err := c.Call(context.Background(), &request)
	if err != nil {
		return nil, err
	}
	if answer.Code != remoting.Success {
		return nil, fmt.Errorf("%s: answered %d %s", remoting.CodeName(code), answer.Code, answer.Remark)
	}
	return answer, nil
}

func topicOf(i int) string { return "ScaleTopic" + strconv.Itoa(i%*topics) }
func queueOf(i int) int    { return i / *topics }

func bodyOf(queue, number int) string {
	return fmt.Sprintf("message %d of queue %d of %s, with some text as real ones have", number, queueOf(queue), topicOf(queue))
}

func (l *load) createTopics() error {
	queues := strconv.Itoa(*perTopic)
	return l.each(*topics, func(c *client.Client, i int) error {
		_, err := ask(c, remoting.UpdateAndCreateTopic, nil, "topic", topicOf(i), "defaultTopic", "TBW102", "readQueueNums", queues,
			"writeQueueNums", queues, "perm", "6", "topicFilterType", "SINGLE_TAG", "topicSysFlag", "0", "order", "false")
		return err
	})
}

// send puts messages with the numbers from up to to into every queue, one in each before the next: the order that is worst for the broker.
func (l *load) send(from, to int) error {
	queues := *topics * *perTopic
	for number := from; number < to; number++ {
		err := l.each(queues, func(c *client.Client, i int) error {
			key := fmt.Sprintf("KEYS\x01key-%d-%d\x02TAGS\x01TagA\x02", i, number)
			answer, err := ask(c, remoting.SendMessageV2, []byte(bodyOf(i, number)), "a", "scale", "b", topicOf(i), "c", "TBW102", "d", "4",
				"e", strconv.Itoa(queueOf(i)), "f", "0", "g", "1795972758702", "h", "0", "i", key, "j", "0", "k", "false", "m", "false")
			if err == nil && answer.Str("queueOffset") != strconv.Itoa(number) {
				err = fmt.Errorf("message %d of queue %d of %s has number %s", number, queueOf(i), topicOf(i), answer.Str("queueOffset"))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// pull reads every queue from its beginning and compares each message with what was sent.
func (l *load) pull(want int) error {
	return l.each(*topics**perTopic, func(c *client.Client, i int) error {
		records, err := pullQueue(c, i)
		if err != nil {
			return err
		}
		return compare(i, records, want)
	})
}

// dispatched waits until the message that was sent last can be pulled.
func (l *load) dispatched(want int) error {
	last := *topics**perTopic - 1
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		records, err := pullQueue(l.clients[0], last)
		if err == nil {
			err = compare(last, records, want)
		}
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

func pullQueue(c *client.Client, i int) ([]byte, error) {
	answer, err := ask(c, remoting.PullMessage, nil, "consumerGroup", "scale", "topic", topicOf(i), "queueId", strconv.Itoa(queueOf(i)),
		"queueOffset", "0", "maxMsgNums", "32", "sysFlag", "4", "commitOffset", "0", "suspendTimeoutMillis", "0", "subscription", "*",
		"subVersion", "0", "expressionType", "TAG")
	if err != nil {
		return nil, fmt.Errorf("queue %d of %s: %w", queueOf(i), topicOf(i), err)
	}
	return answer.Body, nil
}

func compare(queue int, records []byte, want int) error {
	number := 0
	for ; len(records) >= 4; number++ {
		var r message.Record
		size := message.Size(records)
		if size <= 0 || size > len(records) {
			return fmt.Errorf("queue %d of %s: message %d has size %d of %d", queueOf(queue), topicOf(queue), number, size, len(records))
		}
		if err := message.Decode(records[:size], &r); err != nil {
			return err
		}
		if string(r.Body) != bodyOf(queue, number) || int(r.QueueOffset) != number {
			return fmt.Errorf("queue %d of %s: number %d is %q", queueOf(queue), topicOf(queue), r.QueueOffset, r.Body)
		}
		records = records[size:]
	}
	if number != want {
		return fmt.Errorf("queue %d of %s: %d messages, want %d", queueOf(queue), topicOf(queue), number, want)
	}
	return nil
}
