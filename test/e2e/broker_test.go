// Package e2e drives a ringmq process with the official Go client.
package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const patience = 60 * time.Second

func TestMain(m *testing.M) {
	rlog.SetLogLevel("fatal")
	os.Exit(m.Run())
}

// broker is one ringmq process with its store, restartable on the same ports.
type broker struct {
	t               *testing.T
	dir             string
	port, namesPort int
	settings        []string
	cmd             *exec.Cmd
	output          *syncBuffer
	exited          chan struct{}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func binary(t *testing.T) string {
	path := os.Getenv("RINGMQ")
	if path == "" {
		path = filepath.Join("..", "..", "bin", "ringmq")
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("no ringmq binary (run `make build`, or set RINGMQ): %v", err)
	}
	return path
}

// freePorts finds a port that is free together with the fast port two below it, and another one. All are held until all are found.
func freePorts(t *testing.T) (broker, names int) {
	t.Helper()
	listen := func(port int) (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)) }
	for range 100 {
		first, err := listen(0)
		if err != nil {
			t.Fatal(err)
		}
		defer first.Close()
		broker = first.Addr().(*net.TCPAddr).Port
		fast, err := listen(broker - 2)
		if err != nil {
			continue
		}
		defer fast.Close()
		other, err := listen(0)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		return broker, other.Addr().(*net.TCPAddr).Port
	}
	t.Fatal("no two free ports in 100 tries")
	return 0, 0
}

func startBroker(t *testing.T, settings ...string) *broker {
	t.Helper()
	b := &broker{t: t, dir: t.TempDir(), settings: settings}
	b.port, b.namesPort = freePorts(t)
	b.start()
	t.Cleanup(b.stop)
	return b
}

func (b *broker) start() {
	b.t.Helper()
	args := []string{"server",
		"--set", "storePathRootDir=" + filepath.Join(b.dir, "store"), "--set", "brokerName=broker-a",
		"--set", "listenPort=" + strconv.Itoa(b.port), "--set", "ringmq.namesrvListenPort=" + strconv.Itoa(b.namesPort),
		"--set", "ringmq.httpAddress=off", "--set", "mappedFileSizeCommitLog=16777216",
	}
	for _, s := range b.settings {
		args = append(args, "--set", s)
	}
	b.output = &syncBuffer{}
	b.cmd = exec.Command(binary(b.t), args...)
	b.cmd.Stdout, b.cmd.Stderr = b.output, b.output
	if err := b.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		_ = cmd.Wait()
		close(exited)
	}(b.cmd, b.exited)
	deadline := time.Now().Add(patience)
	for !bytes.Contains([]byte(b.output.String()), []byte("boot success. serializeType=JSON")) {
		select {
		case <-b.exited:
			b.t.Fatalf("the broker ended: %s", b.output)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("the broker does not come up: %s", b.output)
		}
	}
}

func (b *broker) kill() {
	_ = b.cmd.Process.Kill()
	<-b.exited
}

func (b *broker) stop() {
	_ = b.cmd.Process.Signal(os.Interrupt)
	select {
	case <-b.exited:
	case <-time.After(patience):
		b.kill()
		b.t.Errorf("the broker did not stop: %s", b.output)
	}
	if b.cmd.ProcessState.ExitCode() > 0 {
		b.t.Errorf("exit code %d: %s", b.cmd.ProcessState.ExitCode(), b.output)
	}
}

func (b *broker) resolver() primitive.NsResolver {
	return primitive.NewPassthroughResolver([]string{fmt.Sprintf("127.0.0.1:%d", b.namesPort)})
}

func (b *broker) createTopic(name string, queues int) {
	b.t.Helper()
	a, err := admin.NewAdmin(admin.WithResolver(b.resolver()))
	if err != nil {
		b.t.Fatal(err)
	}
	defer a.Close()
	err = a.CreateTopic(context.Background(), admin.WithTopicCreate(name), admin.WithBrokerAddrCreate(fmt.Sprintf("127.0.0.1:%d", b.port)),
		admin.WithReadQueueNums(queues), admin.WithWriteQueueNums(queues))
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *broker) producer(options ...producer.Option) rocketmq.Producer {
	b.t.Helper()
	name := b.t.Name() + strconv.FormatInt(time.Now().UnixNano(), 36)
	p, err := rocketmq.NewProducer(append([]producer.Option{producer.WithNsResolver(b.resolver()), producer.WithGroupName("P-" + name),
		producer.WithInstanceName(name), producer.WithRetry(1)}, options...)...)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = p.Shutdown() })
	return p
}

// inbox gathers what a consumer gets.
type inbox struct {
	mu    sync.Mutex
	count map[string]int
	more  chan struct{}
}

func newInbox() *inbox { return &inbox{count: map[string]int{}, more: make(chan struct{}, 1)} }

func (i *inbox) add(bodies ...*primitive.MessageExt) {
	i.mu.Lock()
	for _, m := range bodies {
		i.count[string(m.Body)]++
	}
	i.mu.Unlock()
	select {
	case i.more <- struct{}{}:
	default:
	}
}

func (i *inbox) len() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.count)
}

// waitFor waits until the inboxes together hold n different bodies.
func waitFor(t *testing.T, n int, boxes ...*inbox) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		total := 0
		for _, b := range boxes {
			total += b.len()
		}
		if total >= n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %d of %d messages", total, n)
		}
		select {
		case <-boxes[0].more:
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// holdsExactly checks that each body of want came once and nothing else.
func (i *inbox) holdsExactly(t *testing.T, want map[string]bool) {
	t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	for body := range want {
		if i.count[body] != 1 {
			t.Errorf("%.40q came %d times", body, i.count[body])
		}
	}
	for body := range i.count {
		if !want[body] {
			t.Errorf("%.40q was never sent", body)
		}
	}
}

func (b *broker) consume(group, topic, tags string, into *inbox) rocketmq.PushConsumer {
	b.t.Helper()
	c, err := rocketmq.NewPushConsumer(consumer.WithNsResolver(b.resolver()), consumer.WithGroupName(group),
		consumer.WithInstance(group+strconv.FormatInt(time.Now().UnixNano(), 36)), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		b.t.Fatal(err)
	}
	selector := consumer.MessageSelector{}
	if tags != "" {
		selector = consumer.MessageSelector{Type: consumer.TAG, Expression: tags}
	}
	err = c.Subscribe(topic, selector, func(_ context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		into.add(ms...)
		return consumer.ConsumeSuccess, nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = c.Shutdown() })
	return c
}
