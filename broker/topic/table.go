package topic

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ringmq/broker/configfile"
)

// Options of a Table. Path is needed; the rest as the configuration keys say.
type Options struct {
	Path          string // config/topics.json
	ClusterName   string
	BrokerName    string
	AutoCreate    bool   // autoCreateTopicEnable, to begin with
	DefaultQueues int32  // defaultTopicQueueNums: queues of the template
	ClusterTopic  bool   // clusterTopicEnable: the topic of the cluster's name is a template
	BrokerTopic   bool   // brokerTopicEnable: so is the broker's
	DelayLevels   int    // queues of the schedule topic
	TraceTopic    string // traceTopicEnable and msgTraceTopicName: "" for none
	Logger        *slog.Logger
	Now           func() int64 // ms; nil: the clock
	Changed       func()       // a topic was made or changed: save and register; called under no lock, must not block
}

// Table is all topics of the broker. Methods may be called from any goroutine.
type Table struct {
	opts Options
	log  *slog.Logger
	file *configfile.File

	autoCreate atomic.Bool

	changes atomic.Uint64 // raised with every change, under mu
	saved   atomic.Uint64 // changes up to this one are on the disk

	mu      sync.RWMutex
	topics  map[string]*Config
	version configfile.DataVersion
}

// fileContent is topics.json.
type fileContent struct {
	DataVersion configfile.DataVersion `json:"dataVersion"`
	Topics      map[string]*Config     `json:"topicConfigTable"`
}

// Open loads the table and adds RocketMQ's own topics. Nothing is written before the first Save.
func Open(o Options) (*Table, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = func() int64 { return time.Now().UnixMilli() }
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	t := &Table{opts: o, log: o.Logger, file: configfile.New(o.Path, o.Logger), topics: make(map[string]*Config)}
	content, err := configfile.Load[fileContent](t.file)
	if err != nil {
		return nil, err
	}
	for name, c := range content.Topics {
		if c == nil {
			continue
		}
		c.Name = name
		if err := c.Check(); err != nil {
			t.log.Warn("topic: entry of the topics file is left out", "file", o.Path, "reason", err)
			continue
		}
		t.topics[name] = c.withDefaults()
	}
	t.autoCreate.Store(o.AutoCreate)
	t.addSystemTopics()
	// Another version than any that was ever shown, for the last ones may not have been saved.
	t.version = content.DataVersion.Next(o.Now())
	t.changes.Add(1)
	return t, nil
}

func (t *Table) addSystemTopics() {
	o := &t.opts
	const readWrite = PermRead | PermWrite
	add := func(name string, queues, perm int32) {
		if name == "" || t.topics[name] != nil {
			return
		}
		c := Config{Name: name, ReadQueues: queues, WriteQueues: queues, Perm: perm}
		t.topics[name] = c.withDefaults()
	}
	templatePerm := func(on bool) int32 {
		if on {
			return readWrite | PermInherit
		}
		return readWrite
	}
	if o.AutoCreate {
		add(Template, max(o.DefaultQueues, 1), templatePerm(true))
	}
	add(SelfTest, 1, readWrite)
	add(Benchmark, 1024, readWrite)
	add(o.ClusterName, 16, templatePerm(o.ClusterTopic))
	add(o.BrokerName, 1, templatePerm(o.BrokerTopic))
	add(OffsetMoved, 1, readWrite)
	add(Schedule, int32(max(o.DelayLevels, 1)), readWrite)
	add(Half, 1, readWrite)
	add(OpHalf, 1, readWrite)
	add(o.TraceTopic, 1, readWrite)
	if o.ClusterName != "" {
		add(o.ClusterName+"_REPLY_TOPIC", 1, readWrite)
	}
}

// Find returns a topic, nil if there is none. It allocates nothing.
func (t *Table) Find(name []byte) *Config {
	t.mu.RLock()
	c := t.topics[string(name)]
	t.mu.RUnlock()
	return c
}

// Get is Find for a string.
func (t *Table) Get(name string) *Config {
	t.mu.RLock()
	c := t.topics[name]
	t.mu.RUnlock()
	return c
}

// Put makes or replaces a topic, and tells whether it was another one than before.
func (t *Table) Put(c Config) (changed bool, err error) {
	if err := c.Check(); err != nil {
		return false, err
	}
	next := c.withDefaults()
	t.mu.Lock()
	if old := t.topics[c.Name]; old != nil && old.equal(next) {
		t.mu.Unlock()
		return false, nil
	}
	t.putLocked(next)
	t.mu.Unlock()
	t.opts.Changed()
	return true, nil
}

func (t *Table) putLocked(c *Config) {
	c.change = t.changes.Add(1)
	t.topics[c.Name] = c
	t.version = t.version.Next(t.opts.Now())
}

// add puts c unless there is such a topic already, and returns the one that counts.
func (t *Table) add(c Config) *Config {
	next := c.withDefaults()
	t.mu.Lock()
	if old := t.topics[c.Name]; old != nil {
		t.mu.Unlock()
		return old
	}
	t.putLocked(next)
	t.mu.Unlock()
	t.log.Info("topic: created", "topic", next.Name, "queues", next.WriteQueues, "perm", next.Perm)
	t.opts.Changed()
	return next
}

// Create makes the topic that a producer sends to and that does not exist, from the template it names. It fails when the
// template is none or the name is not allowed. clientQueues is how many queues the producer would like to have.
func (t *Table) Create(name, template []byte, clientQueues, sysFlag int32) (*Config, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	from := t.Find(template)
	switch {
	case from == nil:
		return nil, fmt.Errorf("topic: %s does not exist, and neither does the template %.128q to make it from", name, template)
	case from.Perm&PermInherit == 0 || string(template) == Template && !t.autoCreate.Load():
		return nil, fmt.Errorf("topic: %s does not exist, and topics are not made from %s (autoCreateTopicEnable=%v, perm %d)",
			name, template, t.autoCreate.Load(), from.Perm)
	}
	queues := max(1, min(clientQueues, from.WriteQueues))
	return t.add(Config{
		Name: string(name), ReadQueues: queues, WriteQueues: queues,
		Perm: from.Perm &^ PermInherit, SysFlag: sysFlag, FilterType: from.FilterType,
	}), nil
}

// SetAutoCreate says whether sends may make topics from the broker's template, which is made if it is not there.
func (t *Table) SetAutoCreate(on bool) {
	t.autoCreate.Store(on)
	if on && t.Get(Template) == nil {
		queues := max(t.opts.DefaultQueues, 1)
		t.add(Config{Name: Template, ReadQueues: queues, WriteQueues: queues, Perm: PermRead | PermWrite | PermInherit})
	}
}

// NextVersion gives the table another version, so that name servers take it anew: what the broker registers of it has changed.
func (t *Table) NextVersion() {
	t.mu.Lock()
	t.version = t.version.Next(t.opts.Now())
	t.changes.Add(1)
	t.mu.Unlock()
	t.opts.Changed()
}

// CreateRetry makes the retry topic of group if there is none.
func (t *Table) CreateRetry(group string, queues, sysFlag int32) (*Config, error) {
	name := RetryPrefix + group
	if c := t.Get(name); c != nil {
		return c, nil
	}
	if err := CheckName(name); err != nil {
		return nil, err
	}
	return t.add(Config{Name: name, ReadQueues: queues, WriteQueues: queues, Perm: PermRead | PermWrite, SysFlag: sysFlag}), nil
}

// Recover makes a topic known that has queues in the store but stands in no file any more. Messages are never out of reach because a setting
// is gone. A topic that is known stays as it is: that some of its queues are not to be read may be meant, so it is only told.
func (t *Table) Recover(name string, greatestQueue int32) {
	if c := t.Get(name); c != nil {
		if greatestQueue >= c.ReadQueues {
			t.log.Warn("topic: the store has messages in queues that are not to be read", "topic", name, "greatest queue", greatestQueue,
				"readQueueNums", c.ReadQueues)
		}
		return
	}
	queues := min(greatestQueue, maxQueues-1) + 1
	c := Config{Name: name, ReadQueues: queues, WriteQueues: queues, Perm: PermRead | PermWrite}
	if _, err := t.Put(c); err != nil {
		t.log.Error("topic: queues of the store have no topic, and none can be made", "topic", name, "reason", err)
		return
	}
	t.log.Warn("topic: known only by its queues in the store, the topics file did not have it", "topic", name, "queues", queues)
	if greatestQueue >= queues {
		t.log.Error("topic: a topic cannot have so many queues, the greatest ones are out of reach", "topic", name, "greatest queue", greatestQueue, "queues", queues)
	}
}

// IsSystem tells whether name is one of the broker's own topics, which nobody else defines.
func (t *Table) IsSystem(name string) bool {
	return isSystem(name) || name == t.opts.ClusterName || name == t.opts.BrokerName
}

// SystemTopics are the names of those that exist, sorted.
func (t *Table) SystemTopics() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var names []string
	for name := range t.topics {
		if t.IsSystem(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Snapshot is all topics, a map of the caller's own, and the version it has.
func (t *Table) Snapshot() (map[string]*Config, configfile.DataVersion) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return maps.Clone(t.topics), t.version
}

// Version is the present one.
func (t *Table) Version() configfile.DataVersion {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.version
}

// Save writes the table if it has changed since the last Save.
func (t *Table) Save() error {
	count := t.changes.Load() // what changes from here on may be in the file or not
	err := t.file.Save(&t.changes, func() any {
		topics, version := t.Snapshot()
		return fileContent{DataVersion: version, Topics: topics}
	})
	for saved := t.saved.Load(); err == nil && saved < count; saved = t.saved.Load() {
		if t.saved.CompareAndSwap(saved, count) {
			break
		}
	}
	return err
}

// Durable tells whether c, a topic of this table, has been saved.
func (t *Table) Durable(c *Config) bool { return c.change <= t.saved.Load() }
