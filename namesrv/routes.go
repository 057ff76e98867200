package namesrv

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"ringmq/net/server"
)

const (
	masterID = 0

	permRead  = 4
	permWrite = 2

	// DefaultExpiryMS is how long a broker that says nothing is believed to live, unless it names its own time.
	DefaultExpiryMS = 120_000

	maxBrokers = 10_000  // addresses: real clusters have hundreds; a peer cannot make the tables grow without end
	maxTopics  = 1 << 20 // of all brokers together
)

// errPartial refuses a registration of a single topic by a broker that is not registered: it would make a broker without its
// other topics. The broker registers whole within 30 seconds.
var errPartial = errors.New("namesrv: a registration of one topic from a broker that has not registered whole")

// brokerKey is one running broker: addresses are unique within a cluster only.
type brokerKey struct{ cluster, addr string }

// dataVersion tells whether a broker's topics have changed; the three numbers are only compared for equality, but for
// StateVersion, by which the older of two brokers that claim one id loses.
type dataVersion struct {
	Counter      int64 `json:"counter"`
	StateVersion int64 `json:"stateVersion"`
	Timestamp    int64 `json:"timestamp"`
}

// queueData is what one broker has of one topic.
type queueData struct {
	readQueues, writeQueues, perm, sysFlag int32
}

// brokerGroup is all brokers of one name: a master and its slaves.
type brokerGroup struct {
	cluster      string
	addrs        map[int64]string // by broker id
	actingMaster bool             // a slave may answer for a lost master
}

func (g *brokerGroup) minID() int64 {
	return slices.Min(slices.Collect(maps.Keys(g.addrs)))
}

// liveBroker is the running broker that registered an address.
type liveBroker struct {
	name     string
	seenMS   int64
	expiryMS int64
	version  dataVersion
	conn     server.Conn
	haAddr   string
}

// routes is what the name server knows. Everything in it comes from registrations and is gone with the brokers that made them. It
// does no input or output but log lines; time is given by the caller.
type routes struct {
	log *slog.Logger

	mu       sync.RWMutex                          // guards all below
	topics   map[string]map[string]queueData       // topic, broker name
	mappings map[string]map[string]json.RawMessage // topic, broker name: static topics, handed on as they came
	groups   map[string]*brokerGroup               // broker name
	clusters map[string]map[string]bool            // cluster, broker name
	live     map[brokerKey]*liveBroker
	filters  map[brokerKey][]string
}

func newRoutes(log *slog.Logger) *routes {
	return &routes{
		log:      log,
		topics:   map[string]map[string]queueData{},
		mappings: map[string]map[string]json.RawMessage{},
		groups:   map[string]*brokerGroup{},
		clusters: map[string]map[string]bool{},
		live:     map[brokerKey]*liveBroker{},
		filters:  map[brokerKey][]string{},
	}
}

// register takes a broker in or renews it, and answers a slave with its master's addresses.
func (r *routes) register(reg *registration, conn server.Conn, nowMS int64, deleteMissing bool) (haAddr, masterAddr string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := brokerKey{reg.cluster, reg.addr}
	group := r.groups[reg.name]
	if err := r.mayRegister(reg, group, key); err != nil {
		return "", "", err
	}
	if group != nil && r.losesToOther(reg, group) {
		r.log.Warn("broker ignored: another one with the same id has a newer state", "broker", reg.name, "id", reg.id, "address", reg.addr)
		delete(r.live, key)
		return "", "", nil
	}
	if group == nil {
		group = &brokerGroup{cluster: reg.cluster, addrs: map[int64]string{}}
		r.groups[reg.name] = group
	}
	if r.clusters[reg.cluster] == nil {
		r.clusters[reg.cluster] = map[string]bool{}
	}
	r.clusters[reg.cluster][reg.name] = true
	group.actingMaster = reg.actingMaster
	// A slave that became master keeps its address: one address stands under one id.
	maps.DeleteFunc(group.addrs, func(id int64, addr string) bool { return addr == reg.addr && id != reg.id })
	first := group.addrs[reg.id] == ""
	group.addrs[reg.id] = reg.addr

	before := r.live[key]
	changed := first || before == nil || before.version != reg.version
	if reg.id == masterID || reg.isNew && reg.id == group.minID() {
		r.takeTopicsLocked(reg, group, changed, deleteMissing)
	}
	if before == nil {
		r.log.Info("broker registered", "cluster", reg.cluster, "broker", reg.name, "id", reg.id, "address", reg.addr,
			"topics", len(reg.topics), "ha", reg.haAddr)
	}
	r.live[key] = &liveBroker{name: reg.name, seenMS: nowMS, expiryMS: reg.expiryMS, version: reg.version, conn: conn, haAddr: reg.haAddr}
	if len(reg.filters) > 0 {
		r.filters[key] = reg.filters
	} else {
		delete(r.filters, key)
	}
	if reg.id == masterID {
		return "", "", nil
	}
	if master := r.live[brokerKey{reg.cluster, group.addrs[masterID]}]; master != nil {
		return master.haAddr, group.addrs[masterID], nil
	}
	return "", "", nil
}

// mayRegister checks what must hold before anything is changed.
func (r *routes) mayRegister(reg *registration, group *brokerGroup, key brokerKey) error {
	if len(reg.topics) == 1 && (group == nil || group.addrs[reg.id] == "") {
		return errPartial
	}
	if r.live[key] == nil && len(r.live) >= maxBrokers {
		return fmt.Errorf("namesrv: %d brokers are registered, more are not taken", maxBrokers)
	}
	if len(r.topics)+len(reg.topics) > maxTopics && len(r.topics) > 0 {
		fresh := 0
		for topic := range reg.topics {
			if r.topics[topic] == nil {
				fresh++
			}
		}
		if len(r.topics)+fresh > maxTopics {
			return fmt.Errorf("namesrv: %d topics and %d new ones: at most %d are kept", len(r.topics), fresh, maxTopics)
		}
	}
	return nil
}

// losesToOther tells that the id is taken by a broker at another address whose state is newer, as after a change of masters.
func (r *routes) losesToOther(reg *registration, group *brokerGroup) bool {
	addr := group.addrs[reg.id]
	if addr == "" || addr == reg.addr {
		return false
	}
	other := r.live[brokerKey{reg.cluster, addr}]
	return other != nil && other.version.StateVersion > reg.version.StateVersion
}

// takeTopicsLocked merges the broker's topics into the table. Topics that are not in the registration stay, for a broker may send
// only those that changed; with deleteMissing they go.
func (r *routes) takeTopicsLocked(reg *registration, group *brokerGroup, changed, deleteMissing bool) {
	if deleteMissing && len(reg.mappings) == 0 {
		for topic, brokers := range r.topics {
			if _, has := brokers[reg.name]; has {
				if _, kept := reg.topics[topic]; !kept {
					r.dropTopicLocked(topic, reg.name)
				}
			}
		}
	}
	readOnly := reg.id != masterID && group.actingMaster // the slave answers for the master, but takes no messages
	for topic, queues := range reg.topics {
		brokers := r.topics[topic]
		if brokers == nil {
			brokers = map[string]queueData{}
			r.topics[topic] = brokers
		}
		if _, known := brokers[reg.name]; known && !changed {
			continue // also keeps what an operator did to the permission since
		}
		if readOnly {
			queues.perm &^= permWrite
		}
		brokers[reg.name] = queues
	}
	if !changed {
		return
	}
	for topic, mapping := range reg.mappings {
		if r.mappings[topic] == nil {
			r.mappings[topic] = map[string]json.RawMessage{}
		}
		r.mappings[topic][reg.name] = mapping
	}
}

func (r *routes) dropTopicLocked(topic, broker string) {
	brokers := r.topics[topic]
	delete(brokers, broker)
	if len(brokers) == 0 {
		delete(r.topics, topic)
	}
	delete(r.mappings[topic], broker)
	if len(r.mappings[topic]) == 0 {
		delete(r.mappings, topic)
	}
}

// unregister forgets a broker that says goodbye.
func (r *routes) unregister(cluster, name, addr string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetLocked(brokerKey{cluster, addr}, name, "unregistered")
}

// lost forgets all brokers that registered over a connection that is gone; one that has registered again over another stays.
func (r *routes) lost(connID uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, broker := range r.live {
		if broker.conn != nil && broker.conn.ID() == connID {
			r.forgetLocked(key, broker.name, "connection lost")
		}
	}
}

// expire forgets brokers that have been silent for too long and returns their connections, which the caller closes without our lock.
func (r *routes) expire(nowMS int64) []server.Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	var conns []server.Conn
	for key, broker := range r.live {
		if nowMS-broker.seenMS > broker.expiryMS {
			if broker.conn != nil {
				conns = append(conns, broker.conn)
			}
			r.forgetLocked(key, broker.name, "silent")
		}
	}
	return conns
}

// forgetLocked removes an address, and what was only there because of it.
func (r *routes) forgetLocked(key brokerKey, name, why string) {
	if r.live[key] != nil {
		r.log.Info("broker gone", "why", why, "cluster", key.cluster, "broker", name, "address", key.addr)
	}
	delete(r.live, key)
	delete(r.filters, key)
	group := r.groups[name]
	if group == nil {
		return
	}
	maps.DeleteFunc(group.addrs, func(_ int64, addr string) bool { return addr == key.addr })
	if len(group.addrs) == 0 {
		delete(r.groups, name)
		for cluster, names := range r.clusters {
			if delete(names, name); len(names) == 0 {
				delete(r.clusters, cluster)
			}
		}
		for topic, brokers := range r.topics {
			if _, has := brokers[name]; has {
				r.dropTopicLocked(topic, name)
			}
		}
		return
	}
	if group.actingMaster && group.minID() != masterID {
		r.changePermLocked(name, func(perm int32) int32 { return perm &^ permWrite })
	}
}

// touch renews a broker that only says it lives, and tells whether it is known.
func (r *routes) touch(cluster, addr string, nowMS int64) (dataVersion, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	broker := r.live[brokerKey{cluster, addr}]
	if broker == nil {
		return dataVersion{}, false
	}
	broker.seenMS = nowMS
	return broker.version, true
}

// changePerm changes the permission of all topics of a broker and returns how many it has.
func (r *routes) changePerm(name string, change func(int32) int32) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changePermLocked(name, change)
}

func (r *routes) changePermLocked(name string, change func(int32) int32) int {
	n := 0
	for _, brokers := range r.topics {
		if queues, has := brokers[name]; has {
			queues.perm = change(queues.perm)
			brokers[name] = queues
			n++
		}
	}
	return n
}

// deleteTopic forgets a topic, or what the brokers of one cluster have of it. A broker that has it still will bring it back.
func (r *routes) deleteTopic(topic, cluster string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, broker := range slices.Collect(maps.Keys(r.topics[topic])) {
		if cluster == "" || r.clusters[cluster][broker] {
			r.dropTopicLocked(topic, broker)
		}
	}
}
