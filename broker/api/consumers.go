package api

import (
	"fmt"

	"ringmq/broker/client"
	"ringmq/engine/message"
	"ringmq/net/remoting"
	"ringmq/net/server"
)

func consumerRoutes() map[int32]route {
	return map[int32]route{
		remoting.GetConsumerConnectionList: {handle: (*API).consumerConnections, slow: true},
		remoting.GetProducerConnectionList: {handle: (*API).producerConnections, slow: true},
		remoting.GetConsumeStats:           {handle: (*API).consumeStats, slow: true},
	}
}

// connection is one member of a group, as the tools read it.
type connection struct {
	Address  string `json:"clientAddr"`
	ClientID string `json:"clientId"`
	Language string `json:"language"`
	Version  int32  `json:"version"`
}

func connections(members []*client.Member) []connection {
	list := make([]connection, 0, len(members))
	for _, m := range members {
		list = append(list, connection{m.Conn.Remote().String(), m.ClientID, remoting.LanguageName(m.Language), m.Version})
	}
	return list
}

// consumerConnections handles 203.
func (a *API) consumerConnections(c *remoting.Command, r server.Reply) {
	name, err := need(c, "consumerGroup")
	if err != nil {
		refuse(r, remoting.InvalidParameter, "%v", err)
		return
	}
	g := a.opts.Clients.Consumers([]byte(name))
	if g == nil {
		refuse(r, remoting.ConsumerNotOnline, "consumer group %.255s has no member connected", name)
		return
	}
	info := g.Info()
	var answer remoting.Command
	answer.Reset()
	answerJSON(r, &answer, struct {
		Connections   []connection                    `json:"connectionSet"`
		From          string                          `json:"consumeFromWhere"`
		Type          string                          `json:"consumeType"`
		Model         string                          `json:"messageModel"`
		Subscriptions map[string]*client.Subscription `json:"subscriptionTable"`
	}{connections(a.opts.Clients.Members(name)), info.From, info.Type, info.Model, g.Subscriptions()})
}

// producerConnections handles 204.
func (a *API) producerConnections(c *remoting.Command, r server.Reply) {
	name, err := need(c, "producerGroup")
	if err != nil {
		refuse(r, remoting.InvalidParameter, "%v", err)
		return
	}
	members := a.opts.Clients.Producers(name)
	if len(members) == 0 {
		refuse(r, remoting.SystemError, "producer group %.255s has no member connected", name)
		return
	}
	var answer remoting.Command
	answer.Reset()
	answerJSON(r, &answer, struct {
		Connections []connection `json:"connectionSet"`
	}{connections(members)})
}

// consumeStats handles 208: how far a group has come in each queue of one topic, or of all it has offsets in.
func (a *API) consumeStats(c *remoting.Command, r server.Reply) {
	name, err := need(c, "consumerGroup")
	if err != nil {
		refuse(r, remoting.InvalidParameter, "%v", err)
		return
	}
	topics := a.opts.Offsets.Topics(name)
	if only := c.Str("topic"); only != "" {
		topics = []string{only}
	}
	body := []byte(`{"consumeTps":0.0,"offsetTable":{`)
	for _, topic := range topics {
		body = a.appendConsumeStats(body, topic, name)
	}
	var answer remoting.Command
	answer.Reset()
	answerBody(r, &answer, append(body, `}}`...))
}

// appendConsumeStats appends the queues of one topic. A topic that the connected members no longer subscribe to is left out.
func (a *API) appendConsumeStats(body []byte, topic, name string) []byte {
	config := a.opts.Topics.Get(topic)
	if config == nil {
		return body
	}
	if g := a.opts.Clients.Consumers([]byte(name)); g != nil && len(g.Subscriptions()) > 0 && g.Subscription([]byte(topic)) == nil {
		return body
	}
	for id := range config.ReadQueues {
		p := place{topic: []byte(topic), queueID: id, queue: a.opts.Store.Queue([]byte(topic), id)}
		committed := max(a.opts.Offsets.Query(p.topic, []byte(name), id), message.QueueOffset(0))
		last := int64(0)
		if committed > 0 {
			last, _ = a.opts.Store.StoreTime(p.topic, id, committed-1)
		}
		body = a.appendQueueKey(body, topic, id)
		body = fmt.Appendf(body, `{"brokerOffset":%d,"consumerOffset":%d,"lastTimestamp":%d,"pullOffset":%d}`, p.max(), committed, last, committed)
	}
	return body
}
