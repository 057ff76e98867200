// Package api is the broker's wire: it turns the headers of requests into calls and results into codes. One file per noun
// registers its codes in a table. What a topic, a group or an offset is stands in their own packages.
//
// Handlers run on event loops and must not block. What may wait for a disk, or is long, runs on a bounded set of workers.
package api

import (
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"ringmq/broker/client"
	"ringmq/broker/filter"
	"ringmq/broker/group"
	"ringmq/broker/lock"
	"ringmq/broker/longpoll"
	"ringmq/broker/offset"
	"ringmq/broker/topic"
	"ringmq/engine"
	"ringmq/engine/consumequeue"
	"ringmq/engine/index"
	"ringmq/engine/message"
	"ringmq/engine/segment"
	"ringmq/net/remoting"
	"ringmq/net/server"
)

// Store is what the handlers need of *engine.Store.
type Store interface {
	messages
	searches
	DeleteExpired()
	queries
}

// messages is the way in and out.
type messages interface {
	Put(p *engine.PutRequest)
	Get(topic []byte, queueID int32, from message.QueueOffset, max, maxBytes int, f engine.Filter, res *engine.GetResult)
	GetNow(topic []byte, queueID int32, from message.QueueOffset, max, maxBytes int, f engine.Filter, res *engine.GetResult) bool
	Queue(topic []byte, queueID int32) *consumequeue.Queue
	Record(at message.Offset) (segment.View, bool)
}

// searches are the questions about times and places.
type searches interface {
	OffsetByTime(topic []byte, queueID int32, timeMS int64) (message.QueueOffset, bool)
	LastOffsetByTime(topic []byte, queueID int32, timeMS int64) (message.QueueOffset, bool)
	StoreTime(topic []byte, queueID int32, at message.QueueOffset) (int64, bool)
	Positions() engine.Positions
	PoolRoom() (room, size int64)
}

// queries finds messages by their keys.
type queries interface {
	Query(topic, key []byte, kind index.Kind, beginMS, endMS int64, max, maxBytes int) (engine.QueryResult, error)
}

var _ Store = (*engine.Store)(nil)

// Options of an API. The tables are needed; zero numbers mean the defaults of RocketMQ.
type Options struct {
	Store   Store
	Topics  *topic.Table
	Groups  *group.Table
	Offsets *offset.Table
	Clients *client.Registry
	Parked  *longpoll.Holder
	Runtime *Runtime

	Cluster   string
	Broker    string
	Address   string         // registered for clients
	StoreHost netip.AddrPort // the same, as records and message ids have it
	Region    string         // regionId
	FastPort  uint16
	Policy    // to begin with

	// Batched tells that good answers to sends come in batches, each followed by server.Kick: they are deferred until then.
	Batched bool
	// Settings is the broker's configuration; nil: there is none to be shown or changed.
	Settings Settings

	Workers int // for what may block: 4
	Logger  *slog.Logger
}

// maxPieces bounds the pieces of one answer, and so the messages of one pull: a socket takes at most 1024 at a time.
const maxPieces = 1000

func (o Options) withDefaults() Options {
	if o.Region == "" {
		o.Region = "DefaultRegion"
	}
	if o.Workers == 0 {
		o.Workers = 4
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// API is the handler of all requests to the broker.
type API struct {
	opts    Options
	log     *slog.Logger
	routes  map[int32]route
	workers *workers
	stopped atomic.Bool
	unsaved unsaved
	locks   *lock.Table

	uniqueIDs *message.UniqueIDs
	policy    atomic.Pointer[policy]
	memory    int64 // bytes of memory that count as page cache for "still in memory"

	expressions filter.Cache
	sends       sync.Pool // *send
	pulls       sync.Pool // *pull
}

// handler answers one request. c is valid until it returns, or, for a slow one, as long as it likes.
type handler func(a *API, c *remoting.Command, r server.Reply)

type route struct {
	handle handler
	slow   bool // runs on a worker, with a copy of the request
}

// New is an API that answers from now on. Its workers end with Close.
func New(o Options) *API {
	o = o.withDefaults()
	a := &API{opts: o, log: o.Logger, routes: make(map[int32]route), workers: newWorkers(o.Workers), locks: lock.New(nil)}
	a.uniqueIDs = message.NewUniqueIDs(o.StoreHost.Addr(), os.Getpid(), uint32(time.Now().UnixMilli()), nil)
	a.Change(o.Policy)
	a.memory = physicalMemory() / 100 * 40 // accessMessageInMemoryMaxRatio
	a.sends.New = func() any { return newSend(a) }
	a.pulls.New = func() any { return newPull(a) }
	for _, table := range []map[int32]route{
		sendRoutes(), pullRoutes(), offsetRoutes(), clientRoutes(), topicRoutes(), groupRoutes(), consumerRoutes(), lockRoutes(), adminRoutes(), configRoutes(),
		queryRoutes(), unbuiltRoutes(),
	} {
		for code, r := range table {
			if _, taken := a.routes[code]; taken {
				panic("BUG: api: two handlers for " + remoting.CodeName(code))
			}
			a.routes[code] = r
		}
	}
	return a
}

// Handle answers c. It is called on an event loop.
func (a *API) Handle(c *remoting.Command, r server.Reply) {
	if a.stopped.Load() {
		refuse(r, remoting.ServiceNotAvailable, "broker %s is stopping", a.opts.Broker)
		return
	}
	to, ok := a.routes[c.Code]
	if !ok {
		refuseUnknown(c, r)
		return
	}
	if !to.slow {
		to.handle(a, c, r)
		return
	}
	a.onWorker(to.handle, c, r)
}

// onWorker has c handled where it may wait for the disk.
func (a *API) onWorker(handle handler, c *remoting.Command, r server.Reply) {
	request := clone(c)
	if !a.workers.do(func() { handle(a, request, r) }) {
		refuse(r, remoting.SystemBusy, "too many requests of this kind wait already (%d): try again later", queuedTasks)
	}
}

// Closed forgets a connection.
func (a *API) Closed(c server.Conn) {
	a.opts.Clients.Closed(c)
	a.opts.Parked.Closed(c.ID())
}

// Stop refuses requests from now on and returns when no worker has one any more. Handlers may be running still; those whose answer
// would be wrong without a store look for themselves.
func (a *API) Stop() {
	a.stopped.Store(true)
	a.workers.close()
}
