package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// enrollments is how many accepted connections per listener may wait for their loop. A loop takes new ones between two rounds
// of events, so a crowd that reconnects would otherwise get in one per round.
const enrollments = 64

const (
	acceptPauseMin = 5 * time.Millisecond
	acceptPauseMax = time.Second
)

func (s *Server) bind() error {
	lc := net.ListenConfig{Control: s.listenerOptions}
	lc.SetMultipathTCP(false)
	for _, address := range s.opts.Addresses {
		l, err := lc.Listen(context.Background(), "tcp", address)
		if err != nil {
			s.closeListeners()
			return fmt.Errorf("server: %w", err) // which names the address
		}
		s.listeners = append(s.listeners, l)
	}
	return nil
}

// listenerOptions sets what accepted sockets inherit. A peer that vanished or does not take our bytes would otherwise hold
// them for a quarter of an hour, the kernel's limit of retransmissions, or for ever when only its window is closed.
func (s *Server) listenerOptions(_, _ string, raw syscall.RawConn) error {
	var err error
	ctlErr := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(s.opts.IdleTimeout.Milliseconds()))
	})
	return errors.Join(ctlErr, err)
}

func (s *Server) closeListeners() {
	for _, l := range s.listeners {
		_ = l.Close() // it has no bytes to lose
	}
}

// accept takes connections until the listener is closed. An error of accept itself is one of the machine (no descriptors, no
// memory), never a reason to stop serving the connections there are.
func (s *Server) accept(l net.Listener) {
	places := make(chan struct{}, enrollments)
	pause := acceptPauseMin
	for {
		nc, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			s.noise.warn("server: accept failed", "address", l.Addr().String(), "connections", s.open.Load(), "error", err)
			if !s.pauseAccept(pause) {
				return
			}
			pause = min(2*pause, acceptPauseMax)
			continue
		}
		pause = acceptPauseMin
		if limit := int64(s.opts.MaxConnections); limit > 0 && s.open.Load() >= limit {
			s.refused.Add(1)
			s.noise.warn("server: connection refused", "remote", nc.RemoteAddr().String(), "limit", limit)
			_ = nc.Close()
			continue
		}
		s.open.Add(1)
		places <- struct{}{}
		s.accepting.Go(func() {
			s.enroll(nc)
			<-places
		})
	}
}

func (s *Server) pauseAccept(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.stop:
		return false
	}
}

// enroll gives nc to the loop with the fewest connections and returns when it is open there. gnet duplicates the descriptor
// and closes nc in any case.
func (s *Server) enroll(nc net.Conn) {
	c := s.newConn(nc)
	forgetZone(nc.RemoteAddr())
	forgetZone(nc.LocalAddr())
	_, err := s.engine.EnrollContext(nc, c)
	if err == nil && c.loop == nil { // gnet does not tell that epoll refused the descriptor
		err = errors.New("not taken by its event loop")
	}
	if err != nil {
		s.open.Add(-1)
		s.refused.Add(1)
		s.noise.warn("server: connection refused", "remote", c.remote.String(), "connections", s.open.Load(), "error", err)
	}
}

// forgetZone takes the zone out of an address that gnet will keep. At the end of a connection gnet puts the memory of its zones
// into a pool of buffers, as if it had made them; those of package net are strings shared by the whole process.
func forgetZone(a net.Addr) {
	if t, ok := a.(*net.TCPAddr); ok {
		t.Zone = ""
	}
}
