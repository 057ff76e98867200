package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

var (
	broker   = env("BROKER", "127.0.0.1:10911")
	resolver = primitive.NewPassthroughResolver([]string{env("NAMESRV", "127.0.0.1:9876")})
	id       = strconv.FormatInt(time.Now().UnixMilli(), 36) // part of each name: a run finds nothing of another one
	ctx      = context.Background()
	all      = consumer.MessageSelector{}
)

// usualWait is how long messages are waited for.
const usualWait = 60 * time.Second

// bench is a topic of a check's own with a producer.
type bench struct {
	topic, group string
	rocketmq.Producer
}

func newBench(name string, queues int, o ...producer.Option) (*bench, error) {
	b := &bench{topic: "go" + name + id, group: "goG" + name + id}
	if err := createTopic(b.topic, queues); err != nil {
		return nil, err
	}
	var err error
	b.Producer, err = newProducer(name, o...)
	return b, err
}

func createTopic(name string, queues int, o ...admin.OptionCreate) error {
	a, err := admin.NewAdmin(admin.WithResolver(resolver))
	if err != nil {
		return err
	}
	err = a.CreateTopic(ctx, append([]admin.OptionCreate{admin.WithTopicCreate(name), admin.WithBrokerAddrCreate(broker),
		admin.WithReadQueueNums(queues), admin.WithWriteQueueNums(queues)}, o...)...)
	time.Sleep(time.Second) // the name server learns of it from the broker
	return err
}

func producerOptions(name string) []producer.Option {
	return []producer.Option{producer.WithNsResolver(resolver), producer.WithGroupName("goP" + name + id),
		producer.WithInstanceName("goP" + name + id), producer.WithRetry(1)}
}

func newProducer(name string, o ...producer.Option) (rocketmq.Producer, error) {
	p, err := rocketmq.NewProducer(append(producerOptions(name), o...)...)
	if err != nil {
		return nil, err
	}
	return p, p.Start()
}

func (b *bench) close() { _ = b.Shutdown() }

func (b *bench) message(body string) *primitive.Message {
	return primitive.NewMessage(b.topic, []byte(body))
}

func (b *bench) send(m ...*primitive.Message) error {
	r, err := b.SendSync(ctx, m...)
	if err == nil && r.Status != primitive.SendOK {
		err = fmt.Errorf("status %v", r.Status)
	}
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// receive consumes as many messages as want has, and compares the bodies.
func (b *bench) receive(want map[string]bool) error {
	var g got
	c, err := push(&g, b.group, b.topic, all, nil)
	if err != nil {
		return err
	}
	defer c.Shutdown()
	if err := g.wait(len(want), usualWait); err != nil {
		return err
	}
	return g.bodies(want)
}

// got is what a consumer has received.
type got struct {
	mu   sync.Mutex
	list []*primitive.MessageExt
}

func (g *got) add(m ...*primitive.MessageExt) {
	g.mu.Lock()
	g.list = append(g.list, m...)
	g.mu.Unlock()
}

func (g *got) len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.list)
}

// wait waits for n messages, and then a little for one too many.
func (g *got) wait(n int, patience time.Duration) error {
	for end := time.Now().Add(patience); g.len() < n; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("got %d of %d messages", g.len(), n)
		}
	}
	time.Sleep(2 * time.Second)
	if g.len() != n {
		return fmt.Errorf("got %d, want %d", g.len(), n)
	}
	return nil
}

// bodies asks for every body of want exactly once, and for no other.
func (g *got) bodies(want map[string]bool) error {
	seen := map[string]int{}
	for _, m := range g.list {
		seen[string(m.Body)]++
	}
	for b := range want {
		if seen[b] != 1 {
			return fmt.Errorf("%q seen %d times", b[:min(len(b), 30)], seen[b])
		}
	}
	if len(seen) != len(want) {
		return fmt.Errorf("%d different bodies, want %d", len(seen), len(want))
	}
	return nil
}

// push starts a consumer from the first offset; f, if there is one, decides on each message.
func push(g *got, group, topic string, sel consumer.MessageSelector, f func(m *primitive.MessageExt) consumer.ConsumeResult, o ...consumer.Option) (rocketmq.PushConsumer, error) {
	instance := group + strconv.Itoa(int(time.Now().UnixNano()%1e6))
	c, err := rocketmq.NewPushConsumer(append([]consumer.Option{consumer.WithNsResolver(resolver), consumer.WithGroupName(group),
		consumer.WithInstance(instance), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset)}, o...)...)
	if err != nil {
		return nil, err
	}
	err = c.Subscribe(topic, sel, func(_ context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		result := consumer.ConsumeSuccess
		for _, m := range ms {
			if f != nil {
				if r := f(m); r != consumer.ConsumeSuccess {
					result = r
				}
			}
		}
		g.add(ms...)
		return result, nil
	})
	if err != nil {
		return nil, err
	}
	return c, c.Start()
}
