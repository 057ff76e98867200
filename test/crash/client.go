package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// Request and response codes of the protocol that the suite uses.
const (
	codeSend          = 10
	codePull          = 11
	codeUpdateTopic   = 17
	codeMaxOffset     = 30
	codeMinOffset     = 31
	codeDeleteExpired = 329
	codeTopicConfig   = 351

	answerOK           = 0
	answerBusy         = 2
	answerFlushTimeout = 10
)

// conn is a connection with one request at a time. It is written from the description of the frames alone and shares no code with the
// broker, so that a fault of the codec cannot hide itself.
type conn struct {
	net.Conn
	in     *bufio.Reader
	opaque int
}

type answer struct {
	Code   int               `json:"code"`
	Opaque int               `json:"opaque"`
	Remark string            `json:"remark"`
	Ext    map[string]string `json:"extFields"`
	body   []byte
}

const callTimeout = 30 * time.Second

func dial(port int) (*conn, error) {
	c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), callTimeout)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, in: bufio.NewReaderSize(c, 1<<20)}, nil
}

func (c *conn) call(code int, ext map[string]string, body []byte) (*answer, error) {
	if err := c.SetReadDeadline(time.Now().Add(callTimeout)); err != nil {
		return nil, err
	}
	if err := c.write(code, ext, body); err != nil {
		return nil, err
	}
	a, err := c.read()
	if err == nil && a.Opaque != c.opaque {
		return nil, fmt.Errorf("answer to request %d, want %d", a.Opaque, c.opaque)
	}
	return a, err
}

func (c *conn) write(code int, ext map[string]string, body []byte) error {
	c.opaque++
	head, err := json.Marshal(map[string]any{"code": code, "language": "OTHER", "version": 395, "opaque": c.opaque, "flag": 0,
		"serializeTypeCurrentRPC": "JSON", "extFields": ext})
	if err != nil {
		return err
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(head)+len(body)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(head)))
	frame = append(append(frame, head...), body...)
	if err := c.SetWriteDeadline(time.Now().Add(callTimeout)); err != nil {
		return err
	}
	_, err = c.Write(frame)
	return err
}

func (c *conn) read() (*answer, error) {
	var lengths [8]byte
	if _, err := io.ReadFull(c.in, lengths[:]); err != nil {
		return nil, err
	}
	total, headLen := int(binary.BigEndian.Uint32(lengths[:4])), int(binary.BigEndian.Uint32(lengths[4:])&0xffffff)
	if total < 4+headLen || total > 64<<20 {
		return nil, errors.New("answer with senseless lengths")
	}
	rest := make([]byte, total-4)
	if _, err := io.ReadFull(c.in, rest); err != nil {
		return nil, err
	}
	a := &answer{body: rest[headLen:]}
	if err := json.Unmarshal(rest[:headLen], a); err != nil {
		return nil, err
	}
	return a, nil
}

// position is where an acknowledged message stands.
type position struct{ queueOffset, logOffset int64 }

// send stores one message and returns the answer's code and where the message stands.
func (c *conn) send(topic string, queue int, body []byte) (code int, at position, err error) {
	a, err := c.call(codeSend, sendFields(topic, queue), body)
	if err != nil {
		return -1, at, err
	}
	return a.stored()
}

func sendFields(topic string, queue int) map[string]string {
	return map[string]string{
		"producerGroup": "crash", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4", "queueId": strconv.Itoa(queue),
		"sysFlag": "0", "bornTimestamp": strconv.FormatInt(time.Now().UnixMilli(), 10), "flag": "0", "properties": "WAIT\x01true\x02",
		"reconsumeTimes": "0", "unitMode": "false", "batch": "false",
	}
}

// stored reads the answer to a send.
func (a *answer) stored() (code int, at position, err error) {
	if a.Code != answerOK {
		return a.Code, at, nil
	}
	if at.queueOffset, err = strconv.ParseInt(a.Ext["queueOffset"], 10, 64); err != nil {
		return -1, at, err
	}
	// The id of a message: address, port, and the offset in the log as 16 hexadecimal digits.
	id := a.Ext["msgId"]
	at.logOffset, err = strconv.ParseInt(id[max(len(id)-16, 0):], 16, 64)
	return a.Code, at, err
}

func (c *conn) offset(code int, topic string, queue int) (int64, error) {
	a, err := c.call(code, map[string]string{"topic": topic, "queueId": strconv.Itoa(queue)}, nil)
	if err != nil {
		return 0, err
	}
	if a.Code != answerOK {
		return 0, fmt.Errorf("code %d to request %d: %s", a.Code, code, a.Remark)
	}
	return strconv.ParseInt(a.Ext["offset"], 10, 64)
}

func (c *conn) pull(topic string, queue int, from int64) (*answer, error) {
	return c.call(codePull, map[string]string{
		"consumerGroup": "crash", "topic": topic, "queueId": strconv.Itoa(queue), "queueOffset": strconv.FormatInt(from, 10), "maxMsgNums": "32",
		"sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0", "expressionType": "TAG",
	}, nil)
}

// createTopic returns true when the broker said that the topic is made.
func (c *conn) createTopic(topic string, queues int) (bool, error) {
	a, err := c.call(codeUpdateTopic, map[string]string{
		"topic": topic, "defaultTopic": "TBW102", "readQueueNums": strconv.Itoa(queues), "writeQueueNums": strconv.Itoa(queues), "perm": "6",
		"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
	}, nil)
	if err != nil {
		return false, err
	}
	return a.Code == answerOK, nil
}

func (c *conn) hasTopic(topic string) (bool, error) {
	a, err := c.call(codeTopicConfig, map[string]string{"topic": topic}, nil)
	if err != nil {
		return false, err
	}
	return a.Code == answerOK, nil
}
