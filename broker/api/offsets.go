package api

import (
	"fmt"

	"ringmq/broker/offset"
	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
	"ringmq/net/remoting"
	"ringmq/net/server"
)

func offsetRoutes() map[int32]route {
	return map[int32]route{
		remoting.QueryConsumerOffset:     {handle: (*API).queryOffset},
		remoting.UpdateConsumerOffset:    {handle: (*API).updateOffset},
		remoting.SearchOffsetByTimestamp: {handle: (*API).searchOffset, slow: true},
		remoting.GetMaxOffset:            {handle: (*API).maxOffset},
		remoting.GetMinOffset:            {handle: (*API).minOffset},
		remoting.GetEarliestMsgStoreTime: {handle: (*API).earliestTime, slow: true},
	}
}

// place is the queue that a request is about.
type place struct {
	topic   []byte
	queueID int32
	queue   *consumequeue.Queue // nil: nothing was ever stored in it
}

func (a *API) placeOf(c *remoting.Command) (place, error) {
	topic, ok := c.Field("topic")
	if !ok || len(topic) == 0 {
		return place{}, fmt.Errorf(`ext field "topic" is missing`)
	}
	id, err := int32Of(c, "queueId")
	if err != nil {
		return place{}, err
	}
	return place{topic: topic, queueID: id, queue: a.opts.Store.Queue(topic, id)}, nil
}

func (p place) max() message.QueueOffset {
	if p.queue == nil {
		return 0
	}
	return p.queue.Max()
}

func (p place) min() message.QueueOffset {
	if p.queue == nil {
		return 0
	}
	return p.queue.Min()
}

func answerOffset(r server.Reply, at message.QueueOffset) {
	var c remoting.Command
	c.Reset()
	c.SetInt("offset", int64(at))
	r.Write(&c)
}

// queryOffset handles 14.
func (a *API) queryOffset(c *remoting.Command, r server.Reply) {
	p, err := a.placeOf(c)
	if err != nil {
		refuse(r, remoting.InvalidParameter, "%v", err)
		return
	}
	group, ok := c.Field("consumerGroup")
	if !ok || len(group) == 0 {
		refuse(r, remoting.InvalidParameter, `ext field "consumerGroup" is missing`)
		return
	}
	if at := a.opts.Offsets.Query(p.topic, group, p.queueID); at != offset.None {
		answerOffset(r, at)
		return
	}
	a.onWorker((*API).firstOffset, c, r) // it looks at the queue's first entry
}

// firstOffset is queryOffset for a group that has never committed: it starts at 0 as long as the queue's first message is young; else it is told
// so and decides by itself.
func (a *API) firstOffset(c *remoting.Command, r server.Reply) {
	p, err := a.placeOf(c)
	if err != nil {
		refuse(r, remoting.InvalidParameter, "%v", err)
		return
	}
	group, _ := c.Field("consumerGroup")
	zero, given := c.Field("setZeroIfNotFound")
	switch {
	case given && len(zero) > 0 && !remoting.IsTrue(zero):
		refuse(r, remoting.QueryNotFound, "group %s has no offset in queue %d of topic %s, and setZeroIfNotFound is false", group, p.queueID, p.topic)
	case p.min() <= 0 && a.young(p):
		answerOffset(r, 0)
	default:
		refuse(r, remoting.QueryNotFound, "group %s has no offset in queue %d of topic %s, and the queue's first message is no longer recent",
			group, p.queueID, p.topic)
	}
}

// young tells whether the queue's first message is so recent that it would still be in memory.
func (a *API) young(p place) bool {
	if p.max() == 0 {
		return true
	}
	var entry [1]consumequeue.Entry
	if n, err := p.queue.Read(0, entry[:]); err != nil || n == 0 {
		return false
	}
	return int64(a.opts.Store.Positions().End-entry[0].Offset) <= a.memory
}

// updateOffset handles 15. An offset beyond the queue's end is taken as the end; a negative one is refused.
func (a *API) updateOffset(c *remoting.Command, r server.Reply) {
	p, err := a.placeOf(c)
	if err != nil {
		refuse(r, remoting.InvalidParameter, "%v", err)
		return
	}
	at, err := c.Int("commitOffset")
	if err != nil {
		refuse(r, remoting.InvalidParameter, "%v", err)
		return
	}
	group, _ := c.Field("consumerGroup")
	config := a.opts.Topics.Find(p.topic)
	switch {
	case len(group) == 0:
		refuse(r, remoting.InvalidParameter, `ext field "consumerGroup" is missing`)
	case config == nil:
		refuse(r, remoting.TopicNotExist, "topic %.255q does not exist", p.topic)
	case a.opts.Groups.FindOrCreate(group) == nil:
		refuse(r, remoting.SubscriptionGroupNotExist, "consumer group %.255q does not exist", group)
	case p.queueID < 0 || p.queueID >= config.Queues() && p.queue == nil:
		refuse(r, remoting.InvalidParameter, "queueId is %d, topic %s has %d queues", p.queueID, config.Name, config.Queues())
	case at < 0:
		refuse(r, remoting.InvalidParameter, "commitOffset is %d, must not be negative", at)
	default:
		a.opts.Offsets.Commit(p.topic, group, p.queueID, min(message.QueueOffset(at), p.max()))
		succeed(r)
	}
}

// searchOffset handles 29: the first message stored at a time or later, or (boundaryType UPPER) the last one stored by then.
func (a *API) searchOffset(c *remoting.Command, r server.Reply) {
	p, err := a.placeOf(c)
	if err != nil {
		refuse(r, remoting.InvalidParameter, "%v", err)
		return
	}
	timeMS, err := c.Int("timestamp")
	if err != nil {
		refuse(r, remoting.InvalidParameter, "%v", err)
		return
	}
	search := a.opts.Store.OffsetByTime
	switch boundary := c.Str("boundaryType"); boundary {
	case "", "LOWER", "lower":
	case "UPPER", "upper":
		search = a.opts.Store.LastOffsetByTime
	default:
		refuse(r, remoting.InvalidParameter, "boundaryType is %.32q, allowed are LOWER and UPPER", boundary)
		return
	}
	at, _ := search(p.topic, p.queueID, timeMS) // no queue: 0
	answerOffset(r, at)
}

// maxOffset handles 30.
func (a *API) maxOffset(c *remoting.Command, r server.Reply) {
	p, err := a.placeOf(c)
	if err != nil {
		refuse(r, remoting.InvalidParameter, "%v", err)
		return
	}
	answerOffset(r, p.max())
}

// minOffset handles 31. The search that is due when the log has lost its first segment is a worker's.
func (a *API) minOffset(c *remoting.Command, r server.Reply) {
	p, err := a.placeOf(c)
	if err != nil {
		refuse(r, remoting.InvalidParameter, "%v", err)
		return
	}
	if p.queue == nil {
		answerOffset(r, 0)
		return
	}
	if at, known := p.queue.MinNow(); known {
		answerOffset(r, at)
		return
	}
	a.onWorker((*API).searchMin, c, r)
}

func (a *API) searchMin(c *remoting.Command, r server.Reply) {
	p, err := a.placeOf(c)
	if err != nil {
		refuse(r, remoting.InvalidParameter, "%v", err)
		return
	}
	answerOffset(r, p.min())
}

// earliestTime handles 32: when the queue's first message was stored, -1 if it has none.
func (a *API) earliestTime(c *remoting.Command, r server.Reply) {
	p, err := a.placeOf(c)
	if err != nil {
		refuse(r, remoting.InvalidParameter, "%v", err)
		return
	}
	timeMS, ok := a.opts.Store.StoreTime(p.topic, p.queueID, p.min())
	if !ok {
		timeMS = -1
	}
	var answer remoting.Command
	answer.Reset()
	answer.SetInt("timestamp", timeMS)
	r.Write(&answer)
}
