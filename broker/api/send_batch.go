package api

import (
	"encoding/binary"
	"fmt"

	"ringmq/broker/topic"
	"ringmq/engine/message"
	"ringmq/net/remoting"
)

// A batch body is its messages one behind the other, big endian:
//
//	 0  size            4  of this message, this field included
//	 4  magic           4  0
//	 8  body CRC        4  0
//	12  flag            4
//	16  body            4 + n
//	 …  properties      2 + n
const (
	itemBodyAt = 16
	minItem    = itemBodyAt + 4 + 2
)

// prepareBatch takes the body apart. One message that may not be stored refuses them all.
func (s *send) prepareBatch(body []byte) *refusal {
	h := &s.header
	if topic.IsRetry(h.Topic) {
		return refused(remoting.MessageIllegal, "topic %s: a retry topic takes no batches", h.Topic)
	}
	found, why := scan(h.Properties)
	if why != nil {
		return why
	}
	s.put.NoWait = found.noWait
	unique, _ := message.Property(h.Properties, message.PropertyUniqueKey)
	s.uniqueCopy = append(s.uniqueCopy[:0], unique...)
	s.unique = s.uniqueCopy
	for len(body) > 0 {
		m := s.put.Message
		rest, err := takeItem(body, &m)
		if err != nil {
			return refused(remoting.MessageIllegal, "message %d of the batch: %v", len(s.items), err)
		}
		if _, why := scan(m.Properties); why != nil {
			return refused(why.code, "message %d of the batch: %s", len(s.items), why.remark)
		}
		s.items = append(s.items, m)
		body = rest
	}
	if len(s.items) == 0 {
		return refused(remoting.MessageIllegal, "the batch is empty: at least one message is needed")
	}
	s.put.Batch = s.items
	return nil
}

// takeItem reads the first message of body into m and returns what follows it.
func takeItem(body []byte, m *message.Message) (rest []byte, err error) {
	if len(body) < minItem {
		return nil, fmt.Errorf("%d bytes are left, a message has at least %d", len(body), minItem)
	}
	size := int64(binary.BigEndian.Uint32(body))
	if size < minItem || size > int64(len(body)) {
		return nil, fmt.Errorf("its size is %d, must be between %d and the %d bytes that are left", size, minItem, len(body))
	}
	item, rest := body[:size], body[size:]
	m.Flag = int32(binary.BigEndian.Uint32(item[12:]))
	bodyLen := int64(binary.BigEndian.Uint32(item[itemBodyAt:]))
	item = item[itemBodyAt+4:]
	if bodyLen > int64(len(item)-2) {
		return nil, fmt.Errorf("its body length is %d, only %d bytes are left for it", bodyLen, len(item)-2)
	}
	m.Body, item = item[:bodyLen:bodyLen], item[bodyLen:]
	propertiesLen := int(binary.BigEndian.Uint16(item))
	item = item[2:]
	if propertiesLen != len(item) || propertiesLen > message.MaxProperties {
		return nil, fmt.Errorf("its properties length is %d, must be the %d bytes that are left for it and at most %d",
			propertiesLen, len(item), message.MaxProperties)
	}
	m.Properties = item
	return rest, nil
}
