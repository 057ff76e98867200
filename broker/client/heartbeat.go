package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"ringmq/broker/filter"
	"ringmq/internal/fastjson"
)

// Broadcasting is the message model in which each member of a group gets every message.
const Broadcasting = "BROADCASTING"

// Heartbeat is what a client tells of itself, every 30 s and when it changes.
type Heartbeat struct {
	ClientID    string
	Producers   []string // groups
	Consumers   []Consumer
	Fingerprint int32 // not 0: the client may leave the subscriptions away while they do not change
	WithoutSubs bool  // it has left them away
}

// Consumer is a client's part in one group of consumers.
type Consumer struct {
	Group         string
	Type          string // CONSUME_PASSIVELY, CONSUME_ACTIVELY, ...
	Model         string // CLUSTERING, BROADCASTING
	From          string // CONSUME_FROM_LAST_OFFSET, ...
	UnitMode      bool
	Subscriptions []*Subscription
}

// Subscription is what a group wants of one topic. It never changes.
type Subscription struct {
	Topic       string
	Expression  string
	Type        string // filter.TypeTag, filter.TypeSQL
	Version     int64  // rises when the client changes it
	ClassFilter bool   // a kind of filter that no broker runs any more: everything matches
	Tags        *filter.Tags
}

// heartbeatText is the JSON of Heartbeat. Sets of tags and their hashes are left away: they follow from the expression.
type heartbeatText struct {
	ClientID  string `json:"clientID"`
	Producers []struct {
		Group string `json:"groupName"`
	} `json:"producerDataSet"`
	Consumers []struct {
		Group         string             `json:"groupName"`
		Type          enum               `json:"consumeType"`
		Model         enum               `json:"messageModel"`
		From          enum               `json:"consumeFromWhere"`
		UnitMode      bool               `json:"unitMode"`
		Subscriptions []subscriptionText `json:"subscriptionDataSet"`
	} `json:"consumerDataSet"`
	Fingerprint int32 `json:"heartbeatFingerprint"`
	WithoutSubs bool  `json:"withoutSub"`
}

// subscriptionText leaves the sets of tags and codes unread: clients write the codes as numbers or as strings.
type subscriptionText struct {
	ClassFilter bool   `json:"classFilterMode"`
	Type        string `json:"expressionType"`
	Expression  string `json:"subString"`
	Version     int64  `json:"subVersion"`
	Topic       string `json:"topic"`
}

// enum is the name of a Java enum constant; a number, which that side reads as well, is kept as text.
type enum string

func (e *enum) UnmarshalJSON(text []byte) error {
	*e = enum(strings.Trim(string(text), `"`))
	return nil
}

// ParseHeartbeat reads the body of a heartbeat.
func ParseHeartbeat(body []byte) (*Heartbeat, error) {
	var text heartbeatText
	if err := fastjson.Unmarshal(body, &text); err != nil {
		return nil, fmt.Errorf("client: heartbeat: %w", err)
	}
	if text.ClientID == "" {
		return nil, errors.New("client: heartbeat without clientID")
	}
	h := &Heartbeat{ClientID: text.ClientID, Fingerprint: text.Fingerprint, WithoutSubs: text.WithoutSubs}
	for _, p := range text.Producers {
		if p.Group == "" {
			return nil, errors.New("client: heartbeat with a producer without groupName")
		}
		h.Producers = append(h.Producers, p.Group)
	}
	for _, c := range text.Consumers {
		if c.Group == "" {
			return nil, errors.New("client: heartbeat with a consumer without groupName")
		}
		consumer := Consumer{Group: c.Group, Type: string(c.Type), Model: string(c.Model), From: string(c.From), UnitMode: c.UnitMode}
		for i := range c.Subscriptions {
			s, err := c.Subscriptions[i].subscription()
			if err != nil {
				return nil, fmt.Errorf("client: heartbeat of group %s: %w", c.Group, err)
			}
			consumer.Subscriptions = append(consumer.Subscriptions, s)
		}
		h.Consumers = append(h.Consumers, consumer)
	}
	return h, nil
}

func (s *subscriptionText) subscription() (*Subscription, error) {
	if s.Topic == "" {
		return nil, errors.New("subscription without topic")
	}
	sub := &Subscription{Topic: s.Topic, Expression: s.Expression, Type: s.Type, Version: s.Version, ClassFilter: s.ClassFilter}
	if sub.Type == "" {
		sub.Type = filter.TypeTag
	}
	if sub.Type != filter.TypeTag || sub.ClassFilter {
		return sub, nil
	}
	tags, err := filter.Parse(s.Expression)
	if err != nil {
		return nil, fmt.Errorf("subscription to %s: %w", s.Topic, err)
	}
	sub.Tags = tags
	return sub, nil
}

// MarshalJSON writes a subscription as the tools read it.
func (s *Subscription) MarshalJSON() ([]byte, error) {
	text := struct {
		subscriptionText
		Codes []int32  `json:"codeSet"`
		Tags  []string `json:"tagsSet"`
	}{subscriptionText{s.ClassFilter, s.Type, s.Expression, s.Version, s.Topic}, []int32{}, []string{}}
	if !s.Tags.All() {
		text.Codes, text.Tags = s.Tags.Codes(), s.Tags.Names
	}
	return json.Marshal(text)
}

// ParseSubscription reads the body of CHECK_CLIENT_CONFIG.
func ParseSubscription(body []byte) (group string, s *Subscription, err error) {
	var text struct {
		Group        string            `json:"group"`
		Subscription *subscriptionText `json:"subscriptionData"`
	}
	if err := fastjson.Unmarshal(body, &text); err != nil {
		return "", nil, fmt.Errorf("client: check of a subscription: %w", err)
	}
	if text.Subscription == nil {
		return text.Group, nil, nil
	}
	s, err = text.Subscription.subscription()
	return text.Group, s, err
}
