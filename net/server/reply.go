package server

import (
	"sync/atomic"

	"ringmq/net/remoting"
)

// reply implements Reply. It is pooled: a second answer is noticed as long as the reply has not been given to another request.
type reply struct {
	conn    *conn
	opaque  int32
	form    remoting.Serialize
	oneway  bool
	pending atomic.Bool
}

func (s *Server) newReply(c *conn, req *remoting.Command) *reply {
	r := s.replies.Get().(*reply)
	r.conn, r.opaque, r.form, r.oneway = c, req.Opaque, req.Serialize, req.IsOneway()
	r.pending.Store(true)
	return r
}

func (r *reply) Conn() Conn { return r.conn }

func (r *reply) Write(cmd *remoting.Command) { r.write(cmd, true) }
func (r *reply) Defer(cmd *remoting.Command) { r.write(cmd, false) }

func (r *reply) write(cmd *remoting.Command, now bool) {
	r.take()
	if !r.oneway {
		r.address(cmd)
		r.conn.write(cmd, now)
	}
	r.free()
}

func (r *reply) WriteBody(cmd *remoting.Command, pieces [][]byte, held Releaser) {
	r.take()
	if r.oneway {
		release(held)
	} else {
		r.address(cmd)
		r.conn.writeBody(cmd, pieces, held)
	}
	r.free()
}

func (r *reply) take() {
	if !r.pending.CompareAndSwap(true, false) {
		panic("BUG: server: request answered twice")
	}
}

func (r *reply) free() {
	s := r.conn.server
	r.conn = nil
	s.replies.Put(r)
}

// address makes cmd the answer to this request.
func (r *reply) address(cmd *remoting.Command) {
	cmd.Opaque, cmd.Serialize = r.opaque, r.form
	cmd.Flag |= remoting.FlagResponse
}
