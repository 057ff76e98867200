package server

import "ringmq/net/remoting"

const (
	// maxIOV is the most pieces one writev takes; gnet does not cut.
	maxIOV = 1024
	// copyBelow is the size of a body that is copied at once: cheaper than a piece of its own in writev and a hold for long.
	copyBelow = 4 << 10
	// keptBatch is the largest buffer of a batch that is kept for reuse.
	keptBatch = 256 << 10
	// smallPiece and fewPieces: with bytes waiting, gnet copies every piece into a node of a list that it walks for each write.
	// More pieces than few of less than small bytes on average are therefore joined before.
	smallPiece = 4 << 10
	fewPieces  = 16
)

// batch is what waits to be given to gnet for one connection, in order.
type batch struct {
	bytes  []byte
	pieces [][]byte
	bodies []body
}

// body stands between two bytes of a batch.
type body struct {
	at         int // behind that many bytes of the batch
	first, end int // pieces[first:end]
	held       Releaser
}

func (c *conn) batchLocked() *batch {
	if c.out == nil {
		c.out = c.server.batches.Get().(*batch)
	}
	return c.out
}

func (c *conn) takeLocked() *batch {
	b := c.out
	c.out, c.queued = nil, 0
	return b
}

// markLocked tells what has to be done, after mu is released, so that the loop flushes c: to list it, to post. While the loop
// is handling c it will flush it anyway.
func (c *conn) markLocked() (mark, post bool) {
	if c.handling || c.closed {
		return false, false
	}
	mark = !c.dirty
	c.dirty = true
	return mark, true
}

func (c *conn) wake(mark, post bool) {
	if mark {
		c.loop.mark(c)
	}
	if post {
		c.loop.post()
	}
}

// write queues a frame, to be sent at once or with the next Kick; false when the connection has ended.
func (c *conn) write(cmd *remoting.Command, now bool) bool {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return false
	}
	b := c.batchLocked()
	before := len(b.bytes)
	b.bytes = cmd.AppendFrame(b.bytes)
	c.queued += len(b.bytes) - before
	c.accountLocked(accountSlack)
	mark, post := c.markLocked()
	c.mu.Unlock()
	c.wake(mark, post && now)
	return true
}

// writeBody queues a frame with a body of pieces. It sees to it that held is released once.
func (c *conn) writeBody(cmd *remoting.Command, pieces [][]byte, held Releaser) {
	total := 0
	for _, p := range pieces {
		total += len(p)
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		release(held)
		return
	}
	b := c.batchLocked()
	before := len(b.bytes)
	b.bytes = cmd.AppendHead(b.bytes, total)
	c.queued += len(b.bytes) - before + total
	if total <= copyBelow {
		for _, p := range pieces {
			b.bytes = append(b.bytes, p...)
		}
	} else {
		first := len(b.pieces)
		b.pieces = append(b.pieces, pieces...)
		b.bodies = append(b.bodies, body{at: len(b.bytes), first: first, end: len(b.pieces), held: held})
	}
	c.accountLocked(accountSlack)
	mark, post := c.markLocked()
	c.mu.Unlock()
	if total <= copyBelow {
		release(held)
	}
	c.wake(mark, post)
}

// flushListed sends what is queued because c was in its loop's list.
func (c *conn) flushListed() {
	c.mu.Lock()
	c.dirty = false
	b := c.takeLocked()
	c.mu.Unlock()
	c.hand(b)
}

func (c *conn) flush() {
	c.mu.Lock()
	b := c.takeLocked()
	c.mu.Unlock()
	c.hand(b)
}

// hand gives a batch, which may be nil, to gnet and ends the connection when that is wished. Called on the loop.
func (c *conn) hand(b *batch) {
	if b != nil {
		c.send(b)
		c.release(b)
	}
	c.settle()
}

// send writes a batch. gnet writes at once what the socket takes and copies the rest, so that all pieces are free when it
// returns. A write that fails ends the connection from within.
func (c *conn) send(b *batch) {
	if c.gone {
		return
	}
	if len(b.bodies) == 0 {
		_, _ = c.socket.Write(b.bytes)
		return
	}
	iov, from := c.loop.iov[:0], 0
	for _, body := range b.bodies {
		if body.at > from {
			iov = append(iov, b.bytes[from:body.at])
			from = body.at
		}
		iov = append(iov, b.pieces[body.first:body.end]...)
	}
	if from < len(b.bytes) {
		iov = append(iov, b.bytes[from:])
	}
	if !c.sendJoined(iov) {
		for rest := iov; len(rest) > 0 && !c.gone; {
			n := min(len(rest), maxIOV)
			_, _ = c.socket.Writev(rest[:n])
			rest = rest[n:]
		}
	}
	clear(iov)
	c.loop.iov = iov
}

// sendJoined copies many small pieces into one when gnet would copy them anyway.
func (c *conn) sendJoined(iov [][]byte) bool {
	if len(iov) <= fewPieces || c.socket.OutboundBuffered() == 0 {
		return false
	}
	total := 0
	for _, p := range iov {
		total += len(p)
	}
	if total > len(iov)*smallPiece {
		return false
	}
	joined := c.loop.buffers.get(total)
	for _, p := range iov {
		joined = append(joined, p...)
	}
	_, _ = c.socket.Write(joined)
	c.loop.buffers.put(joined)
	return true
}

// release gives back everything a batch holds, and the batch.
func (c *conn) release(b *batch) {
	for i := range b.bodies {
		release(b.bodies[i].held)
	}
	clear(b.bodies)
	clear(b.pieces)
	b.bytes, b.pieces, b.bodies = b.bytes[:0], b.pieces[:0], b.bodies[:0]
	if cap(b.bytes) > keptBatch {
		b.bytes = nil
	}
	c.server.batches.Put(b)
}

func release(held Releaser) {
	if held != nil {
		held.Release()
	}
}
