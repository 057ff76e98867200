package api

import (
	"ringmq/broker/client"
	"ringmq/broker/filter"
	"ringmq/broker/topic"
	"ringmq/net/remoting"
	"ringmq/net/server"
)

func clientRoutes() map[int32]route {
	return map[int32]route{
		remoting.HeartBeat:              {handle: (*API).heartbeat},
		remoting.UnregisterClient:       {handle: (*API).unregister},
		remoting.GetConsumerListByGroup: {handle: (*API).consumerList},
		remoting.CheckClientConfig:      {handle: (*API).checkClient},
	}
}

// heartbeat handles 34. A group that comes for the first time gets its settings and its retry topic.
func (a *API) heartbeat(c *remoting.Command, r server.Reply) {
	h, err := client.ParseHeartbeat(c.Body)
	if err != nil {
		refuse(r, remoting.SystemError, "%v", err)
		return
	}
	for i := range h.Consumers {
		a.welcome(&h.Consumers[i])
	}
	changed := a.opts.Clients.Heartbeat(r.Conn(), h, c.Language, c.Version)
	var answer remoting.Command
	answer.Reset()
	answer.SetBool("IS_SUPPORT_HEART_BEAT_V2", true)
	// A client that never leaves its subscriptions away is always told to go on so.
	answer.SetBool("IS_SUB_CHANGE", changed || h.Fingerprint == 0)
	r.Write(&answer)
}

// welcome makes what a group of consumers needs. Where that is not allowed, its pulls will say so.
func (a *API) welcome(c *client.Consumer) {
	config := a.opts.Groups.FindOrCreate([]byte(c.Group))
	if config == nil {
		return
	}
	sysFlag := int32(0)
	if c.UnitMode {
		sysFlag = topic.FlagUnitSubscription
	}
	if _, err := a.opts.Topics.CreateRetry(config.Name, config.RetryQueues, sysFlag); err != nil {
		a.log.Warn("api: a group gets no retry topic", "group", config.Name, "reason", err)
	}
}

// unregister handles 35.
func (a *API) unregister(c *remoting.Command, r server.Reply) {
	a.opts.Clients.Unregister(r.Conn(), c.Str("producerGroup"), c.Str("consumerGroup"))
	succeed(r)
}

// consumerList handles 38: the client ids of a group.
func (a *API) consumerList(c *remoting.Command, r server.Reply) {
	group, err := need(c, "consumerGroup")
	if err != nil {
		refuse(r, remoting.InvalidParameter, "%v", err)
		return
	}
	var ids []string
	for _, m := range a.opts.Clients.Members(group) {
		if len(ids) == 0 || ids[len(ids)-1] != m.ClientID { // one client may have several connections
			ids = append(ids, m.ClientID)
		}
	}
	if len(ids) == 0 {
		refuse(r, remoting.SystemError, "consumer group %.255s has no member connected", group)
		return
	}
	var answer remoting.Command
	answer.Reset()
	answerJSON(r, &answer, struct {
		IDs []string `json:"consumerIdList"`
	}{ids})
}

// checkClient handles 46: whether the broker could serve a subscription.
func (a *API) checkClient(c *remoting.Command, r server.Reply) {
	_, s, err := client.ParseSubscription(c.Body)
	switch {
	case err != nil:
		refuse(r, remoting.SubscriptionParseFailed, "%v", err)
	case s != nil && s.Type != filter.TypeTag:
		why := refusedType(s.Type)
		refuse(r, why.code, "%s", why.remark)
	default:
		succeed(r)
	}
}
