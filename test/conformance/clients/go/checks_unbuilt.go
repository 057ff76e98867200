package main

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// What is not built yet. These checks pass against Apache's brokers.

func selectBySQL() error {
	b, err := newBench("sq", 2)
	if err != nil {
		return err
	}
	defer b.close()
	for i := range 20 {
		m := b.message(strconv.Itoa(i))
		m.WithProperty("a", strconv.Itoa(i))
		if err := b.send(m); err != nil {
			return err
		}
	}
	var g got
	c, err := push(&g, b.group, b.topic, consumer.MessageSelector{Type: consumer.SQL92, Expression: "a BETWEEN 5 AND 9"}, nil)
	if err != nil {
		return err
	}
	defer c.Shutdown()
	return g.wait(5, usualWait)
}

func delayLevel() error {
	return delivered("dl", 4500*time.Millisecond, 12*time.Second, func(m *primitive.Message) { m.WithDelayTimeLevel(2) })
}

func delayTime() error {
	return delivered("dt", 5500*time.Millisecond, 14*time.Second, func(m *primitive.Message) { m.WithDelayTimestamp(time.Now().Add(7 * time.Second)) })
}

// delivered sends a delayed message, which must come within the bounds.
func delivered(name string, earliest, latest time.Duration, delay func(*primitive.Message)) error {
	b, err := newBench(name, 1)
	if err != nil {
		return err
	}
	defer b.close()
	var g got
	var at atomic.Int64
	c, err := push(&g, b.group, b.topic, all, func(*primitive.MessageExt) consumer.ConsumeResult {
		at.Store(time.Now().UnixMilli())
		return consumer.ConsumeSuccess
	})
	if err != nil {
		return err
	}
	defer c.Shutdown()
	begun := time.Now()
	m := b.message("d")
	delay(m)
	if err := b.send(m); err != nil {
		return err
	}
	if err := g.wait(1, usualWait); err != nil {
		return err
	}
	if took := time.UnixMilli(at.Load()).Sub(begun); took < earliest || took > latest {
		return fmt.Errorf("came after %v, want %v to %v", took, earliest, latest)
	}
	return nil
}

// outcomes decides on transactions by the body, at once or when it is asked.
type outcomes struct{ asked atomic.Int32 }

func (o *outcomes) ExecuteLocalTransaction(m *primitive.Message) primitive.LocalTransactionState {
	switch string(m.Body) {
	case "commit":
		return primitive.CommitMessageState
	case "rollback":
		return primitive.RollbackMessageState
	}
	return primitive.UnkonwnState
}

func (o *outcomes) CheckLocalTransaction(*primitive.MessageExt) primitive.LocalTransactionState {
	o.asked.Add(1)
	return primitive.CommitMessageState
}

func transaction() error {
	topic := "gotx" + id
	if err := createTopic(topic, 1); err != nil {
		return err
	}
	var o outcomes
	p, err := rocketmq.NewTransactionProducer(&o, producerOptions("tx")...)
	if err != nil {
		return err
	}
	if err := p.Start(); err != nil {
		return err
	}
	defer p.Shutdown()
	for _, body := range []string{"commit", "rollback", "unknown"} {
		if _, err := p.SendMessageInTransaction(ctx, primitive.NewMessage(topic, []byte(body))); err != nil {
			return err
		}
	}
	var g got
	c, err := push(&g, "goGtx"+id, topic, all, nil)
	if err != nil {
		return err
	}
	defer c.Shutdown()
	if err := g.wait(2, 150*time.Second); err != nil {
		return fmt.Errorf("%w, asked %d times", err, o.asked.Load())
	}
	return g.bodies(map[string]bool{"commit": true, "unknown": true})
}

func retryAndDeadLetter() error {
	b, err := newBench("rt", 1)
	if err != nil {
		return err
	}
	defer b.close()
	var g got
	c, err := push(&g, b.group, b.topic, all, func(*primitive.MessageExt) consumer.ConsumeResult { return consumer.ConsumeRetryLater }, consumer.WithMaxReconsumeTimes(1))
	if err != nil {
		return err
	}
	defer c.Shutdown()
	if err := b.send(b.message("poison")); err != nil {
		return err
	}
	for end := time.Now().Add(usualWait); g.len() < 2; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("delivered %d times", g.len())
		}
	}
	if n := g.list[1].ReconsumeTimes; n != 1 {
		return fmt.Errorf("reconsumeTimes %d, want 1", n)
	}
	time.Sleep(3 * time.Second)
	return deadLetter(b.group)
}

func deadLetter(group string) error {
	topic := "%DLQ%" + group
	// The broker makes it write-only (2); a reader needs 6.
	if err := createTopic(topic, 1, admin.WithPerm(6)); err != nil {
		return err
	}
	var g got
	c, err := push(&g, group+"d", topic, all, nil)
	if err != nil {
		return err
	}
	defer c.Shutdown()
	if err := g.wait(1, usualWait); err != nil {
		return fmt.Errorf("dead letter: %w", err)
	}
	return g.bodies(map[string]bool{"poison": true})
}
