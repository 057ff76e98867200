package api

import (
	"ringmq/broker/lock"
	"ringmq/internal/fastjson"
	"ringmq/net/remoting"
	"ringmq/net/server"
)

func lockRoutes() map[int32]route {
	return map[int32]route{
		remoting.LockBatchMQ:   {handle: (*API).lockQueues},
		remoting.UnlockBatchMQ: {handle: (*API).unlockQueues},
	}
}

// queueText is a queue in the body of a request or an answer.
type queueText struct {
	Broker  string `json:"brokerName"`
	QueueID int32  `json:"queueId"`
	Topic   string `json:"topic"`
}

// lockRequest is the body of both requests.
type lockRequest struct {
	ClientID string      `json:"clientId"`
	Group    string      `json:"consumerGroup"`
	Queues   []queueText `json:"mqSet"`
}

func (l *lockRequest) queues() []lock.Queue {
	list := make([]lock.Queue, 0, len(l.Queues))
	for _, q := range l.Queues {
		list = append(list, lock.Queue{Topic: q.Topic, Broker: q.Broker, QueueID: q.QueueID})
	}
	return list
}

// parseLock reads a body, and answers when it cannot.
func parseLock(c *remoting.Command, r server.Reply) (*lockRequest, bool) {
	var l lockRequest
	if err := fastjson.Unmarshal(c.Body, &l); err != nil {
		refuse(r, remoting.InvalidParameter, "body names no queues: %v", err)
		return nil, false
	}
	if l.ClientID == "" || l.Group == "" {
		refuse(r, remoting.InvalidParameter, "body lacks clientId or consumerGroup")
		return nil, false
	}
	return &l, true
}

// lockQueues handles 41 and answers which queues the client holds now.
func (a *API) lockQueues(c *remoting.Command, r server.Reply) {
	l, ok := parseLock(c, r)
	if !ok {
		return
	}
	got := []queueText{}
	for _, q := range a.locks.Lock(l.Group, l.ClientID, l.queues()) {
		got = append(got, queueText{q.Broker, q.QueueID, q.Topic})
	}
	var answer remoting.Command
	answer.Reset()
	answerJSON(r, &answer, struct {
		Queues []queueText `json:"lockOKMQSet"`
	}{got})
}

// unlockQueues handles 42.
func (a *API) unlockQueues(c *remoting.Command, r server.Reply) {
	l, ok := parseLock(c, r)
	if !ok {
		return
	}
	a.locks.Unlock(l.Group, l.ClientID, l.queues())
	succeed(r)
}

// Expire forgets what nobody has asked for again. It is to be called now and then.
func (a *API) Expire() {
	a.opts.Clients.Expire()
	a.locks.Expire()
}
