package api

import (
	"ringmq/broker/client"
	"ringmq/broker/filter"
	"ringmq/broker/group"
	"ringmq/broker/longpoll"
	"ringmq/broker/topic"
	"ringmq/engine"
	"ringmq/engine/consumequeue"
	"ringmq/engine/message"
	"ringmq/net/remoting"
	"ringmq/net/server"
)

func pullRoutes() map[int32]route {
	return map[int32]route{
		remoting.PullMessage:     {handle: (*API).pull},
		remoting.LitePullMessage: {handle: (*API).litePull},
	}
}

// Bits of a pull's sysFlag.
const (
	pullCommits      = 1 << 0 // commitOffset is to be committed
	pullSuspends     = 1 << 1 // may wait for messages
	pullSubscription = 1 << 2 // brings its subscription along
)

// pull is one pull under way, pooled: in the hands of the handler, of the long-poll holder, of a worker, or, while its answer is being
// sent, of the server; always of one of them.
type pull struct {
	api    *API
	reply  server.Reply
	header remoting.PullHeader // valid in the handler only
	wait   longpoll.Wait
	result engine.GetResult
	answer remoting.Command
	pieces [][]byte

	topic    *topic.Config
	group    *group.Config
	name     []byte // of the topic
	queueID  int32
	from     message.QueueOffset
	max      int // messages
	maxBytes int
	tags     *filter.Tags
	suspend  bool // may be parked
}

func newPull(a *API) *pull {
	p := &pull{api: a}
	p.wait.Waiter, p.wait.End = p, p
	return p
}

func (a *API) litePull(c *remoting.Command, r server.Reply) {
	if a.policy.Load().NoLitePull {
		refuse(r, remoting.NoPermission, "lite pulls are switched off: litePullMessageEnable is false")
		return
	}
	a.pull(c, r)
}

// pull handles 11 and 361.
func (a *API) pull(c *remoting.Command, r server.Reply) {
	if a.opts.FastPort != 0 && r.Conn().Local().Port() == a.opts.FastPort {
		refuse(r, remoting.RequestCodeNotSupported, "port %d takes no pulls: use %s", a.opts.FastPort, a.opts.Address)
		return
	}
	p := a.pulls.Get().(*pull)
	p.reply = r
	if why := p.prepare(c); why != nil {
		p.answer.Reset()
		p.answer.Code, p.answer.Remark = why.code, why.remark
		r.Write(&p.answer)
		p.free()
		return
	}
	p.commit()
	p.header = remoting.PullHeader{} // its slices end with the handler
	p.run()
}

// prepare checks the request and keeps what outlives it.
func (p *pull) prepare(c *remoting.Command) *refusal {
	h, o, policy := &p.header, &p.api.opts, p.api.policy.Load()
	if err := h.From(c); err != nil {
		return refused(remoting.InvalidParameter, "%v", err)
	}
	if why := p.permit(); why != nil {
		return why
	}
	if why := p.subscribe(); why != nil {
		return why
	}
	if h.MaxMsgNums < 1 {
		return refused(remoting.InvalidParameter, "maxMsgNums is %d, must be at least 1", h.MaxMsgNums)
	}
	p.name = append(p.name[:0], h.Topic...)
	p.queueID, p.from = h.QueueID, message.QueueOffset(h.QueueOffset)
	p.max, p.maxBytes = min(int(h.MaxMsgNums), policy.MaxTransferCount), policy.MaxTransferBytes
	if h.MaxMsgBytes > 0 {
		p.maxBytes = min(p.maxBytes, int(h.MaxMsgBytes))
	}
	p.suspend = h.SysFlag&pullSuspends != 0 && h.SuspendTimeoutMS > 0
	if p.suspend {
		patience := h.SuspendTimeoutMS
		if policy.NoLongPolling {
			patience = policy.ShortPollingMS
		}
		p.wait.DeadlineMS = o.Parked.Deadline(min(patience, maxPatienceMS))
	}
	return nil
}

// maxPatienceMS bounds how long a pull may be parked; clients ask for 15 to 30 s.
const maxPatienceMS = 10 * 60 * 1000

// permit looks up topic and group and whether one may be consumed by the other.
func (p *pull) permit() *refusal {
	h, o := &p.header, &p.api.opts
	if policy := p.api.policy.Load(); policy.Withheld&topic.PermRead != 0 {
		return refused(remoting.NoPermission, "pulling from broker %s is forbidden: brokerPermission is %d", o.Broker, policy.permission())
	}
	p.group = o.Groups.FindOrCreate(h.Group)
	if p.group == nil {
		return refused(remoting.SubscriptionGroupNotExist,
			"consumer group %.255q does not exist and may not be made (autoCreateSubscriptionGroup, or its name)", h.Group)
	}
	if !p.group.Consume {
		return refused(remoting.NoPermission, "consumer group %s may not consume: its consumeEnable is false", h.Group)
	}
	p.topic = o.Topics.Find(h.Topic)
	if p.topic == nil {
		return refused(remoting.TopicNotExist, "topic %.255q does not exist", h.Topic)
	}
	if !p.topic.Readable() {
		return refused(remoting.NoPermission, "pulling from topic %s is forbidden: its perm is %d, 4 is needed", p.topic.Name, p.topic.Perm)
	}
	if h.QueueID < 0 || h.QueueID >= p.topic.ReadQueues {
		return refused(remoting.InvalidParameter, "queueId is %d, topic %s has %d queues to read", h.QueueID, p.topic.Name, p.topic.ReadQueues)
	}
	return nil
}

// subscribe finds what the consumer wants: in the request, or in its group's heartbeats.
func (p *pull) subscribe() *refusal {
	h := &p.header
	p.tags = nil
	if h.SysFlag&pullSubscription != 0 {
		if !isTags(h.ExpressionType) {
			return refusedType(string(h.ExpressionType))
		}
		tags, err := p.api.expressions.Parse(h.Subscription)
		if err != nil {
			return refused(remoting.SubscriptionParseFailed, "%v", err)
		}
		p.tags = tags
		return nil
	}
	g := p.api.opts.Clients.Consumers(h.Group)
	if g == nil {
		return refused(remoting.SubscriptionNotExist, "consumer group %s has no member connected: send a heartbeat first", h.Group)
	}
	if g.Info().Model == client.Broadcasting && !p.group.ConsumeBroadcast {
		return refused(remoting.NoPermission, "consumer group %s may not consume by broadcast: its consumeBroadcastEnable is false", h.Group)
	}
	s := g.Subscription(h.Topic)
	switch {
	case s == nil:
		return refused(remoting.SubscriptionNotExist, "consumer group %s has not subscribed to topic %s", h.Group, h.Topic)
	case s.Version < h.SubVersion && !isTags(h.ExpressionType):
		return refused(remoting.SubscriptionNotLatest,
			"subscription of group %s to topic %s is older (%d) than the pull's subVersion %d: send a heartbeat first",
			h.Group, h.Topic, s.Version, h.SubVersion)
	case s.Version < h.SubVersion:
		// The heartbeat with the newer one is on its way; a Java client that changes it at the wrong moment sends it only 30 s
		// later. Its tags are not known, so everything matches: clients compare tags by text anyhow, for hashes may collide.
		return nil
	case s.ClassFilter:
		return nil
	case s.Type != filter.TypeTag:
		return refusedType(s.Type)
	}
	p.tags = s.Tags
	return nil
}

func isTags(expressionType []byte) bool {
	return len(expressionType) == 0 || string(expressionType) == filter.TypeTag
}

func refusedType(expressionType string) *refusal {
	return refused(remoting.SystemError,
		"expressionType is %.32q: filters of this type are not supported by this version of ringmq, TAG is", expressionType)
}

// commit takes the offset that a pull brings along. It never goes beyond the queue's end, and a senseless one is passed over: the pull
// itself is not at fault.
func (p *pull) commit() {
	h := &p.header
	if h.SysFlag&pullCommits == 0 || h.CommitOffset < 0 {
		return
	}
	at := min(message.QueueOffset(h.CommitOffset), p.Max())
	p.api.opts.Offsets.Commit(h.Topic, h.Group, h.QueueID, at)
}

// Max is the queue's end, for the long-poll holder.
func (p *pull) Max() message.QueueOffset {
	q := p.api.opts.Store.Queue(p.name, p.queueID)
	if q == nil {
		return 0
	}
	return q.Max()
}

// run looks for messages until there is an answer, or parks. It runs on an event loop, or on a goroutine of the long-poll holder: what is
// not in memory is left to a worker, for a loop that touched it would stop for the disk, and with it all its connections.
func (p *pull) run() { p.serve(false) }

// serveCold is run where it may wait for the disk.
func (p *pull) serveCold() { p.serve(true) }

func (p *pull) serve(mayWait bool) {
	for {
		if !p.get(mayWait) {
			if p.api.workers.do(p.serveCold) {
				return // p is the worker's
			}
			mayWait = true // too many wait already, or the broker stops
			continue
		}
		if !p.suspend || p.api.stopped.Load() || !empty(p.result.Status, p.from) {
			break
		}
		switch p.park() {
		case longpoll.Parked:
			return // p is the holder's
		case longpoll.Full:
			p.suspend = false
		case longpoll.NewData:
		}
	}
	if p.result.Status != engine.Found {
		if p.api.stopped.Load() {
			p.answerStopped() // a closed store looks like an empty one
			return
		}
		p.answerNothing()
		return
	}
	p.answerFound()
}

// get is false when it would have had to wait.
func (p *pull) get(mayWait bool) bool {
	var f engine.Filter // stays nil when everything matches: nobody needs to ask
	if !p.tags.All() {
		f = p.tags
	}
	if !mayWait {
		return p.api.opts.Store.GetNow(p.name, p.queueID, p.from, p.max, p.maxBytes, f, &p.result)
	}
	p.api.opts.Store.Get(p.name, p.queueID, p.from, p.max, p.maxBytes, f, &p.result)
	return true
}

// empty tells that there is nothing at from yet, but may be.
func empty(status engine.GetStatus, from message.QueueOffset) bool {
	switch status {
	case engine.OverflowOne:
		return true
	case engine.NoQueue, engine.NoMessage:
		return from == 0
	}
	return false
}

// park gives p to the holder. Once it is Parked, p may be in other hands already.
func (p *pull) park() longpoll.Outcome {
	w := &p.wait
	w.Queue = consumequeue.ID{Topic: p.topic.Name, QueueID: p.queueID}
	w.From = p.from
	w.Conn = p.reply.Conn().ID()
	w.Filter = nil
	if !p.tags.All() {
		w.Filter = p.tags
	}
	return p.api.opts.Parked.Park(w)
}

// Woken goes on with a parked pull, on a goroutine of the holder.
func (p *pull) Woken(why longpoll.Why) {
	switch why {
	case longpoll.Arrived:
		if p.reply.Conn().Backlogged() {
			// Nothing is read for a peer that does not take what it has asked for already. It asks again when it does.
			p.answerLater()
			return
		}
	case longpoll.Gone:
		p.answerLater() // to nobody; it ends the request
		return
	default:
		p.suspend = false
	}
	p.run()
}
