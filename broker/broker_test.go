package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ringmq/broker/topic"
	"ringmq/engine"
	"ringmq/engine/checkpoint"
	"ringmq/engine/message"
	"ringmq/namesrv"
	"ringmq/net/client"
	"ringmq/net/remoting"
	"ringmq/net/server"
)

func options(dir string, nameServers ...string) Options {
	return Options{
		Name: "broker-a", Address: "127.0.0.1:10911", HAAddress: "127.0.0.1:10912", NameServers: nameServers, Version: "test",
		RegisterTimeout: 2 * time.Second, SaveOffsetsEvery: 20 * time.Millisecond, FirstRegistrationLimit: 300 * time.Millisecond,
		Engine: engine.Options{Dir: dir, SegmentSize: 16 << 20, QueueFileSize: 20_000, PoolSize: 12 << 20, UnlockedPool: true, PutWaitMS: 60_000,
			IndexSlots: 1000, IndexEntries: 10_000},
		Server: server.Options{Addresses: []string{"127.0.0.1:0"}, Loops: 2},
	}
}

func start(t *testing.T, o Options) *Broker {
	t.Helper()
	b, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	return b
}

func stop(t *testing.T, b *Broker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := b.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

func listenNames(t *testing.T, address string) *namesrv.NameServer {
	t.Helper()
	n, err := namesrv.Listen(namesrv.Options{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// peer is a client of a broker or a name server.
type peer struct {
	*client.Client
	notices chan string // groups that changed
}

func dial(t *testing.T, address netip.AddrPort) *peer {
	t.Helper()
	p := &peer{notices: make(chan string, 100)}
	c, err := client.Dial(t.Context(), client.Options{Address: address.String(), Request: func(c *remoting.Command) *remoting.Command {
		p.notices <- c.Str("consumerGroup")
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	p.Client = c
	return p
}

// ask is one request with fields name, value, … and its answer.
func (p *peer) ask(t *testing.T, code int32, body []byte, fields ...string) *remoting.Command {
	t.Helper()
	c := new(remoting.Command)
	c.Reset()
	c.Code, c.Body = code, body
	for i := 0; i < len(fields); i += 2 {
		c.SetStr(fields[i], fields[i+1])
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	answer, err := p.Call(ctx, c)
	if err != nil {
		t.Fatalf("%s: %v", remoting.CodeName(code), err)
	}
	return answer
}

func (p *peer) send(t *testing.T, topic, body string) *remoting.Command {
	t.Helper()
	return p.ask(t, 310, []byte(body), "a", "PG", "b", topic, "c", "TBW102", "d", "4", "e", "0", "f", "0", "g", "1", "h", "0", "i", "TAGS\x01A\x02", "j", "0", "k", "false", "m", "false")
}

func (p *peer) pull(t *testing.T, topic string, from int, sysFlag string) *remoting.Command {
	t.Helper()
	return p.ask(t, 11, nil, "consumerGroup", "G", "topic", topic, "queueId", "0", "queueOffset", fmt.Sprint(from), "maxMsgNums", "32",
		"sysFlag", sysFlag, "commitOffset", fmt.Sprint(from), "suspendTimeoutMillis", "8000", "subscription", "*", "subVersion", "0")
}

// eventually waits for something that another goroutine does.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatal(what + " did not happen")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// The life of a broker: routes, sends, pulls that wait, offsets, a stop, and everything there again.
func TestLife(t *testing.T) {
	t.Parallel()
	ns := listenNames(t, "127.0.0.1:0")
	defer ns.Close(context.Background())
	names := dial(t, ns.Addr())
	dir := t.TempDir()
	b := start(t, options(dir, ns.Addr().String()))
	for _, topic := range []string{"TBW102", "DefaultCluster", "broker-a"} {
		if a := names.ask(t, 105, nil, "topic", topic); a.Code != 0 || !strings.Contains(string(a.Body), "127.0.0.1:10911") {
			t.Errorf("route of %s right after the start: %d %s", topic, a.Code, a.Body)
		}
	}
	p := dial(t, b.Addrs()[0])
	if a := p.send(t, "New", "m0"); a.Code != 0 || a.Str("msgId") != "7F00000100002A9F0000000000000000" {
		t.Fatalf("send: %d %q %s", a.Code, a.Remark, a.Fields)
	}
	eventually(t, "the route of a new topic", func() bool { return names.ask(t, 105, nil, "topic", "New").Code == 0 })

	heartbeat := `{"clientID":"c1","consumerDataSet":[{"groupName":"G","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING","subscriptionDataSet":[{"topic":"New","subString":"*","subVersion":1}]}],"producerDataSet":[]}`
	if a := p.ask(t, 34, []byte(heartbeat)); a.Code != 0 {
		t.Fatalf("heartbeat: %d %q", a.Code, a.Remark)
	}
	if got := <-p.notices; got != "G" {
		t.Errorf("notice for %q", got)
	}
	eventually(t, "the first message", func() bool { return p.pull(t, "New", 0, "2").Code == 0 })
	sent := make(chan struct{})
	go func() { // while the pull waits
		defer close(sent)
		eventually(t, "the pull", func() bool { return b.parked.Count() == 1 })
		p.send(t, "New", "m1")
	}()
	a := p.pull(t, "New", 1, "3")
	if a.Code != 0 || a.Str("nextBeginOffset") != "2" {
		t.Errorf("long poll: %d %q %s", a.Code, a.Remark, a.Fields)
	}
	var r message.Record
	if err := message.Decode(a.Body, &r); err != nil || string(r.Body) != "m1" {
		t.Errorf("pulled %q, %v", r.Body, err)
	}
	<-sent
	file := filepath.Join(dir, "config", "consumerOffset.json")
	eventually(t, "the save of the offset", func() bool { text, _ := os.ReadFile(file); return strings.Contains(string(text), `"New@G"`) })

	stop(t, b)
	if a := names.ask(t, 105, nil, "topic", "New"); a.Code != 17 {
		t.Errorf("route after the stop: %d %s", a.Code, a.Body)
	}
	for _, name := range []string{"topics.json", "subscriptionGroup.json", "consumerOffset.json"} {
		if _, err := os.Stat(filepath.Join(dir, "config", name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "abort")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("abort file after a clean stop: %v", err)
	}

	b = start(t, options(dir, ns.Addr().String()))
	defer stop(t, b)
	p = dial(t, b.Addrs()[0])
	if a := p.ask(t, 14, nil, "topic", "New", "queueId", "0", "consumerGroup", "G"); a.Str("offset") != "1" {
		t.Errorf("offset after the restart: %s", a.Fields)
	}
	if a := p.pull(t, "New", 0, "4"); a.Code != 0 || a.Str("nextBeginOffset") != "2" {
		t.Errorf("pull after the restart: %d %q", a.Code, a.Remark)
	}
	if a := p.send(t, "New", "m2"); a.Str("queueOffset") != "2" {
		t.Errorf("send after the restart: %d %s", a.Code, a.Fields)
	}
}

// Without its settings a store gives out its messages all the same, and a topic has also its queues that are empty.
func TestSettingsLost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := start(t, options(dir))
	p := dial(t, b.Addrs()[0])
	for n := range 3 {
		if a := p.send(t, "New", fmt.Sprint("m", n)); a.Code != 0 {
			t.Fatal(a.Remark)
		}
	}
	stop(t, b)
	if err := os.RemoveAll(filepath.Join(dir, "config")); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "consumequeue", "New", "5")
	if err := os.MkdirAll(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(empty, fmt.Sprintf("%020d", 0)), make([]byte, 20_000), 0o644); err != nil {
		t.Fatal(err)
	}
	b = start(t, options(dir))
	defer stop(t, b)
	p = dial(t, b.Addrs()[0])
	if a := p.pull(t, "New", 0, "4"); a.Code != 0 || a.Str("nextBeginOffset") != "3" {
		t.Errorf("pull: %d %q %s", a.Code, a.Remark, a.Fields)
	}
	if c := b.topics.Get("New"); c.ReadQueues != 6 || c.WriteQueues != 6 {
		t.Errorf("got %+v", c)
	}
}

// A topic that a send made is in the topics file before the send is answered: a kill leaves it with all its queues.
func TestNewTopicSurvivesKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := start(t, options(dir))
	defer stop(t, b)
	p := dial(t, b.Addrs()[0])
	for n := range 20 {
		name := fmt.Sprint("New", n)
		if a := p.send(t, name, "first"); a.Code != 0 {
			t.Fatal(a.Remark)
		}
		text, err := os.ReadFile(filepath.Join(dir, "config", "topics.json"))
		if err != nil || !strings.Contains(string(text), `"`+name+`"`) {
			t.Fatalf("topic %s is not in the file (%v)", name, err)
		}
	}
}

// One name server that takes connections and never answers, one that is not there: the third is told at once all the same, also when
// it has been away and back.
func TestNameServersDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	ns := listenNames(t, "127.0.0.1:0")
	o := options(t.TempDir(), mute.Addr().String(), "127.0.0.1:1", ns.Addr().String())
	began := time.Now()
	b := start(t, o)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the start took %v", took)
	}
	address := ns.Addr().String()
	names := dial(t, ns.Addr())
	eventually(t, "the registration", func() bool { return names.ask(t, 105, nil, "topic", "TBW102").Code == 0 })
	p := dial(t, b.Addrs()[0])
	p.send(t, "New", "x")
	eventually(t, "the registration of a new topic", func() bool { return names.ask(t, 105, nil, "topic", "New").Code == 0 })

	if err := ns.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	ns = listenNames(t, address)
	defer ns.Close(context.Background())
	names = dial(t, ns.Addr())
	eventually(t, "the registration with a name server that was away", func() bool { return names.ask(t, 105, nil, "topic", "New").Code == 0 })

	began = time.Now()
	stop(t, b)
	if took := time.Since(began); took > unregisterLimit+2*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if a := names.ask(t, 105, nil, "topic", "New"); a.Code != 17 {
		t.Errorf("route after the stop: %d", a.Code)
	}
}

func TestRegistrationBody(t *testing.T) {
	t.Parallel()
	o := options(t.TempDir())
	o.Withheld = topic.PermWrite
	b, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, b)
	c := b.registrar.request()
	for name, want := range map[string]string{
		"brokerName": "broker-a", "brokerAddr": "127.0.0.1:10911", "clusterName": "DefaultCluster", "brokerId": "0",
		"haServerAddr": "127.0.0.1:10912", "compressed": "false", "enableActingMaster": "false",
	} {
		if got := c.Str(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	var body struct {
		FilterServerList            []string
		TopicConfigSerializeWrapper struct {
			DataVersion      struct{ Counter, Timestamp int64 }
			TopicConfigTable map[string]struct{ Perm, ReadQueueNums int32 }
		}
	}
	if err := json.Unmarshal(c.Body, &body); err != nil {
		t.Fatal(err)
	}
	w := body.TopicConfigSerializeWrapper
	if w.DataVersion.Counter == 0 || w.TopicConfigTable["BenchmarkTest"].ReadQueueNums != 1024 || w.TopicConfigTable["TBW102"].Perm != 5 || body.FilterServerList == nil {
		t.Errorf("body %s", c.Body)
	}
	if again := b.registrar.table(); &again[0] != &c.Body[0] {
		t.Error("the table was encoded again without a change")
	}
}

// Every settings file in every state a power cut may leave: the broker starts, and damage is kept.
func TestDamagedSettings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := start(t, options(dir))
	p := dial(t, b.Addrs()[0])
	p.send(t, "New", "x")
	eventually(t, "the dispatch", func() bool { return p.pull(t, "New", 0, "5").Code == 0 })
	p.pull(t, "New", 1, "5")
	stop(t, b)
	config := filepath.Join(dir, "config")
	for _, name := range []string{"topics.json", "subscriptionGroup.json", "consumerOffset.json"} {
		path := filepath.Join(config, name)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for what, damaged := range map[string][]byte{"zeros": make([]byte, len(good)), "empty": {}, "half": good[:len(good)/2], "tail": append(good[:len(good):len(good)], good[len(good)-9:]...)} {
			for _, backup := range []bool{true, false} {
				if err := errors.Join(os.WriteFile(path, damaged, 0o644), os.RemoveAll(path+".bak")); err != nil {
					t.Fatal(err)
				}
				if backup {
					if err := os.WriteFile(path+".bak", good, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				b, err := Open(options(dir))
				if err != nil {
					t.Fatalf("%s %s: %v", name, what, err)
				}
				if b.topics.Get("New") == nil {
					t.Errorf("%s %s (backup %v): the topic is gone", name, what, backup)
				}
				if got := b.offsets.Query([]byte("New"), []byte("G"), 0); name == "consumerOffset.json" && (got == 1) != backup {
					t.Errorf("%s (backup %v): offset %d", what, backup, got)
				}
				stop(t, b)
				if kept, _ := filepath.Glob(path + ".bad-*"); len(kept) == 0 {
					t.Errorf("%s %s: the damaged file is gone", name, what)
				}
			}
		}
	}
}

// Answers of puts that are flushed together come, and those of puts refused or not waited for.
func TestEveryPutIsAnswered(t *testing.T) {
	t.Parallel()
	for _, sync := range []bool{false, true} {
		o := options(t.TempDir())
		o.Engine.SyncFlush = sync
		o.Engine.MaxMessageSize = 1000
		b := start(t, o)
		var peers []*peer
		for range 8 {
			peers = append(peers, dial(t, b.Addrs()[0]))
		}
		concurrently(len(peers), func(n int) {
			p := peers[n]
			for i := range 50 {
				size := 10
				want := int32(0)
				if i%10 == 9 {
					size, want = 2000, 13
				}
				if a := p.send(t, fmt.Sprint("T", n%3), strings.Repeat("x", size)); a.Code != want {
					t.Errorf("code %d %q, want %d", a.Code, a.Remark, want)
				}
			}
		})
		stop(t, b)
	}
}

func concurrently(n int, run func(n int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { run(i) })
	}
	wg.Wait()
}

// A stop under load: every request is answered or its connection ends, and nothing that was acknowledged is lost.
func TestStopUnderLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := start(t, options(dir))
	var mu sync.Mutex
	acked := 0
	var senders sync.WaitGroup
	for range 4 {
		p := dial(t, b.Addrs()[0])
		senders.Go(func() {
			for {
				c := new(remoting.Command)
				c.Reset()
				c.Code, c.Body = 310, []byte("x")
				for _, f := range [][2]string{{"a", "PG"}, {"b", "T"}, {"c", "TBW102"}, {"d", "4"}, {"e", "0"}, {"f", "0"}, {"g", "1"}, {"h", "0"}} {
					c.SetStr(f[0], f[1])
				}
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				a, err := p.Call(ctx, c)
				cancel()
				if errors.Is(err, context.DeadlineExceeded) {
					t.Error("a request was neither answered nor ended")
				}
				if err != nil || a.Code != 0 {
					return
				}
				mu.Lock()
				acked++
				mu.Unlock()
			}
		})
	}
	eventually(t, "some sends", func() bool { mu.Lock(); defer mu.Unlock(); return acked > 200 })
	stop(t, b)
	senders.Wait()
	b, err := Open(options(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, b)
	if got := int(b.store.Queue([]byte("T"), 0).Max()); got < acked {
		t.Errorf("%d messages, %d were acknowledged", got, acked)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	o := options(t.TempDir())
	o.Name = ""
	if _, err := Open(o); err == nil || !strings.Contains(err.Error(), "brokerName") {
		t.Errorf("no name: %v", err)
	}
	o = options(t.TempDir())
	o.Address = "nowhere"
	if _, err := Open(o); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("no address: %v", err)
	}
}

// The settings beside a store belong to who holds its lock: a second broker must not move a damaged file aside, and one whose settings
// cannot be read leaves the store closed.
func TestSettingsAreTouchedUnderTheLockOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := start(t, options(dir))
	path := filepath.Join(dir, "config", "subscriptionGroup.json")
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("{damaged"), 0o644)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(options(dir)); !errors.Is(err, checkpoint.ErrLocked) {
		t.Errorf("second broker: %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "{damaged" {
		t.Errorf("the second broker touched the settings: %q, %v", text, err)
	}
	stop(t, b)

	loop := filepath.Join(dir, "config", "topics.json")
	if err := errors.Join(os.RemoveAll(loop), os.Symlink(loop, loop)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(options(dir)); err == nil {
		t.Fatal("settings that cannot be read were passed over")
	}
	if _, err := os.Stat(filepath.Join(dir, "abort")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the store was not closed: %v", err)
	}
	if err := os.Remove(loop); err != nil {
		t.Fatal(err)
	}
	stop(t, start(t, options(dir)))
}
