package api

import (
	"fmt"

	"ringmq/engine"
	"ringmq/engine/message"
	"ringmq/net/remoting"
)

// answerFound sends the records from where they stand. p is the server's until Release.
func (p *pull) answerFound() {
	p.head(remoting.Success, "FOUND", p.result.Next)
	p.pieces = p.pieces[:0]
	for i := range p.result.Views {
		p.pieces = append(p.pieces, p.result.Views[i].Bytes)
	}
	p.reply.WriteBody(&p.answer, p.pieces, p)
}

// Release gives the views back when the socket has taken them or the connection has died.
func (p *pull) Release() { p.free() }

// answerNothing says why no message comes and where to go on.
func (p *pull) answerNothing() {
	code, remark := outcomeOf(p.result.Status, p.from)
	p.head(code, remark, p.result.Next)
	p.reply.Write(&p.answer)
	p.free()
}

// answerStopped tells the consumer to try again, here or elsewhere, from where it stands.
func (p *pull) answerStopped() {
	p.answer.Reset()
	p.answer.Code, p.answer.Remark = remoting.ServiceNotAvailable, "the broker is stopping"
	p.reply.Write(&p.answer)
	p.free()
}

// answerLater sends the consumer back to where it stands.
func (p *pull) answerLater() {
	p.head(remoting.PullRetryImmediately, "NO_MATCHED_MESSAGE", p.from)
	p.reply.Write(&p.answer)
	p.free()
}

func (p *pull) head(code int32, remark string, next message.QueueOffset) {
	c := &p.answer
	c.Reset()
	c.Code, c.Remark = code, remark
	c.SetInt("suggestWhichBrokerId", 0)
	c.SetInt("groupSysFlag", int64(p.group.SysFlag))
	c.SetInt("topicSysFlag", int64(p.topic.SysFlag))
	c.SetInt("nextBeginOffset", int64(next))
	c.SetInt("minOffset", int64(p.result.Min))
	c.SetInt("maxOffset", int64(p.result.Max))
}

// outcomeOf is the code and the remark of a pull that found nothing; clients and operators know these words.
func outcomeOf(status engine.GetStatus, from message.QueueOffset) (code int32, remark string) {
	switch status {
	case engine.NoMatched:
		return remoting.PullRetryImmediately, "NO_MATCHED_MESSAGE"
	case engine.Unreadable:
		return remoting.SystemError, "the device cannot read this part of the consume queue, the broker's log names its file"
	case engine.Removing:
		return remoting.PullRetryImmediately, "MESSAGE_WAS_REMOVING"
	case engine.OverflowOne:
		return remoting.PullNotFound, "OFFSET_OVERFLOW_ONE"
	case engine.OverflowBadly:
		return remoting.PullOffsetMoved, "OFFSET_OVERFLOW_BADLY"
	case engine.TooSmall:
		return remoting.PullOffsetMoved, "OFFSET_TOO_SMALL"
	case engine.NoQueue:
		remark = "NO_MATCHED_LOGIC_QUEUE"
	case engine.NoMessage:
		remark = "NO_MESSAGE_IN_QUEUE"
	default:
		panic(fmt.Sprintf("BUG: api: pull status %d has no code", status))
	}
	if from != 0 {
		return remoting.PullOffsetMoved, remark
	}
	return remoting.PullNotFound, remark
}

// free gives the views and p back.
func (p *pull) free() {
	p.result.Release()
	p.reply, p.topic, p.group, p.tags = nil, nil, nil, nil
	p.header = remoting.PullHeader{}
	p.wait.Filter = nil
	clear(p.pieces)
	p.api.pulls.Put(p)
}
