package server

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"ringmq/net/remoting"
)

const (
	lengthBytes = 4
	minFrame    = 4 // serialization and header length, with an empty header
)

// flushAt is how many bytes of replies may gather within one turn before they are sent in its middle.
const flushAt = 256 << 10

// frameSize is the size of the frame that b begins with, its length bytes included; 0 when b is too short to tell. What
// cannot be the beginning of a frame is an error at once: the stream can never be in step again.
func frameSize(b []byte, maxFrame int) (int, error) {
	if len(b) < lengthBytes {
		return 0, nil
	}
	n := int(int32(binary.BigEndian.Uint32(b)))
	if n < minFrame || n > maxFrame {
		return 0, fmt.Errorf("server: frame length %d (%q): %d to %d is allowed", n, b[:lengthBytes], minFrame, maxFrame)
	}
	if len(b) >= lengthBytes+minFrame {
		if h := int(binary.BigEndian.Uint32(b[lengthBytes:]) & 0xffffff); h > n-minFrame {
			return 0, fmt.Errorf("server: header length %d in a frame of length %d: at most %d is allowed", h, n, n-minFrame)
		}
	}
	return lengthBytes + n, nil
}

// receive handles what was kept and data, which is only valid until it returns, and sends the answers of the whole turn.
func (c *conn) receive(data []byte) {
	c.mu.Lock()
	c.handling = true
	c.mu.Unlock()

	if err := c.feed(data); err != nil {
		c.fail(err.Error())
	}

	c.mu.Lock()
	c.handling = false
	b := c.takeLocked()
	c.mu.Unlock()
	c.hand(b)
	if c.gone {
		c.drop(len(c.in))
	}
}

// feed handles the whole frames of what was kept and of data, in order, and keeps the rest. A frame that lies whole in data
// is never copied; of one that does not, only the missing bytes are appended to what was kept.
func (c *conn) feed(data []byte) error {
	for len(c.in) > 0 && !c.halted() {
		size, err := frameSize(c.in, c.server.opts.MaxFrame)
		if err != nil {
			return err
		}
		if size == 0 {
			size = lengthBytes
		}
		if missing := size - len(c.in); missing > 0 {
			if missing > len(data) {
				return c.keep(data)
			}
			if err := c.keep(data[:missing]); err != nil {
				return err
			}
			data = data[missing:]
			continue
		}
		n, err := c.consume(c.in)
		c.drop(n)
		if err != nil {
			return err
		}
	}
	n, err := c.consume(data)
	if err != nil {
		return err
	}
	return c.keep(data[n:])
}

// consume handles the whole frames at the beginning of b and returns how many bytes they had.
func (c *conn) consume(b []byte) (n int, err error) {
	for !c.halted() {
		size, err := frameSize(b[n:], c.server.opts.MaxFrame)
		if err != nil || size == 0 || size > len(b)-n {
			return n, err
		}
		c.dispatch(b[n+lengthBytes : n+size])
		n += size
		waiting := c.waiting.Load()
		if waiting-int64(c.unsent) > flushAt || waiting > int64(c.server.opts.OutboundLimit) {
			c.flush()
		}
	}
	return n, nil
}

// halted tells that no further frame may be handled now.
func (c *conn) halted() bool { return c.paused || c.gone || c.closing.Load() }

// keep stores bytes that cannot be handled yet.
func (c *conn) keep(data []byte) error {
	if len(data) == 0 || c.gone || c.closing.Load() {
		return nil
	}
	most := lengthBytes + c.server.opts.MaxFrame
	need := len(c.in) + len(data)
	if need > most && c.paused {
		return fmt.Errorf("server: it sends without reading: %d bytes of requests wait for its taking %d bytes of answers", need, c.waiting.Load())
	}
	if len(c.in) == 0 {
		c.frameSince.Store(int64(c.server.now()))
	}
	if need > cap(c.in) {
		whole := most
		if !c.paused {
			first := c.in
			if len(first) == 0 {
				first = data
			}
			size, err := frameSize(first, c.server.opts.MaxFrame)
			if err != nil {
				return err
			}
			if size > 0 {
				whole = size
			}
		}
		// The length is only a claim: never more than four times of what has come is allocated for it.
		if err := c.grow(max(need, min(4*need, whole))); err != nil {
			return err
		}
	}
	c.in = append(c.in, data...)
	if c.paused {
		return nil
	}
	_, err := frameSize(c.in, c.server.opts.MaxFrame)
	return err
}

func (c *conn) grow(size int) error {
	more := int64(size - cap(c.in))
	if s := c.server; s.memory.Load()+more > s.opts.MemoryLimit && !s.makeRoom(more, c) {
		return fmt.Errorf(
			"server: unfinished frame of %d bytes: all connections together would hold %d bytes, %d is allowed, and this one is most to blame",
			len(c.in), s.memory.Load()+more, s.opts.MemoryLimit)
	}
	grown := append(c.loop.buffers.get(size), c.in...)
	c.loop.buffers.put(c.in)
	c.in = grown
	c.mu.Lock()
	c.inCap = cap(grown)
	c.accountLocked(0)
	c.mu.Unlock()
	return nil
}

// drop forgets the first n bytes of what was kept.
func (c *conn) drop(n int) {
	if n < len(c.in) {
		c.in = c.in[:copy(c.in, c.in[n:])]
		c.frameSince.Store(int64(c.server.now()))
		return
	}
	c.loop.buffers.put(c.in)
	c.in = nil
}

func (c *conn) dispatch(frame []byte) {
	cmd := &c.loop.request
	if err := cmd.Decode(frame); err != nil {
		c.refuse(frame, cmd, err)
		return
	}
	if !cmd.IsResponse() {
		c.server.opts.Handler.Handle(cmd, c.server.newReply(c, cmd))
		return
	}
	if c.server.opts.Response != nil {
		c.server.opts.Response(c, cmd)
	}
}

// refuse answers a frame that cannot be decoded, when it says to which request the answer belongs; else nobody could tell,
// and the connection ends. The frames behind it are not concerned: the length was right.
func (c *conn) refuse(frame []byte, cmd *remoting.Command, err error) {
	opaque, ok := cmd.Opaque, cmd.Opaque != 0
	if !ok {
		opaque, ok = opaqueOf(frame)
	}
	if !ok {
		c.fail(err.Error())
		return
	}
	c.server.refused.Add(1)
	c.server.noise.warn("server: request refused", "remote", c.remote, "opaque", opaque, "error", err)
	if cmd.IsResponse() || cmd.IsOneway() {
		return
	}
	answer := &c.loop.answer
	answer.Reset()
	answer.Code, answer.Opaque, answer.Flag, answer.Serialize = remoting.SystemError, opaque, remoting.FlagResponse, cmd.Serialize
	answer.Remark = err.Error()
	c.write(answer, true)
}

// opaqueOf searches a JSON header that could not be decoded for its opaque: Java writes the ext fields, where most faults are,
// before it. Within strings the quotes of such a text would be escaped.
func opaqueOf(frame []byte) (int32, bool) {
	word := binary.BigEndian.Uint32(frame)
	if remoting.Serialize(word>>24) != remoting.JSON {
		return 0, false
	}
	header := frame[minFrame : minFrame+int(word&0xffffff)]
	key := []byte(`"opaque":`)
	at := bytes.LastIndex(header, key)
	if at < 0 {
		return 0, false
	}
	digits := bytes.TrimLeft(header[at+len(key):], " ")
	n, count := int64(0), 0
	for ; count < len(digits) && digits[count]-'0' <= 9; count++ {
		if n = n*10 + int64(digits[count]-'0'); n > 1<<31-1 {
			return 0, false
		}
	}
	return int32(n), count > 0
}
