package broker

import (
	"ringmq/broker/api"
	"ringmq/engine"
)

// Policy is what of the options may change while the broker runs. The key of a configuration file is named beside each.
type Policy struct {
	api.Policy
	NoAutoCreateTopic bool // autoCreateTopicEnable=false
	NoAutoCreateGroup bool // autoCreateSubscriptionGroup=false
	NoNotify          bool // notifyConsumerIdsChangedEnable=false
}

// of is the part that the handlers follow.
func (p Policy) of(maxMessageSize int) api.Policy {
	p.MaxMessageSize = maxMessageSize
	return p.Policy
}

// Change replaces the policy and the limits of the store, and has the store ask its settings anew. Requests that come later follow it. It is
// called by one goroutine at a time, after Open.
func (b *Broker) Change(p Policy, l engine.Limits) {
	before := b.policy.Swap(&p)
	b.store.Change(l)
	b.api.Change(p.of(l.MaxMessageSize))
	b.topics.SetAutoCreate(!p.NoAutoCreateTopic)
	b.groups.SetAutoCreate(!p.NoAutoCreateGroup)
	if p.Withheld != before.Withheld {
		b.registrar.withhold(p.Withheld)
		b.topics.NextVersion()
	}
}
