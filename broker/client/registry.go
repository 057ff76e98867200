// Package client knows who is connected: producers and consumers by their heartbeats, what each group of consumers subscribes to,
// and whom to tell when a group changes.
package client

import (
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ringmq/internal/clock"
	"ringmq/net/remoting"
)

// Expiry is how long a client that sends no heartbeat counts as alive unless Options say otherwise; scans every ScanInterval find it.
const (
	Expiry       = 120 * time.Second
	ScanInterval = 10 * time.Second
)

// Conn is one client connection, as far as this package needs it.
type Conn interface {
	ID() uint64
	Remote() netip.AddrPort
	Send(c *remoting.Command) bool
}

// Member is one connection of a group.
type Member struct {
	ClientID string
	Conn     Conn
	Language uint8
	Version  int32

	seenMS int64 // guarded by Registry.mu
}

// Group is the consumers of one group at present. Its identity lasts as long as it has a member.
type Group struct {
	Name string

	members map[uint64]*Member // by connection; guarded by Registry.mu

	info          atomic.Pointer[Consumer] // of the last heartbeat; without its subscriptions
	subscriptions atomic.Pointer[map[string]*Subscription]
}

// Info is type, model and start of the group's consumers, as the last heartbeat had them.
func (g *Group) Info() *Consumer { return g.info.Load() }

// Subscription is what the group wants of a topic, nil if nothing. It allocates nothing.
func (g *Group) Subscription(topic []byte) *Subscription {
	return (*g.subscriptions.Load())[string(topic)]
}

// Subscriptions is all of it, not to be changed.
func (g *Group) Subscriptions() map[string]*Subscription { return *g.subscriptions.Load() }

// Options of a Registry.
type Options struct {
	Logger *slog.Logger
	Now    func() int64  // ms since any moment, never back; nil: since New
	Expiry time.Duration // channelExpiredTimeout; 0: Expiry
	// Notify tells whether the members of a group want to hear of its changes; nil: always.
	Notify func(group string) bool
}

// Registry is all clients of the broker. Methods may be called from any goroutine; nothing is sent under its lock.
type Registry struct {
	opts   Options
	opaque atomic.Int32 // of our own requests

	mu        sync.RWMutex
	producers map[string]map[uint64]*Member // group, connection
	consumers map[string]*Group
	joined    map[uint64]*membership // by connection: where to take it out
}

// membership is the groups of one connection.
type membership struct{ producers, consumers map[string]struct{} }

// New is an empty registry.
func New(o Options) *Registry {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = clock.Elapsed()
	}
	if o.Expiry == 0 {
		o.Expiry = Expiry
	}
	if o.Notify == nil {
		o.Notify = func(string) bool { return true }
	}
	return &Registry{
		opts: o, producers: make(map[string]map[uint64]*Member), consumers: make(map[string]*Group), joined: make(map[uint64]*membership),
	}
}

// Heartbeat takes in what a client tells of itself. changed tells that a group of consumers has got a new member or other
// subscriptions; all its members, the new one too, are told. A heartbeat without subscriptions leaves them as they are.
func (r *Registry) Heartbeat(conn Conn, h *Heartbeat, language uint8, version int32) (changed bool) {
	now := r.opts.Now()
	member := func() *Member {
		return &Member{ClientID: h.ClientID, Conn: conn, Language: language, Version: version, seenMS: now}
	}
	var news []string
	r.mu.Lock()
	m := r.joined[conn.ID()]
	if m == nil && len(h.Producers)+len(h.Consumers) > 0 {
		m = &membership{producers: make(map[string]struct{}), consumers: make(map[string]struct{})}
		r.joined[conn.ID()] = m
	}
	for _, name := range h.Producers {
		if r.producers[name] == nil {
			r.producers[name] = make(map[uint64]*Member)
		}
		r.producers[name][conn.ID()] = member()
		m.producers[name] = struct{}{}
	}
	for i := range h.Consumers {
		c := &h.Consumers[i]
		if r.joinLocked(c, member(), h.WithoutSubs) {
			news = append(news, c.Group)
		}
		m.consumers[c.Group] = struct{}{}
	}
	r.mu.Unlock()
	for _, group := range news {
		r.notify(group)
	}
	return len(news) > 0
}

// joinLocked puts member into the group of c and tells whether that changed it.
func (r *Registry) joinLocked(c *Consumer, member *Member, withoutSubs bool) (changed bool) {
	g := r.consumers[c.Group]
	if g == nil {
		g = &Group{Name: c.Group, members: make(map[uint64]*Member)}
		g.subscriptions.Store(&map[string]*Subscription{})
		r.consumers[c.Group] = g
	}
	old := g.members[member.Conn.ID()]
	g.members[member.Conn.ID()] = member
	changed = old == nil || old.ClientID != member.ClientID
	if withoutSubs && g.info.Load() != nil {
		return changed
	}
	info := *c
	info.Subscriptions = nil
	g.info.Store(&info)
	if withoutSubs {
		return changed
	}
	return g.subscribe(c.Subscriptions) || changed
}

// subscribe makes list the group's subscriptions; of one topic the newer version stays. It tells whether a topic came or went.
// Members with different subscriptions overwrite each other, as in the original: a group is meant to have one.
func (g *Group) subscribe(list []*Subscription) (changed bool) {
	old := *g.subscriptions.Load()
	next := make(map[string]*Subscription, len(list))
	for _, s := range list {
		known := old[s.Topic]
		if known == nil {
			changed = true
		} else if known.Version >= s.Version {
			s = known
		}
		next[s.Topic] = s
	}
	for topic := range old {
		if next[topic] == nil {
			changed = true
		}
	}
	g.subscriptions.Store(&next)
	return changed
}

// Closed takes a connection out of all its groups.
func (r *Registry) Closed(conn Conn) {
	var news []string
	r.mu.Lock()
	if m := r.joined[conn.ID()]; m != nil {
		for name := range m.producers {
			r.leaveProducersLocked(name, conn.ID())
		}
		for name := range m.consumers {
			if r.leaveLocked(name, conn.ID()) {
				news = append(news, name)
			}
		}
	}
	r.mu.Unlock()
	for _, group := range news {
		r.notify(group)
	}
}

// Unregister takes a connection out of the groups named; "" names none.
func (r *Registry) Unregister(conn Conn, producerGroup, consumerGroup string) {
	r.mu.Lock()
	r.leaveProducersLocked(producerGroup, conn.ID())
	changed := r.leaveLocked(consumerGroup, conn.ID())
	r.mu.Unlock()
	if changed {
		r.notify(consumerGroup)
	}
}

// leaveLocked takes a connection out of a group of consumers and tells whether others are left to be told.
func (r *Registry) leaveLocked(name string, id uint64) bool {
	g := r.consumers[name]
	if g == nil || g.members[id] == nil {
		return false
	}
	delete(g.members, id)
	if m := r.joined[id]; m != nil {
		delete(m.consumers, name)
		r.forgetLocked(id, m)
	}
	if len(g.members) == 0 {
		delete(r.consumers, name)
		return false
	}
	return true
}

func (r *Registry) leaveProducersLocked(name string, id uint64) {
	if r.producers[name][id] == nil {
		return
	}
	delete(r.producers[name], id)
	if m := r.joined[id]; m != nil {
		delete(m.producers, name)
		r.forgetLocked(id, m)
	}
	if len(r.producers[name]) == 0 {
		delete(r.producers, name)
	}
}

func (r *Registry) forgetLocked(id uint64, m *membership) {
	if len(m.producers)+len(m.consumers) == 0 {
		delete(r.joined, id)
	}
}

// Expire takes out whoever sent no heartbeat for longer than Options.Expiry. Its connection stays: it may have other uses.
func (r *Registry) Expire() {
	limit := r.opts.Now() - r.opts.Expiry.Milliseconds()
	news := make(map[string]struct{})
	r.mu.Lock()
	for name, members := range r.producers {
		for id, m := range members {
			if m.seenMS < limit {
				r.opts.Logger.Warn("client: producer sent no heartbeat for too long", "group", name, "client", m.ClientID, "remote", m.Conn.Remote())
				r.leaveProducersLocked(name, id)
			}
		}
	}
	for name, g := range r.consumers {
		for id, m := range g.members {
			if m.seenMS < limit {
				r.opts.Logger.Warn("client: consumer sent no heartbeat for too long", "group", name, "client", m.ClientID, "remote", m.Conn.Remote())
				if r.leaveLocked(name, id) {
					news[name] = struct{}{}
				}
			}
		}
	}
	r.mu.Unlock()
	for group := range news {
		r.notify(group)
	}
}

// notify tells all members of a group that it has changed, so that they share the queues anew.
func (r *Registry) notify(group string) {
	if !r.opts.Notify(group) {
		return
	}
	members := r.members(group)
	if len(members) == 0 {
		return
	}
	var c remoting.Command
	for _, m := range members {
		c.Reset()
		c.Code = remoting.NotifyConsumerIDsChanged
		c.Flag = remoting.FlagOneway
		c.Opaque = r.opaque.Add(1)
		c.SetStr("consumerGroup", group)
		m.Conn.Send(&c)
	}
}

func (r *Registry) members(group string) []*Member {
	r.mu.RLock()
	defer r.mu.RUnlock()
	g := r.consumers[group]
	if g == nil {
		return nil
	}
	return slices.Collect(maps.Values(g.members))
}

// Consumers returns a group of consumers, nil if no member is connected. It allocates nothing.
func (r *Registry) Consumers(group []byte) *Group {
	r.mu.RLock()
	g := r.consumers[string(group)]
	r.mu.RUnlock()
	return g
}

// Members are the connections of a group of consumers, sorted by client id.
func (r *Registry) Members(group string) []*Member {
	return byClientID(r.members(group))
}

// Producers are the connections of a group of producers, sorted by client id.
func (r *Registry) Producers(group string) []*Member {
	r.mu.RLock()
	members := slices.Collect(maps.Values(r.producers[group]))
	r.mu.RUnlock()
	return byClientID(members)
}

func byClientID(members []*Member) []*Member {
	slices.SortFunc(members, func(a, b *Member) int {
		switch {
		case a.ClientID < b.ClientID:
			return -1
		case a.ClientID > b.ClientID:
			return 1
		}
		return int(int64(a.Conn.ID()) - int64(b.Conn.ID()))
	})
	return members
}

// Count is how many groups of either kind have members.
func (r *Registry) Count() (producerGroups, consumerGroups int) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.producers), len(r.consumers)
}
