package remoting

import (
	"fmt"
	"math/bits"
)

// PullHeader is codes 11 and 361.
type PullHeader struct {
	Group, Topic, Subscription, ExpressionType              []byte
	QueueID, MaxMsgNums, SysFlag, MaxMsgBytes               int32
	QueueOffset, CommitOffset, SuspendTimeoutMS, SubVersion int64
}

// Bits of the fields a pull must have.
const (
	pullGroup = 1 << iota
	pullTopic
	pullQueueID
	pullQueueOffset
	pullMaxMsgNums
	pullSysFlag
	pullCommitOffset
	pullSuspend
	pullSubVersion
	pullRequired = 1<<iota - 1
)

// From reads the ext fields of a pull; of two with one name the last counts.
func (h *PullHeader) From(c *Command) error {
	*h = PullHeader{}
	seen := uint(0)
	for i := range c.Fields {
		bit, err := h.take(c.Fields[i].Key, c.Fields[i].Value)
		if err != nil {
			return err
		}
		seen |= bit
	}
	if missing := pullRequired &^ seen; missing != 0 {
		return errMissingPullField(missing)
	}
	return nil
}

// take stores one field and returns its bit if a pull must have it.
func (h *PullHeader) take(key, value []byte) (uint, error) {
	switch string(key) {
	case "consumerGroup":
		h.Group = value
		return pullGroup, nil
	case "topic":
		h.Topic = value
		return pullTopic, nil
	case "queueId":
		return pullQueueID, int32Field(&h.QueueID, "queueId", value)
	case "queueOffset":
		return pullQueueOffset, int64Field(&h.QueueOffset, "queueOffset", value)
	case "maxMsgNums":
		return pullMaxMsgNums, int32Field(&h.MaxMsgNums, "maxMsgNums", value)
	case "sysFlag":
		return pullSysFlag, int32Field(&h.SysFlag, "sysFlag", value)
	case "commitOffset":
		return pullCommitOffset, int64Field(&h.CommitOffset, "commitOffset", value)
	case "suspendTimeoutMillis":
		return pullSuspend, int64Field(&h.SuspendTimeoutMS, "suspendTimeoutMillis", value)
	case "subVersion":
		return pullSubVersion, int64Field(&h.SubVersion, "subVersion", value)
	case "subscription":
		h.Subscription = value
	case "expressionType":
		h.ExpressionType = value
	case "maxMsgBytes":
		return 0, optionalInt32(&h.MaxMsgBytes, "maxMsgBytes", value)
	}
	return 0, nil
}

func errMissingPullField(missing uint) error {
	names := [...]string{"consumerGroup", "topic", "queueId", "queueOffset", "maxMsgNums", "sysFlag", "commitOffset",
		"suspendTimeoutMillis", "subVersion"}
	return fmt.Errorf("remoting: pull without %s: every pull needs it", names[bits.TrailingZeros(missing)])
}
