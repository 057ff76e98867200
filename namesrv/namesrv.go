// Package namesrv is the name server: brokers register with it and say which topics they have, clients ask it who has a topic. It
// runs within the broker's process or alone. It keeps everything in memory, for brokers tell it all again every 30 seconds; only the
// operators' key-value table has a file.
package namesrv

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"ringmq/internal/clock"
	"ringmq/net/server"
)

// DefaultAddress is where name servers listen.
const DefaultAddress = "127.0.0.1:9876"

// Options of a name server; zero values mean the defaults.
type Options struct {
	// Address is where Listen listens: DefaultAddress.
	Address string
	// KVPath is the file of the key-value table, of the same form as the original's kvConfig.json. Empty: the table is lost at the end.
	KVPath string
	// Settings are keys of the original's name server configuration; one that is unknown or not possible here is an error.
	Settings map[string]string
	Logger   *slog.Logger // nil: no log
	// Now counts milliseconds from any moment and never steps; brokers live by it. Nil: a monotonic clock.
	Now func() int64
}

func (o Options) withDefaults() Options {
	if o.Address == "" {
		o.Address = DefaultAddress
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = clock.Elapsed()
	}
	return o
}

// NameServer is a Server with a port of its own.
type NameServer struct {
	*Server
	front    *server.Server
	stopOnce sync.Once
	stop     chan struct{}
	scanning sync.WaitGroup
}

// Listen starts a name server, which answers when it returns. A taken port is an error that names the address.
func Listen(o Options) (*NameServer, error) {
	o = o.withDefaults()
	s, err := New(o)
	if err != nil {
		return nil, err
	}
	front, err := server.Listen(server.Options{Addresses: []string{o.Address}, Handler: s, Logger: o.Logger})
	if err != nil {
		return nil, fmt.Errorf("namesrv: %w", err)
	}
	n := &NameServer{Server: s, front: front, stop: make(chan struct{})}
	s.settings.setPort(n.Addr().Port())
	n.scanning.Go(n.scan)
	return n, nil
}

// Addr is where it listens, with the port that was really taken.
func (n *NameServer) Addr() netip.AddrPort { return n.front.Addrs()[0] }

func (n *NameServer) scan() {
	ticker := time.NewTicker(scanIntervalMS * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			n.Expire()
		case <-n.stop:
			return
		}
	}
}

// Close stops accepting, lets open answers go and closes all connections. It may be called more than once.
func (n *NameServer) Close(ctx context.Context) error {
	n.stopOnce.Do(func() {
		close(n.stop)
		n.front.StopAccepting()
	})
	n.scanning.Wait()
	err := n.front.Close(ctx)
	n.saving.Wait() // nothing handles requests any more, so no save is added
	return err
}
