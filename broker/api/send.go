package api

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"ringmq/broker/topic"
	"ringmq/engine"
	"ringmq/engine/message"
	"ringmq/net/remoting"
	"ringmq/net/server"
)

func sendRoutes() map[int32]route {
	return map[int32]route{
		remoting.SendMessage:      {handle: (*API).send},
		remoting.SendMessageV2:    {handle: (*API).send},
		remoting.SendBatchMessage: {handle: (*API).send},
	}
}

// send is one send under way, pooled. It belongs to the handler until Put and to PutDone afterwards. What the store borrows until
// Put returns may point into the frame; what the answer needs is copied.
type send struct {
	api    *API
	reply  server.Reply
	header remoting.SendHeader
	put    engine.PutRequest
	topic  *topic.Config
	answer remoting.Command

	properties []byte            // of a single message, with the broker's own
	unique     []byte            // the answer's transactionId: of properties or of uniqueCopy
	uniqueCopy []byte            // of a batch
	items      []message.Message // of a batch
	ids        []byte            // the answer's msgId
}

// keepBytes is how large a buffer stays with a pooled request.
const keepBytes = 64 << 10

func newSend(a *API) *send {
	s := &send{api: a}
	s.put.Done = s
	return s
}

// refusal is why a request is not carried out: the answer's code and remark.
type refusal struct {
	code   int32
	remark string
}

func refused(code int32, format string, args ...any) *refusal {
	return &refusal{code: code, remark: fmt.Sprintf(format, args...)}
}

// send handles 10, 310 and 320. A batch is told by its header, not by its code, as in the original.
func (a *API) send(c *remoting.Command, r server.Reply) {
	s := a.sends.Get().(*send)
	s.reply = r
	why := s.prepare(c)
	if why != nil {
		s.answer.Reset()
		s.answer.Code, s.answer.Remark = why.code, why.remark
		r.Write(&s.answer)
		s.free()
		return
	}
	a.opts.Store.Put(&s.put) // from here on s is PutDone's
}

// prepare makes the put, or says why there is none.
func (s *send) prepare(c *remoting.Command) *refusal {
	h := &s.header
	if err := h.From(c); err != nil {
		return refused(remoting.InvalidParameter, "%v", err)
	}
	config, why := s.api.target(h)
	if why != nil {
		return why
	}
	queueID, why := pickQueue(h.QueueID, config)
	if why != nil {
		return why
	}
	s.topic = config
	m := &s.put.Message
	m.Topic, m.QueueID = config.Name, queueID
	m.Flag, m.SysFlag = h.Flag, h.SysFlag&^hostFlags
	m.BornTime, m.BornHost, m.StoreHost = h.BornTime, s.reply.Conn().Remote(), s.api.opts.StoreHost
	m.ReconsumeTimes = h.ReconsumeTimes
	if why := checkSysFlag(h.SysFlag); why != nil {
		return why
	}
	if limit := s.api.policy.Load().MaxMessageSize; len(c.Body) > limit {
		return refused(remoting.MessageIllegal, "the body has %d bytes, maxMessageSize allows %d", len(c.Body), limit)
	}
	if h.Batch {
		return s.prepareBatch(c.Body)
	}
	return s.prepareSingle(c.Body)
}

func (s *send) prepareSingle(body []byte) *refusal {
	found, why := scan(s.header.Properties)
	if why != nil {
		return why
	}
	s.put.NoWait = found.noWait
	s.put.Batch = nil
	s.properties = s.api.appendOwn(s.properties[:0], s.header.Properties, found)
	if len(s.properties) > message.MaxProperties {
		return refused(remoting.MessageIllegal, "the properties have %d bytes (%d sent, the rest the broker's own), at most %d are allowed",
			len(s.properties), len(s.header.Properties), message.MaxProperties)
	}
	s.unique, _ = message.Property(s.properties, message.PropertyUniqueKey)
	s.put.Message.Body, s.put.Message.Properties = body, s.properties
	return nil
}

// appendOwn appends a message's properties with what the broker adds to each single one.
func (a *API) appendOwn(dst, properties []byte, found scanned) []byte {
	if found.own {
		dst = message.AppendPropertiesWithout(dst, properties, message.PropertyRegion, message.PropertyTraceOn, message.PropertyCluster)
	} else {
		dst = append(dst, properties...)
	}
	if !found.unique {
		var room [64]byte
		dst = endItem(dst)
		dst = append(dst, message.PropertyUniqueKey...)
		dst = append(dst, propertyNameEnd)
		dst = append(dst, a.uniqueIDs.AppendTo(room[:0])...)
		dst = append(dst, propertyValueEnd)
	}
	return append(endItem(dst), a.policy.Load().added...)
}

// Separators of the properties text.
const (
	propertyNameEnd  = 0x01
	propertyValueEnd = 0x02
)

// endItem ends the last item, which a client may have left open.
func endItem(dst []byte) []byte {
	if len(dst) > 0 && dst[len(dst)-1] != propertyValueEnd {
		dst = append(dst, propertyValueEnd)
	}
	return dst
}

// target is the topic that a send goes to, made if it may come into being by itself.
func (a *API) target(h *remoting.SendHeader) (*topic.Config, *refusal) {
	if p := a.policy.Load(); p.Withheld&topic.PermWrite != 0 {
		return nil, refused(remoting.NoPermission, "sending to broker %s is forbidden: brokerPermission is %d", a.opts.Broker, p.permission())
	}
	if topic.SendForbidden(h.Topic) {
		return nil, refused(remoting.NoPermission, "sending to topic %s is forbidden: it is the broker's own", h.Topic)
	}
	config := a.opts.Topics.Find(h.Topic)
	if config == nil {
		var why *refusal
		if config, why = a.create(h); why != nil {
			return nil, why
		}
	}
	if !config.Writable() {
		return nil, refused(remoting.NoPermission, "sending to topic %s is forbidden: its perm is %d, 2 is needed", config.Name, config.Perm)
	}
	return config, nil
}

// create makes the topic of a send.
func (a *API) create(h *remoting.SendHeader) (*topic.Config, *refusal) {
	if err := topic.CheckName(h.Topic); err != nil {
		return nil, refused(remoting.InvalidParameter, "%v", err)
	}
	retry := topic.IsRetry(h.Topic)
	sysFlag := int32(0)
	if h.UnitMode {
		sysFlag = topic.FlagUnit
		if retry {
			sysFlag = topic.FlagUnitSubscription
		}
	}
	config, err := a.opts.Topics.Create(h.Topic, h.DefaultTopic, h.DefaultTopicQueueNums, sysFlag)
	if err != nil && retry {
		config, err = a.opts.Topics.CreateRetry(string(h.Topic[len(topic.RetryPrefix):]), 1, sysFlag)
	}
	if err != nil {
		return nil, refused(remoting.TopicNotExist, "%v", err)
	}
	return config, nil
}

// pickQueue is the queue a message goes to: the one that is named, any for a negative one.
func pickQueue(asked int32, config *topic.Config) (int32, *refusal) {
	switch {
	case asked >= config.Queues():
		return 0, refused(remoting.InvalidParameter, "queueId is %d, topic %s has %d queues to write and %d to read",
			asked, config.Name, config.WriteQueues, config.ReadQueues)
	case asked >= 0:
		return asked, nil
	case config.WriteQueues == 0:
		return 0, refused(remoting.InvalidParameter, "topic %s has no queue to write to", config.Name)
	}
	return rand.Int32N(config.WriteQueues), nil
}

// How the remarks of the original begin when it has no buffer left, and when a send has waited too long; people look for them in logs.
const (
	busyRemark    = "[REJECTREQUEST]system busy, start flow control for a while: "
	overdueRemark = "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
)

// PutDone answers. It runs on the goroutine of the handler or of a service of the store.
func (s *send) PutDone(p *engine.PutRequest, r *engine.PutResult) {
	c := &s.answer
	c.Reset()
	c.Code = codeOf(r.Status)
	if r.Err != nil {
		c.Remark = r.Err.Error()
	}
	switch {
	case errors.Is(r.Err, engine.ErrOverdue):
		c.Remark = overdueRemark + c.Remark
	case r.Status == engine.Busy:
		c.Remark = busyRemark + c.Remark
	}
	if r.Status <= engine.ReplicaTimeout { // stored, if perhaps without a promise
		s.describe(c, r)
	}
	if r.Status == engine.PutOK && s.api.hold(s) {
		return // s is TopicsSaved's
	}
	s.finish(s.api.opts.Batched && r.Status == engine.PutOK && !p.NoWait)
}

// finish sends the answer, or lets it wait for the Kick that ends a batch.
func (s *send) finish(deferred bool) {
	if deferred {
		s.reply.Defer(&s.answer)
	} else {
		s.reply.Write(&s.answer)
	}
	s.free()
}

// describe fills in where the message stands.
func (s *send) describe(c *remoting.Command, r *engine.PutResult) {
	host := s.api.opts.StoreHost
	s.ids = s.ids[:0]
	if s.put.Batch == nil {
		s.ids = message.AppendOffsetID(s.ids, host, r.Offset)
	} else {
		for i, at := range r.Offsets {
			if i > 0 {
				s.ids = append(s.ids, ',')
			}
			s.ids = message.AppendOffsetID(s.ids, host, at)
		}
	}
	c.SetBytes("msgId", s.ids)
	c.SetInt("queueId", int64(s.put.Message.QueueID))
	c.SetInt("queueOffset", int64(r.QueueOffset))
	if len(s.unique) > 0 {
		c.SetBytes("transactionId", s.unique)
	}
	c.SetStr("MSG_REGION", s.api.opts.Region)
	c.SetBool("TRACE_ON", !s.api.policy.Load().NoTrace)
}

func codeOf(status engine.PutStatus) int32 {
	switch status {
	case engine.PutOK:
		return remoting.Success
	case engine.FlushTimeout:
		return remoting.FlushDiskTimeout
	case engine.ReplicaUnavailable:
		return remoting.SlaveNotAvailable
	case engine.ReplicaTimeout:
		return remoting.FlushSlaveTimeout
	case engine.Illegal:
		return remoting.MessageIllegal
	case engine.Unavailable:
		return remoting.ServiceNotAvailable
	case engine.Busy:
		return remoting.SystemBusy
	}
	panic(fmt.Sprintf("BUG: api: put status %d has no code", status))
}

// free gives s back, without anything of the frame and without buffers that a rare large message has made large.
func (s *send) free() {
	s.reply, s.topic = nil, nil
	s.header = remoting.SendHeader{}
	s.put.Message, s.put.Batch, s.put.NoWait = message.Message{}, nil, false
	s.unique = nil
	clear(s.items)
	s.items = s.items[:0]
	if cap(s.items) > keepBytes/64 {
		s.items = nil
	}
	if cap(s.ids) > keepBytes {
		s.ids = nil
	}
	s.api.sends.Put(s)
}
