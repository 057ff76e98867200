package api

import (
	"ringmq/broker/topic"
	"ringmq/engine/message"
)

// Policy is what clients may do, as far as that may change while the broker runs. Zero numbers mean the defaults of RocketMQ.
type Policy struct {
	Withheld         int32 // what brokerPermission takes away from reading and writing (topic.PermRead, PermWrite)
	NoTrace          bool  // traceOn=false
	MaxMessageSize   int   // maxMessageSize 4 MiB
	MaxTransferCount int   // maxTransferCountOnMessageInMemory 32
	MaxTransferBytes int   // maxTransferBytesOnMessageInMemory 262144
	NoLongPolling    bool  // longPollingEnable=false
	ShortPollingMS   int64 // shortPollingTimeMills 1000
	NoLitePull       bool  // litePullMessageEnable=false
}

func (p Policy) withDefaults() Policy {
	if p.MaxMessageSize == 0 {
		p.MaxMessageSize = 4 << 20
	}
	if p.MaxTransferCount == 0 {
		p.MaxTransferCount = 32
	}
	p.MaxTransferCount = min(p.MaxTransferCount, maxPieces)
	if p.MaxTransferBytes == 0 {
		p.MaxTransferBytes = 256 << 10
	}
	if p.ShortPollingMS == 0 {
		p.ShortPollingMS = 1000
	}
	return p
}

// permission is what brokerPermission leaves.
func (p Policy) permission() int32 { return (topic.PermRead | topic.PermWrite) &^ p.Withheld }

// policy is a Policy with what follows from it. It never changes: a request sees the old one or the new one.
type policy struct {
	Policy
	added []byte // properties that every single send gets, but its unique key
}

// Change replaces the policy. Requests that come later follow the new one; pulls that are parked keep what they came with.
func (a *API) Change(p Policy) {
	next := &policy{Policy: p.withDefaults()}
	trace := "true"
	if p.NoTrace {
		trace = "false"
	}
	next.added = message.AppendProperty(next.added, message.PropertyRegion, a.opts.Region)
	next.added = message.AppendProperty(next.added, message.PropertyTraceOn, trace)
	next.added = message.AppendProperty(next.added, message.PropertyCluster, a.opts.Cluster)
	a.policy.Store(next)
}
