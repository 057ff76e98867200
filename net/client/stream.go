package client

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"

	"ringmq/net/remoting"
)

const (
	lengthBytes = 4
	minFrame    = 4
	readBuffer  = 64 << 10
	// keptWrite is the largest write buffer that is kept.
	keptWrite = 1 << 20
)

// read runs until the connection ends.
func (c *Client) read() {
	in := bufio.NewReaderSize(c.conn, readBuffer)
	for {
		cmd, err := c.readCommand(in)
		if err != nil {
			c.fail(err)
			return
		}
		if cmd.IsResponse() {
			c.answered(cmd)
			continue
		}
		c.requested(cmd)
	}
}

// readCommand reads a frame into memory of its own: an answer belongs to the caller.
func (c *Client) readCommand(in *bufio.Reader) (*remoting.Command, error) {
	var length [lengthBytes]byte
	if _, err := io.ReadFull(in, length[:]); err != nil {
		return nil, err
	}
	n := int(int32(binary.BigEndian.Uint32(length[:])))
	if n < minFrame || n > c.opts.MaxFrame {
		return nil, fmt.Errorf("frame length %d: %d to %d is allowed", n, minFrame, c.opts.MaxFrame)
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(in, frame); err != nil {
		return nil, fmt.Errorf("frame of %d bytes: %w", n, err)
	}
	cmd := new(remoting.Command)
	if err := cmd.Decode(frame); err != nil {
		return nil, err
	}
	return cmd, nil
}

// answered tells a request its answer. An answer that nobody waits for any more is dropped.
func (c *Client) answered(cmd *remoting.Command) {
	cl := c.take(cmd.Opaque)
	if cl != nil {
		c.end(cl, cmd, nil)
	}
}

func (c *Client) requested(cmd *remoting.Command) {
	opaque, form, oneway := cmd.Opaque, cmd.Serialize, cmd.IsOneway()
	var answer *remoting.Command
	if c.opts.Request != nil {
		answer = c.opts.Request(cmd)
	} else {
		answer = new(remoting.Command)
		answer.Answer(cmd, remoting.RequestCodeNotSupported)
		answer.Remark = fmt.Sprintf("client: no handler for request code %d", cmd.Code)
	}
	if answer == nil || oneway {
		return
	}
	answer.Opaque, answer.Serialize = opaque, form
	answer.Flag |= remoting.FlagResponse
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		// Without waiting for room: the goroutine that reads must never wait for the peer's reading. What the server asks for bounds it.
		_ = c.appendLocked(answer) // an answer over MaxFrame is the handler's fault and the server's timeout
	}
}

// write runs until the connection ends; frames queued while a write is under way leave together with the next one.
func (c *Client) write() {
	var spare []byte
	for {
		select {
		case <-c.wake:
		case <-c.done:
			return
		}
		c.mu.Lock()
		frames := c.out
		c.out = spare[:0]
		c.releaseRoomLocked()
		c.mu.Unlock()
		if _, err := c.conn.Write(frames); err != nil {
			c.fail(err)
			return
		}
		spare = frames
		if cap(spare) > keptWrite {
			spare = nil
		}
	}
}
