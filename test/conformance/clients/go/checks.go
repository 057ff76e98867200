package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// uncompressed keeps the client from compressing a large body.
var uncompressed = producer.WithCompressMsgBodyOverHowmuch(1 << 30)

func sendReceive() error {
	b, err := newBench("sr", 4)
	if err != nil {
		return err
	}
	defer b.close()
	want := map[string]bool{}
	for i := range 200 {
		body := fmt.Sprintf("body-%d-%s", i, id)
		want[body] = true
		if err := b.send(b.message(body).WithKeys([]string{"k" + strconv.Itoa(i)}).WithTag("T")); err != nil {
			return err
		}
	}
	if err := sendAsync(b, want); err != nil {
		return err
	}
	for i := range 50 {
		body := fmt.Sprintf("oneway-%d", i)
		want[body] = true
		if err := b.SendOneWay(ctx, b.message(body)); err != nil {
			return err
		}
	}
	return b.receive(want)
}

func sendAsync(b *bench, want map[string]bool) error {
	var answered sync.WaitGroup
	var failed atomic.Int32
	for i := range 50 {
		body := fmt.Sprintf("async-%d", i)
		want[body] = true
		answered.Add(1)
		err := b.SendAsync(ctx, func(_ context.Context, r *primitive.SendResult, err error) {
			if err != nil || r.Status != primitive.SendOK {
				failed.Add(1)
			}
			answered.Done()
		}, b.message(body))
		if err != nil {
			return err
		}
	}
	answered.Wait()
	if n := failed.Load(); n > 0 {
		return fmt.Errorf("%d async sends failed", n)
	}
	return nil
}

func selectByTags() error {
	b, err := newBench("tg", 2)
	if err != nil {
		return err
	}
	defer b.close()
	for i := range 60 {
		if err := b.send(b.message(strconv.Itoa(i)).WithTag("T" + strconv.Itoa(i%3))); err != nil {
			return err
		}
	}
	var g got
	c, err := push(&g, b.group, b.topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "T0 || T2"}, nil)
	if err != nil {
		return err
	}
	defer c.Shutdown()
	if err := g.wait(40, usualWait); err != nil {
		return err
	}
	for _, m := range g.list {
		if m.GetTags() == "T1" {
			return fmt.Errorf("got T1")
		}
	}
	return nil
}

func order() error {
	b, err := newBench("or", 4, producer.WithQueueSelector(producer.NewHashQueueSelector()))
	if err != nil {
		return err
	}
	defer b.close()
	for i := range 100 {
		if err := b.send(b.message(fmt.Sprintf("%d:%d", i%5, i)).WithShardingKey("k" + strconv.Itoa(i%5))); err != nil {
			return err
		}
	}
	var g got
	c, err := push(&g, b.group, b.topic, all, nil, consumer.WithConsumerOrder(true))
	if err != nil {
		return err
	}
	defer c.Shutdown()
	if err := g.wait(100, usualWait); err != nil {
		return err
	}
	last := map[string]int{}
	for _, m := range g.list {
		key, text, _ := strings.Cut(string(m.Body), ":")
		n, _ := strconv.Atoi(text)
		if l, ok := last[key]; ok && n < l {
			return fmt.Errorf("key %s: %d after %d", key, n, l)
		}
		last[key] = n
	}
	return nil
}

// offsetAfterRestart: a consumer that comes back goes on behind what it has consumed.
func offsetAfterRestart() error {
	b, err := newBench("of", 2)
	if err != nil {
		return err
	}
	defer b.close()
	for round := range 3 {
		want := map[string]bool{}
		for i := range 20 {
			body := fmt.Sprintf("%d-%d", round, i)
			want[body] = true
			if err := b.send(b.message(body)); err != nil {
				return err
			}
		}
		if err := b.receive(want); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		time.Sleep(time.Second)
	}
	return nil
}

func batch() error {
	b, err := newBench("ba", 1)
	if err != nil {
		return err
	}
	defer b.close()
	var messages []*primitive.Message
	want := map[string]bool{}
	for i := range 30 {
		body := fmt.Sprintf("b%d", i)
		want[body] = true
		messages = append(messages, b.message(body))
	}
	if err := b.send(messages...); err != nil {
		return err
	}
	return b.receive(want)
}

func large() error {
	b, err := newBench("lg", 1, producer.WithSendMsgTimeout(20*time.Second), uncompressed)
	if err != nil {
		return err
	}
	defer b.close()
	return b.sendAndReceive(strings.Repeat("0123456789abcdef", 3<<20/16))
}

func compressed() error {
	b, err := newBench("cp", 1, producer.WithCompressMsgBodyOverHowmuch(1024))
	if err != nil {
		return err
	}
	defer b.close()
	return b.sendAndReceive(strings.Repeat("0123456789abcdef", 1<<10))
}

func (b *bench) sendAndReceive(body string) error {
	if err := b.send(b.message(body)); err != nil {
		return err
	}
	return b.receive(map[string]bool{body: true})
}

func oversize() error {
	b, err := newBench("ov", 1, producer.WithSendMsgTimeout(20*time.Second), uncompressed)
	if err != nil {
		return err
	}
	defer b.close()
	err = b.send(b.message(string(make([]byte, 5<<20))))
	if err == nil || !strings.Contains(err.Error(), "CODE: 13") {
		return fmt.Errorf("5 MiB: %v, want code 13", err)
	}
	return nil
}

func unknownTopic() error {
	p, err := newProducer("uk", producer.WithCreateTopicKey("nosuchkey"+id))
	if err != nil {
		return err
	}
	defer p.Shutdown()
	if _, err := p.SendSync(ctx, primitive.NewMessage("goNoSuch"+id, []byte("x"))); err == nil {
		return fmt.Errorf("no error")
	}
	return nil
}

func autoCreate() error {
	p, err := newProducer("ac")
	if err != nil {
		return err
	}
	defer p.Shutdown()
	_, err = p.SendSync(ctx, primitive.NewMessage("goAuto"+id, []byte("x")))
	return err
}
