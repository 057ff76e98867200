package remoting

import (
	"fmt"
	"math/bits"
)

// SendHeader is codes 10, 310, 320 decoded; slices as in Command.
type SendHeader struct {
	ProducerGroup, Topic, DefaultTopic, Properties                                   []byte
	DefaultTopicQueueNums, QueueID, SysFlag, Flag, ReconsumeTimes, MaxReconsumeTimes int32
	BornTime                                                                         int64
	UnitMode, Batch                                                                  bool
}

// Bits of the fields a send must have.
const (
	sendGroup = 1 << iota
	sendTopic
	sendDefaultTopic
	sendDefaultQueues
	sendQueueID
	sendSysFlag
	sendBornTime
	sendFlag
	sendRequired = 1<<iota - 1
)

// From reads the ext fields of a send: long names (code 10) or those of one letter (310, 320); either is accepted with any code. Of two
// fields with one meaning the last counts.
func (h *SendHeader) From(c *Command) error {
	*h = SendHeader{}
	seen := uint(0)
	for i := range c.Fields {
		bit, err := h.take(c.Fields[i].Key, c.Fields[i].Value)
		if err != nil {
			return err
		}
		seen |= bit
	}
	if missing := sendRequired &^ seen; missing != 0 {
		return errMissingSendField(missing)
	}
	return nil
}

// take stores one field and returns its bit if a send must have it.
func (h *SendHeader) take(key, value []byte) (uint, error) {
	switch string(key) {
	case "a", "producerGroup":
		h.ProducerGroup = value
		return sendGroup, nil
	case "b", "topic":
		h.Topic = value
		return sendTopic, nil
	case "c", "defaultTopic":
		h.DefaultTopic = value
		return sendDefaultTopic, nil
	case "d", "defaultTopicQueueNums":
		return sendDefaultQueues, int32Field(&h.DefaultTopicQueueNums, "defaultTopicQueueNums (d)", value)
	case "e", "queueId":
		return sendQueueID, int32Field(&h.QueueID, "queueId (e)", value)
	case "f", "sysFlag":
		return sendSysFlag, int32Field(&h.SysFlag, "sysFlag (f)", value)
	case "g", "bornTimestamp":
		return sendBornTime, int64Field(&h.BornTime, "bornTimestamp (g)", value)
	case "h", "flag":
		return sendFlag, int32Field(&h.Flag, "flag (h)", value)
	case "i", "properties":
		h.Properties = value
	case "j", "reconsumeTimes":
		return 0, optionalInt32(&h.ReconsumeTimes, "reconsumeTimes (j)", value)
	case "k", "unitMode":
		h.UnitMode = IsTrue(value)
	case "l", "maxReconsumeTimes":
		return 0, optionalInt32(&h.MaxReconsumeTimes, "maxReconsumeTimes (l)", value)
	case "m", "batch":
		h.Batch = IsTrue(value)
	}
	return 0, nil
}

func errMissingSendField(missing uint) error {
	names := [...]string{"producerGroup (a)", "topic (b)", "defaultTopic (c)", "defaultTopicQueueNums (d)", "queueId (e)", "sysFlag (f)",
		"bornTimestamp (g)", "flag (h)"}
	return fmt.Errorf("remoting: send without %s: every send needs it", names[bits.TrailingZeros(missing)])
}

func int32Field(to *int32, name string, value []byte) error {
	n, ok := parseInt32(value)
	if !ok {
		return fmt.Errorf("remoting: ext field %s is %q: an integer of 32 bits is needed", name, shown(value))
	}
	*to = n
	return nil
}

// optionalInt32 takes an empty value for a missing field, since the ROCKETMQ form of some clients has empty ones.
func optionalInt32(to *int32, name string, value []byte) error {
	if len(value) == 0 {
		*to = 0
		return nil
	}
	return int32Field(to, name, value)
}

func int64Field(to *int64, name string, value []byte) error {
	n, ok := parseInt(value)
	if !ok {
		return fmt.Errorf("remoting: ext field %s is %q: an integer of 64 bits is needed", name, shown(value))
	}
	*to = n
	return nil
}
