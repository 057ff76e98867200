// Package topic keeps the broker's topics: how many queues each has and what may be done with it. It decides which names are
// allowed and which topics come into being by themselves; who may send where is the business of its callers.
package topic

import (
	"fmt"
	"maps"
	"strings"
)

// Permissions, bits of Config.Perm.
const (
	PermInherit = 1 // a template: topics made from it get its other permissions
	PermWrite   = 2
	PermRead    = 4
)

// Bits of Config.SysFlag.
const (
	FlagUnit             = 1
	FlagUnitSubscription = 2
)

const (
	// Template is the topic that automatically created ones are made from.
	Template    = "TBW102"
	Schedule    = "SCHEDULE_TOPIC_XXXX"
	Half        = "RMQ_SYS_TRANS_HALF_TOPIC"
	OpHalf      = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
	SelfTest    = "SELF_TEST_TOPIC"
	Benchmark   = "BenchmarkTest"
	OffsetMoved = "OFFSET_MOVED_EVENT"
	CheckMax    = "TRANS_CHECK_MAX_TIME_TOPIC"
	Trace       = "RMQ_SYS_TRACE_TOPIC"

	RetryPrefix = "%RETRY%" // + group: messages a consumer gave back
	DLQPrefix   = "%DLQ%"   // + group: messages given up

	// SystemPrefix begins the names of topics that later versions of RocketMQ keep for themselves.
	SystemPrefix = "rmq_sys_"
)

const (
	maxName      = 127 // one byte of length in a record
	maxGroupName = 255 // retry and dead letter topics: records of the second form
	maxQueues    = 65536

	filterSingleTag = "SINGLE_TAG"
)

// Config is one topic. It never changes once a Table has it; a change is another Config.
type Config struct {
	Attributes  map[string]string `json:"attributes"`
	Order       bool              `json:"order"`
	Perm        int32             `json:"perm"`
	ReadQueues  int32             `json:"readQueueNums"`
	FilterType  string            `json:"topicFilterType"`
	Name        string            `json:"topicName"`
	SysFlag     int32             `json:"topicSysFlag"`
	WriteQueues int32             `json:"writeQueueNums"`

	change uint64 // which change of the Table made it; 0: it was loaded
}

// Readable tells whether consumers may pull.
func (c *Config) Readable() bool { return c.Perm&PermRead != 0 }

// Writable tells whether producers may send.
func (c *Config) Writable() bool { return c.Perm&PermWrite != 0 }

// Queues is how many queue numbers are valid for some purpose.
func (c *Config) Queues() int32 { return max(c.ReadQueues, c.WriteQueues) }

func (c *Config) equal(d *Config) bool {
	return c.Name == d.Name && c.Order == d.Order && c.Perm == d.Perm && c.ReadQueues == d.ReadQueues &&
		c.WriteQueues == d.WriteQueues && c.FilterType == d.FilterType && c.SysFlag == d.SysFlag &&
		maps.Equal(c.Attributes, d.Attributes)
}

// withDefaults fills in what files of other versions and hand-made requests leave away.
func (c Config) withDefaults() *Config {
	if c.FilterType == "" {
		c.FilterType = filterSingleTag
	}
	if c.Attributes == nil {
		c.Attributes = map[string]string{}
	}
	return &c
}

// Check tells what is wrong with the numbers of c.
func (c *Config) Check() error {
	if err := CheckName(c.Name); err != nil {
		return err
	}
	for _, n := range []struct {
		field string
		value int32
	}{{"readQueueNums", c.ReadQueues}, {"writeQueueNums", c.WriteQueues}} {
		if n.value < 0 || n.value > maxQueues {
			return fmt.Errorf("topic: %s: %s is %d, must be between 0 and %d", c.Name, n.field, n.value, maxQueues)
		}
	}
	if c.Perm < 0 || c.Perm > PermInherit|PermWrite|PermRead {
		return fmt.Errorf("topic: %s: perm is %d, must be a sum of 4 (read), 2 (write), 1 (inherit)", c.Name, c.Perm)
	}
	return nil
}

// CheckName tells what is wrong with the name of a topic: its length in bytes or a character.
func CheckName[T ~string | ~[]byte](name T) error {
	limit := maxName
	if IsRetry(name) || hasPrefix(name, DLQPrefix) {
		limit = maxGroupName
	}
	switch {
	case len(name) == 0:
		return fmt.Errorf("topic: the name is empty")
	case len(name) > limit:
		return fmt.Errorf("topic: name %.32q... has %d bytes, at most %d are allowed", string(name), len(name), limit)
	}
	for i := range len(name) {
		if !allowed(name[i]) {
			return fmt.Errorf("topic: name %q has a character that is not allowed at byte %d: letters, digits, %%, |, - and _ are", string(name), i)
		}
	}
	return nil
}

func allowed(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '%' || c == '|' || c == '-' || c == '_'
}

// IsRetry tells whether name is the retry topic of a group.
func IsRetry[T ~string | ~[]byte](name T) bool { return hasPrefix(name, RetryPrefix) }

func hasPrefix[T ~string | ~[]byte](name T, prefix string) bool {
	return len(name) >= len(prefix) && string(name[:len(prefix)]) == prefix
}

// SendForbidden tells whether name is a topic that only the broker itself writes to.
func SendForbidden(name []byte) bool {
	switch string(name) {
	case Schedule, Half, OpHalf, SelfTest, OffsetMoved, CheckMax:
		return true
	}
	return false
}

// isSystem tells whether name is one of RocketMQ's own on every broker.
func isSystem(name string) bool {
	switch name {
	case Template, Schedule, Half, OpHalf, SelfTest, Benchmark, OffsetMoved, CheckMax, Trace:
		return true
	}
	return strings.HasPrefix(name, SystemPrefix)
}
