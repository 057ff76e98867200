// Package group keeps the subscription groups: which groups of consumers may consume, and how often a message is given to them
// again.
package group

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ringmq/broker/configfile"
)

// SystemPrefix begins the names of the broker's own groups.
const SystemPrefix = "CID_RMQ_SYS_"

// maxName is the longest name: with %RETRY% before it, it must be a topic.
const maxName = 255 - len("%RETRY%")

// Config is one group. It never changes once a Table has it.
type Config struct {
	Attributes       map[string]string `json:"attributes"`
	BrokerID         int64             `json:"brokerId"`
	ConsumeBroadcast bool              `json:"consumeBroadcastEnable"`
	Consume          bool              `json:"consumeEnable"`
	ConsumeFromMin   bool              `json:"consumeFromMinEnable"`
	ConsumeOrderly   bool              `json:"consumeMessageOrderly"`
	ConsumeTimeout   int32             `json:"consumeTimeoutMinute"`
	Name             string            `json:"groupName"`
	RetryPolicy      json.RawMessage   `json:"groupRetryPolicy"` // kept as it came
	SysFlag          int32             `json:"groupSysFlag"`
	NotifyChanges    bool              `json:"notifyConsumerIdsChangedEnable"`
	RetryMaxTimes    int32             `json:"retryMaxTimes"`
	RetryQueues      int32             `json:"retryQueueNums"`
	Subscriptions    json.RawMessage   `json:"subscriptionDataSet,omitempty"` // kept as it came
	WhenSlow         int64             `json:"whichBrokerWhenConsumeSlowly"`
}

// Default is what a group is that nobody has defined.
func Default(name string) Config {
	return Config{
		Attributes: map[string]string{}, ConsumeBroadcast: true, Consume: true, ConsumeFromMin: true, ConsumeTimeout: 15, Name: name,
		RetryPolicy: json.RawMessage(`{"type":"CUSTOMIZED"}`), NotifyChanges: true, RetryMaxTimes: 16, RetryQueues: 1, WhenSlow: 1,
	}
}

// UnmarshalJSON takes the defaults for what the text leaves away.
func (c *Config) UnmarshalJSON(text []byte) error {
	type plain Config // without this method
	p := plain(Default(""))
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	*c = Config(p)
	if c.Attributes == nil {
		c.Attributes = map[string]string{}
	}
	c.RetryPolicy, c.Subscriptions = compact(c.RetryPolicy), compact(c.Subscriptions)
	return nil
}

// compact takes the blanks away, so that two configurations may be compared by their bytes.
func compact(text json.RawMessage) json.RawMessage {
	if text == nil {
		return nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		panic("BUG: group: " + err.Error()) // it has just been read as JSON
	}
	return b.Bytes()
}

func (c *Config) equal(d *Config) bool {
	return c.BrokerID == d.BrokerID && c.ConsumeBroadcast == d.ConsumeBroadcast && c.Consume == d.Consume &&
		c.ConsumeFromMin == d.ConsumeFromMin && c.ConsumeOrderly == d.ConsumeOrderly && c.ConsumeTimeout == d.ConsumeTimeout &&
		c.Name == d.Name && string(c.RetryPolicy) == string(d.RetryPolicy) && c.SysFlag == d.SysFlag &&
		c.NotifyChanges == d.NotifyChanges && c.RetryMaxTimes == d.RetryMaxTimes && c.RetryQueues == d.RetryQueues &&
		string(c.Subscriptions) == string(d.Subscriptions) && c.WhenSlow == d.WhenSlow && maps.Equal(c.Attributes, d.Attributes)
}

// CheckName tells what is wrong with the name of a group.
func CheckName[T ~string | ~[]byte](name T) error {
	if len(name) == 0 {
		return fmt.Errorf("group: the name is empty")
	}
	if len(name) > maxName {
		return fmt.Errorf("group: name %.32q... has %d bytes, at most %d are allowed", string(name), len(name), maxName)
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '%', c == '|', c == '-', c == '_':
		default:
			return fmt.Errorf("group: name %q has a character that is not allowed at byte %d: letters, digits, %%, |, - and _ are", string(name), i)
		}
	}
	return nil
}

// Check tells what is wrong with c.
func (c *Config) Check() error {
	if err := CheckName(c.Name); err != nil {
		return err
	}
	if c.RetryQueues < 0 || c.RetryQueues > 65536 {
		return fmt.Errorf("group: %s: retryQueueNums is %d, must be between 0 and 65536", c.Name, c.RetryQueues)
	}
	return nil
}

// IsSystem tells whether name is one of the broker's own groups.
func IsSystem(name string) bool { return strings.HasPrefix(name, SystemPrefix) }

// predefined are the groups that every broker has.
func predefined() []string {
	return []string{"TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PULL",
		"CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_RMQ_SYS_TRANS"}
}

// Options of a Table.
type Options struct {
	Path       string // config/subscriptionGroup.json
	AutoCreate bool   // autoCreateSubscriptionGroup, to begin with
	Logger     *slog.Logger
	Now        func() int64 // ms; nil: the clock
	Changed    func()       // a group was made or changed: save; called under no lock, must not block
}

// Table is all groups. Methods may be called from any goroutine.
type Table struct {
	opts Options
	file *configfile.File

	autoCreate atomic.Bool
	changes    atomic.Uint64 // raised with every change, under mu

	mu        sync.RWMutex
	groups    map[string]*Config
	forbidden json.RawMessage // forbiddenTable, kept as it came
	version   configfile.DataVersion
}

// fileContent is subscriptionGroup.json.
type fileContent struct {
	DataVersion configfile.DataVersion `json:"dataVersion"`
	Forbidden   json.RawMessage        `json:"forbiddenTable,omitempty"`
	Groups      map[string]*Config     `json:"subscriptionGroupTable"`
}

// Open loads the table and adds the groups that every broker has.
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
	t := &Table{opts: o, file: configfile.New(o.Path, o.Logger), groups: make(map[string]*Config)}
	t.autoCreate.Store(o.AutoCreate)
	content, err := configfile.Load[fileContent](t.file)
	if err != nil {
		return nil, err
	}
	for name, c := range content.Groups {
		if c == nil {
			continue
		}
		c.Name = name
		if err := c.Check(); err != nil {
			o.Logger.Warn("group: entry of the groups file is left out", "file", o.Path, "reason", err)
			continue
		}
		t.groups[name] = c
	}
	for _, name := range predefined() {
		if t.groups[name] == nil {
			c := Default(name)
			t.groups[name] = &c
		}
	}
	t.forbidden = content.Forbidden
	t.version = content.DataVersion.Next(o.Now())
	t.changes.Add(1)
	return t, nil
}

// Find returns a group, nil if there is none. It allocates nothing.
func (t *Table) Find(name []byte) *Config {
	t.mu.RLock()
	c := t.groups[string(name)]
	t.mu.RUnlock()
	return c
}

// Get is Find for a string.
func (t *Table) Get(name string) *Config {
	t.mu.RLock()
	c := t.groups[name]
	t.mu.RUnlock()
	return c
}

// FindOrCreate returns a group, made with the defaults if it may come into being by itself; nil otherwise. It allocates nothing
// for a group that exists.
func (t *Table) FindOrCreate(name []byte) *Config {
	if c := t.Find(name); c != nil {
		return c
	}
	if CheckName(name) != nil || !t.autoCreate.Load() && !IsSystem(string(name)) {
		return nil
	}
	next := Default(string(name))
	t.mu.Lock()
	if c := t.groups[next.Name]; c != nil {
		t.mu.Unlock()
		return c
	}
	t.putLocked(&next)
	t.mu.Unlock()
	t.opts.Logger.Info("group: created", "group", next.Name)
	t.opts.Changed()
	return &next
}

// SetAutoCreate says whether a group that is asked for comes into being by itself.
func (t *Table) SetAutoCreate(on bool) { t.autoCreate.Store(on) }

// Put makes or replaces a group, and tells whether it was another one than before.
func (t *Table) Put(c Config) (changed bool, err error) {
	if err := c.Check(); err != nil {
		return false, err
	}
	t.mu.Lock()
	if old := t.groups[c.Name]; old != nil && old.equal(&c) {
		t.mu.Unlock()
		return false, nil
	}
	t.putLocked(&c)
	t.mu.Unlock()
	t.opts.Changed()
	return true, nil
}

func (t *Table) putLocked(c *Config) {
	t.groups[c.Name] = c
	t.version = t.version.Next(t.opts.Now())
	t.changes.Add(1)
}

// Names are all groups, sorted.
func (t *Table) Names() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Sorted(maps.Keys(t.groups))
}

// Snapshot is all groups, a map of the caller's own, what is forbidden to them (may be nil), and the version.
func (t *Table) Snapshot() (map[string]*Config, json.RawMessage, configfile.DataVersion) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return maps.Clone(t.groups), t.forbidden, t.version
}

// Save writes the table if it has changed since the last Save.
func (t *Table) Save() error {
	return t.file.Save(&t.changes, func() any {
		groups, forbidden, version := t.Snapshot()
		return fileContent{DataVersion: version, Forbidden: forbidden, Groups: groups}
	})
}
