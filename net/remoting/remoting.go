// Package remoting is RocketMQ's frame: headers in JSON and ROCKETMQ form, request and response codes. It does no input or output.
package remoting

type Serialize uint8

const (
	JSON     Serialize = 0
	RocketMQ Serialize = 1
)

const (
	FlagResponse = 1
	FlagOneway   = 2
	// Version is the ordinal of V5_5_0 that our frames announce.
	MaxFrame = 16 << 20
)

// Field is one ext field; slices point into the frame or the command's scratch buffer.
type Field struct{ Key, Value []byte }

// Command is one request or response, reusable: Reset keeps its buffers. After Decode all slices are valid as long as the frame is.
type Command struct {
	Code      int32
	Language  uint8
	Version   int32
	Opaque    int32
	Flag      int32
	Serialize Serialize
	Remark    string
	Fields    []Field
	Body      []byte
	scratch   []byte
}

func (c *Command) Reset() { panic("unbuilt") }

// Decode reads a frame without its 4 length bytes. Errors name the field, what it was and what is allowed. No allocation on the common path.
func (c *Command) Decode(frame []byte) error { panic("unbuilt") }

// AppendFrame appends the whole frame, length included. AppendHead leaves the body away but counts bodyLen.
func (c *Command) AppendFrame(dst []byte) []byte               { panic("unbuilt") }
func (c *Command) AppendHead(dst []byte, bodyLen int) []byte   { panic("unbuilt") }
func (c *Command) Field(name string) ([]byte, bool)            { panic("unbuilt") }
func (c *Command) Int(name string) (int64, error)              { panic("unbuilt") } // missing or not a number: error naming it
func (c *Command) IntOr(name string, def int64) (int64, error) { panic("unbuilt") }
func (c *Command) Bool(name string) bool                       { panic("unbuilt") }
func (c *Command) Str(name string) string                      { panic("unbuilt") }
func (c *Command) SetStr(name, value string)                   { panic("unbuilt") }
func (c *Command) SetBytes(name string, value []byte)          { panic("unbuilt") }
func (c *Command) SetInt(name string, value int64)             { panic("unbuilt") }
func (c *Command) SetBool(name string, value bool)             { panic("unbuilt") }
func (c *Command) IsResponse() bool                            { return c.Flag&FlagResponse != 0 }
func (c *Command) IsOneway() bool                              { return c.Flag&FlagOneway != 0 }

// Answer makes c the empty response to req: its opaque and serialization, flag 1.
func (c *Command) Answer(req *Command, code int32) { panic("unbuilt") }

// SendHeader is codes 10, 310, 320 decoded; slices as in Command.
type SendHeader struct {
	ProducerGroup, Topic, DefaultTopic, Properties                                   []byte
	DefaultTopicQueueNums, QueueID, SysFlag, Flag, ReconsumeTimes, MaxReconsumeTimes int32
	BornTime                                                                         int64
	UnitMode, Batch                                                                  bool
}

func (h *SendHeader) From(c *Command) error { panic("unbuilt") } // long names for 10, one-letter for 310/320, either accepted

// PullHeader is codes 11 and 361.
type PullHeader struct {
	Group, Topic, Subscription, ExpressionType              []byte
	QueueID, MaxMsgNums, SysFlag, MaxMsgBytes               int32
	QueueOffset, CommitOffset, SuspendTimeoutMS, SubVersion int64
}

func (h *PullHeader) From(c *Command) error { panic("unbuilt") }
