// Package broker puts a broker together: the store, the tables of topics, groups and offsets, the clients, the front end, and the
// registration with name servers. It holds no policy of its own.
package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"ringmq/broker/api"
	"ringmq/broker/client"
	"ringmq/broker/group"
	"ringmq/broker/longpoll"
	"ringmq/broker/offset"
	"ringmq/broker/stats"
	"ringmq/broker/topic"
	"ringmq/engine"
	"ringmq/engine/consumequeue"
	"ringmq/net/remoting"
	"ringmq/net/server"
)

// Options of a Broker; zero values mean the defaults of RocketMQ. The key of a configuration file is named beside each.
type Options struct {
	Cluster     string   // brokerClusterName
	Name        string   // brokerName
	ID          int64    // brokerId
	Address     string   // brokerIP1:listenPort, as registered for clients and put into records
	HAAddress   string   // brokerIP2:haListenPort, as registered
	NameServers []string // namesrvAddr

	RegisterPeriod   time.Duration // registerNameServerPeriod 30 s
	RegisterTimeout  time.Duration // registerBrokerTimeoutMills 24 s
	SaveOffsetsEvery time.Duration // flushConsumerOffsetInterval 5 s
	ClientExpiry     time.Duration // channelExpiredTimeout 120 s

	DefaultTopicQueues     int32        // defaultTopicQueueNums 8
	NoClusterTopic         bool         // clusterTopicEnable=false
	NoBrokerTopic          bool         // brokerTopicEnable=false
	TraceTopic             string       // traceTopicEnable, msgTraceTopicName
	Region                 string       // regionId
	FastPort               uint16       // listenPort-2: takes no pulls; 0: there is none
	Version                string       // for people
	Settings               api.Settings // to be shown and changed by requests; may be nil
	Policy                              // to begin with; Engine.MaxMessageSize counts, not that of the policy
	Logger                 *slog.Logger
	Now                    func() int64 // time of day in ms; nil: that of the machine
	Engine                 engine.Options
	Server                 server.Options
	FirstRegistrationLimit time.Duration // how long Start waits for name servers: 3 s
}

func (o Options) withDefaults() Options {
	setDefault(&o.Cluster, "DefaultCluster")
	setDefault(&o.RegisterPeriod, 30*time.Second)
	setDefault(&o.RegisterTimeout, 24*time.Second)
	setDefault(&o.SaveOffsetsEvery, 5*time.Second)
	setDefault(&o.DefaultTopicQueues, 8)
	setDefault(&o.FirstRegistrationLimit, 3*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = func() int64 { return time.Now().UnixMilli() }
	}
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

var errStopped = errors.New("the broker has stopped")

// Broker is one running broker.
type Broker struct {
	opts Options
	log  *slog.Logger

	topics  *topic.Table
	groups  *group.Table
	offsets *offset.Table
	clients *client.Registry
	parked  *longpoll.Holder
	store   *engine.Store
	sampler *stats.Sampler
	api     *api.API
	policy  atomic.Pointer[Policy]

	server    atomic.Pointer[server.Server] // nil before Start
	chores    *chores
	registrar *registrar
}

// Open recovers the store and loads the settings. Nothing is accepted, registered or saved before Start.
func Open(o Options) (*Broker, error) {
	o = o.withDefaults()
	if o.Name == "" {
		return nil, errors.New("broker: brokerName is empty")
	}
	host, err := netip.ParseAddrPort(o.Address)
	if err != nil {
		return nil, fmt.Errorf("broker: brokerIP1 and listenPort: %q is not address:port: %w", o.Address, err)
	}
	b := &Broker{opts: o, log: o.Logger}
	b.policy.Store(&o.Policy)
	b.chores = newChores(b)
	b.parked = longpoll.New(longpoll.Options{})
	// The store first: it holds the lock, without which nobody may touch the settings beside it, and loading moves damaged ones aside.
	if err := b.openStore(); err != nil {
		b.parked.Close()
		return nil, err
	}
	if err := b.loadTables(); err != nil {
		b.parked.Close()
		return nil, errors.Join(err, b.store.Close())
	}
	b.recoverTopics()
	b.clients = client.New(client.Options{Logger: o.Logger, Expiry: o.ClientExpiry, Notify: b.wantsNotices})
	b.registrar = newRegistrar(&b.opts, b.topics)
	b.api = api.New(b.apiOptions(host))
	return b, nil
}

func (b *Broker) loadTables() error {
	o := &b.opts
	file := func(name string) string { return filepath.Join(o.Engine.Dir, "config", name) }
	var err error
	b.topics, err = topic.Open(topic.Options{
		Path: file("topics.json"), ClusterName: o.Cluster, BrokerName: o.Name, AutoCreate: !o.NoAutoCreateTopic,
		DefaultQueues: o.DefaultTopicQueues, ClusterTopic: !o.NoClusterTopic, BrokerTopic: !o.NoBrokerTopic,
		DelayLevels: len(strings.Fields(o.Engine.DelayLevels)), TraceTopic: o.TraceTopic, Logger: o.Logger, Now: o.Now,
		Changed: b.topicsChanged,
	})
	if err != nil {
		return err
	}
	b.groups, err = group.Open(group.Options{
		Path: file("subscriptionGroup.json"), AutoCreate: !o.NoAutoCreateGroup, Logger: o.Logger, Now: o.Now, Changed: b.chores.saveSoon,
	})
	if err != nil {
		return err
	}
	b.offsets, err = offset.Open(offset.Options{Path: file("consumerOffset.json"), Logger: o.Logger, Now: o.Now})
	return err
}

// openStore recovers the store.
func (b *Broker) openStore() error {
	o := b.opts.Engine
	o.Arrivals = b.parked
	o.Released = b.kick
	if o.Logger == nil {
		o.Logger = b.log
	}
	if o.Now == nil {
		o.Now = b.opts.Now
	}
	store, err := engine.Open(o)
	if err != nil {
		return err
	}
	b.store = store
	m := store.Metrics()
	b.sampler = stats.New(func() stats.Counts {
		return stats.Counts{
			Puts: m.Puts.Load(), PutBytes: m.PutBytes.Load(), Gets: m.Gets.Load(), Records: m.GetRecords.Load(), GetBytes: m.GetBytes.Load(),
		}
	}, nil)
	return nil
}

// recoverTopics makes the topics known that hold anything. An empty queue counts as well: it has been one of the topic's, and its
// messages are gone, but not the numbers it has given.
func (b *Broker) recoverTopics() {
	greatest, used := make(map[string]int32), make(map[string]bool)
	b.store.Queues(func(q *consumequeue.Queue) bool {
		known := b.topics.Get(q.ID.Topic) != nil
		if !known || q.Max() > q.Min() {
			greatest[q.ID.Topic] = max(greatest[q.ID.Topic], q.ID.QueueID)
		}
		if q.Max() > 0 {
			used[q.ID.Topic] = true
		}
		return true
	})
	for name := range used {
		b.topics.Recover(name, greatest[name])
	}
}

func (b *Broker) apiOptions(host netip.AddrPort) api.Options {
	o, e := &b.opts, b.store.Options()
	return api.Options{
		Store: b.store, Topics: b.topics, Groups: b.groups, Offsets: b.offsets, Clients: b.clients, Parked: b.parked,
		Runtime: &api.Runtime{Sampler: b.sampler, Started: time.Now(), LogDir: e.LogDir, Version: o.Version, Number: remoting.Version},
		Cluster: o.Cluster, Broker: o.Name, Address: o.Address, StoreHost: host, Region: o.Region, FastPort: o.FastPort,
		Policy: o.Policy.of(e.MaxMessageSize),
		// What is answered at appended is answered by the caller, one by one; all else by the store's services, in batches.
		Batched:  !e.AnswersAppended(),
		Settings: o.Settings, Logger: o.Logger,
	}
}

// kick sends the answers of one batch of puts.
func (b *Broker) kick() {
	if s := b.server.Load(); s != nil {
		s.Kick()
	}
}

func (b *Broker) wantsNotices(name string) bool {
	if b.policy.Load().NoNotify {
		return false
	}
	config := b.groups.Get(name)
	return config == nil || config.NotifyChanges
}

// topicsChanged is called after any change of a topic.
func (b *Broker) topicsChanged() {
	b.chores.saveSoon()
	if b.registrar != nil { // not while the tables are loaded
		b.registrar.wake()
	}
}

// Start accepts clients and registers with the name servers. It waits a moment for these, so that a client that starts right after
// it finds the broker, but goes on without them.
func (b *Broker) Start() error {
	o := b.opts.Server
	o.Handler = b.api
	if o.Logger == nil {
		o.Logger = b.log
	}
	s, err := server.Listen(o)
	if err != nil {
		return err
	}
	b.server.Store(s)
	b.chores.start()
	b.registrar.start(b.opts.FirstRegistrationLimit)
	return nil
}

// Addrs are the bound addresses, after Start.
func (b *Broker) Addrs() []netip.AddrPort { return b.server.Load().Addrs() }

// Store is the broker's store, for metrics and health.
func (b *Broker) Store() *engine.Store { return b.store }

// Server is the front end, nil before Start.
func (b *Broker) Server() *server.Server { return b.server.Load() }

// Close stops accepting, unregisters, answers what is under way, makes everything durable and ends. ctx bounds the parts that wait for
// others: name servers and clients.
func (b *Broker) Close(ctx context.Context) error {
	s := b.server.Load()
	if s != nil {
		s.StopAccepting()
		b.registrar.stop(ctx)
	}
	// From here on requests are refused, so that none reads a closed store as an empty one.
	b.api.Stop()
	b.parked.Close()
	b.chores.stop()
	// Saved while the store holds its lock: behind it the settings may be another broker's already.
	errs := []error{b.save(), b.store.Close()}
	// A handler that was under way may have made a topic since. Its message is stored, and the next start finds the topic by its queue.
	b.api.TopicsSaved(errStopped)
	if s != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeConnections)
		defer cancel()
		errs = append(errs, s.Close(closing))
	}
	return errors.Join(errs...)
}

// closeConnections bounds the end of the connections, which begins when the store is closed. That takes as long as it takes: very many queues
// may have to be flushed.
const closeConnections = 5 * time.Second

// save writes every table that has changed.
func (b *Broker) save() error {
	return errors.Join(b.chores.saveTopics(), b.groups.Save(), b.offsets.Save())
}
