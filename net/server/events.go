package server

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/panjf2000/gnet/v2"
)

// events takes gnet's calls. All of a connection's come on its loop, one at a time.
type events struct {
	gnet.BuiltinEventEngine
	server *Server
}

// OnOpen makes the connection known to its loop.
func (e *events) OnOpen(g gnet.Conn) ([]byte, gnet.Action) {
	c := g.Context().(*conn)
	c.opened(g, e.server.loopOf(g.EventLoop()))
	return nil, gnet.None
}

// OnTraffic takes what one read brought; gnet keeps nothing of it, unfinished frames are ours to keep.
func (e *events) OnTraffic(g gnet.Conn) gnet.Action {
	c := g.Context().(*conn)
	data, _ := g.Next(-1) // all there is; it cannot fail
	c.heardAt = c.loop.now
	c.receive(data)
	return gnet.None
}

// OnClose is called exactly once, on the loop, also from inside a write of ours that failed.
func (e *events) OnClose(g gnet.Conn, err error) gnet.Action {
	g.Context().(*conn).ended(err)
	return gnet.None
}

// gnetLog sends gnet's own log to slog. What is routine for it is detail for us.
type gnetLog struct{ log *slog.Logger }

func (g gnetLog) print(level slog.Level, format string, args []any) {
	if g.log.Enabled(context.Background(), level) {
		g.log.Log(context.Background(), level, "server: gnet: "+fmt.Sprintf(format, args...))
	}
}

func (g gnetLog) Debugf(format string, args ...any) { g.print(slog.LevelDebug, format, args) }
func (g gnetLog) Infof(format string, args ...any)  { g.print(slog.LevelDebug, format, args) }
func (g gnetLog) Warnf(format string, args ...any)  { g.print(slog.LevelDebug, format, args) }
func (g gnetLog) Errorf(format string, args ...any) { g.print(slog.LevelWarn, format, args) }
func (g gnetLog) Fatalf(format string, args ...any) { g.print(slog.LevelError, format, args) }
