package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ringmq/broker/configfile"
	"ringmq/broker/topic"
	"ringmq/net/remoting"
	"ringmq/net/server"
)

func topicRoutes() map[int32]route {
	return map[int32]route{
		remoting.UpdateAndCreateTopic:         {handle: (*API).putTopic, slow: true},
		remoting.GetAllTopicConfig:            {handle: (*API).allTopics, slow: true},
		remoting.GetTopicConfig:               {handle: (*API).topicConfig},
		remoting.GetTopicStatsInfo:            {handle: (*API).topicStats, slow: true},
		remoting.GetSystemTopicListFromBroker: {handle: (*API).systemTopics, slow: true},
	}
}

// putTopic handles 17. The topic is on the disk before the answer.
func (a *API) putTopic(c *remoting.Command, r server.Reply) {
	next, err := topicOf(c)
	if err == nil && a.opts.Topics.IsSystem(next.Name) {
		err = fmt.Errorf("topic %s is one of the broker's own and not to be changed", next.Name)
	}
	if err != nil {
		refuse(r, remoting.InvalidParameter, "%v", err)
		return
	}
	if old := a.opts.Topics.Get(next.Name); old != nil {
		next.Attributes = maps.Clone(old.Attributes)
	}
	if err := changeAttributes(&next, c.Str("attributes")); err != nil {
		refuse(r, remoting.InvalidParameter, "%v", err)
		return
	}
	if _, err := a.opts.Topics.Put(next); err != nil {
		refuse(r, remoting.InvalidParameter, "%v", err)
		return
	}
	if err := a.opts.Topics.Save(); err != nil {
		refuse(r, remoting.SystemError, "topic %s is in use but could not be saved: %v", next.Name, err)
		return
	}
	a.log.Info("api: topic set", "topic", next.Name, "readQueues", next.ReadQueues, "writeQueues", next.WriteQueues, "perm", next.Perm,
		"by", r.Conn().Remote())
	succeed(r)
}

func topicOf(c *remoting.Command) (topic.Config, error) {
	var t topic.Config
	var err error
	if t.Name, err = need(c, "topic"); err != nil {
		return t, err
	}
	for _, f := range []struct {
		name string
		to   *int32
	}{{"readQueueNums", &t.ReadQueues}, {"writeQueueNums", &t.WriteQueues}, {"perm", &t.Perm}} {
		if *f.to, err = int32Of(c, f.name); err != nil {
			return t, err
		}
	}
	if text, given := c.Field("topicSysFlag"); given && len(text) > 0 {
		if t.SysFlag, err = int32Of(c, "topicSysFlag"); err != nil {
			return t, err
		}
	}
	t.Order = c.Bool("order")
	switch t.FilterType = c.Str("topicFilterType"); t.FilterType {
	case "", "SINGLE_TAG", "MULTI_TAG":
	default:
		return t, fmt.Errorf("topicFilterType is %.32q, allowed are SINGLE_TAG and MULTI_TAG", t.FilterType)
	}
	return t, t.Check()
}

// changeAttributes carries out a list of +key=value and -key.
func changeAttributes(t *topic.Config, list string) error {
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		key, value, hasValue := strings.Cut(item[1:], "=")
		switch {
		case item[0] == '+' && hasValue:
			if err := checkAttribute(key, value); err != nil {
				return err
			}
			if t.Attributes == nil {
				t.Attributes = make(map[string]string)
			}
			t.Attributes[key] = value
		case item[0] == '-' && !hasValue:
			delete(t.Attributes, key)
		default:
			return fmt.Errorf("attributes: %.64q is neither +key=value nor -key", item)
		}
	}
	return nil
}

// checkAttribute takes the attributes of RocketMQ with the values that ringmq keeps to.
func checkAttribute(key, value string) error {
	allowed := map[string][]string{
		"queue.type":     {"SimpleCQ"},
		"cleanup.policy": {"DELETE"},
		"message.type":   {"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"},
	}
	values, known := allowed[key]
	if !known {
		return fmt.Errorf("attribute %.64q is not known, allowed are %s", key, strings.Join(slices.Sorted(maps.Keys(allowed)), ", "))
	}
	if !slices.Contains(values, value) {
		return fmt.Errorf("attribute %s is %.64q, allowed are %s", key, value, strings.Join(values, ", "))
	}
	return nil
}

// page cuts the names that a request asks for out of all, by the position of the first and their number. Without a number it is all.
func page(c *remoting.Command, names []string, first, number string) ([]string, error) {
	most, err := c.IntOr(number, int64(len(names)))
	if err != nil {
		return nil, err
	}
	from, err := c.IntOr(first, 0)
	if err != nil {
		return nil, err
	}
	if from < 0 || most < 0 {
		return nil, fmt.Errorf("%s is %d and %s is %d, none may be negative", first, from, number, most)
	}
	names = names[min(from, int64(len(names))):]
	return names[:min(most, int64(len(names)))], nil
}

// allTopics handles 21, whole or in pages.
func (a *API) allTopics(c *remoting.Command, r server.Reply) {
	all, version := a.opts.Topics.Snapshot()
	names, err := page(c, slices.Sorted(maps.Keys(all)), "topicSeq", "maxTopicNum")
	if err != nil {
		refuse(r, remoting.InvalidParameter, "%v", err)
		return
	}
	total := len(all)
	part := make(map[string]*topic.Config, len(names))
	for _, name := range names {
		part[name] = all[name]
	}
	var answer remoting.Command
	answer.Reset()
	answer.SetInt("totalTopicNum", int64(total))
	answerJSON(r, &answer, struct {
		DataVersion    configfile.DataVersion   `json:"dataVersion"`
		MappingVersion configfile.DataVersion   `json:"mappingDataVersion"`
		Topics         map[string]*topic.Config `json:"topicConfigTable"`
		MappingDetails struct{}                 `json:"topicQueueMappingDetailMap"`
		MappingInfos   struct{}                 `json:"topicQueueMappingInfoMap"`
	}{DataVersion: version, Topics: part})
}

// namedTopic is the topic that a request names; nil when it has been refused.
func (a *API) namedTopic(c *remoting.Command, r server.Reply) *topic.Config {
	name, err := need(c, "topic")
	if err != nil {
		refuse(r, remoting.InvalidParameter, "%v", err)
		return nil
	}
	config := a.opts.Topics.Get(name)
	if config == nil {
		refuse(r, remoting.TopicNotExist, "topic %.255q does not exist", name)
	}
	return config
}

// topicConfig handles 351.
func (a *API) topicConfig(c *remoting.Command, r server.Reply) {
	config := a.namedTopic(c, r)
	if config == nil {
		return
	}
	var answer remoting.Command
	answer.Reset()
	answerJSON(r, &answer, config)
}

// topicStats handles 202: for each queue its ends and when its last message was stored.
func (a *API) topicStats(c *remoting.Command, r server.Reply) {
	config := a.namedTopic(c, r)
	if config == nil {
		return
	}
	body := []byte(`{"offsetTable":{`)
	for id := range config.WriteQueues {
		p := place{topic: []byte(config.Name), queueID: id, queue: a.opts.Store.Queue([]byte(config.Name), id)}
		last := int64(0)
		if p.max() > 0 {
			last, _ = a.opts.Store.StoreTime(p.topic, id, p.max()-1)
		}
		body = a.appendQueueKey(body, config.Name, id)
		body = fmt.Appendf(body, `{"lastUpdateTimestamp":%d,"maxOffset":%d,"minOffset":%d}`, last, p.max(), p.min())
	}
	var answer remoting.Command
	answer.Reset()
	answerBody(r, &answer, append(body, `}}`...))
}

// appendQueueKey appends a queue as the key of a map, as the Java side reads and writes it: an object, which is no JSON.
func (a *API) appendQueueKey(dst []byte, topic string, id int32) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	dst = append(dst, `{"brokerName":`...)
	dst = appendString(dst, a.opts.Broker)
	dst = append(dst, `,"queueId":`...)
	dst = strconv.AppendInt(dst, int64(id), 10)
	dst = append(dst, `,"topic":`...)
	dst = appendString(dst, topic)
	return append(dst, `}:`...)
}

func appendString(dst []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic("BUG: api: string cannot be encoded: " + err.Error())
	}
	return append(dst, text...)
}

// systemTopics handles 305.
func (a *API) systemTopics(_ *remoting.Command, r server.Reply) {
	var answer remoting.Command
	answer.Reset()
	answerJSON(r, &answer, struct {
		Topics []string `json:"topicList"`
	}{a.opts.Topics.SystemTopics()})
}
