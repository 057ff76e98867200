package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"ringmq/internal/config"
	"ringmq/namesrv"
	"ringmq/net/client"
	"ringmq/net/remoting"
)

// names are the name servers that the broker registers with.
type names struct {
	addresses []string
	embedded  *namesrv.NameServer // one of them, if it runs in this process
}

// stop ends the embedded one.
func (n names) stop() error {
	if n.embedded == nil {
		return nil
	}
	stopping, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return n.embedded.Close(stopping)
}

// nameServers are those that the settings name, else an embedded one. When the port of the embedded one is taken by a name server, that one
// is used.
func nameServers(v *config.Values, logger *slog.Logger) (names, error) {
	if named := v.NameServers(); len(named) > 0 {
		return names{addresses: named}, nil
	}
	at := address(v, "bindAddress", "ringmq.namesrvListenPort")
	reached := address(v, "brokerIP1", "ringmq.namesrvListenPort")
	s, err := namesrv.Listen(namesrv.Options{Address: at, Logger: logger.With("part", "namesrv")})
	if err != nil {
		if isNameServer(reached) {
			logger.Info("the port of the embedded name server is taken by a name server, which is used", "address", reached)
			return names{addresses: []string{reached}}, nil
		}
		return names{}, fmt.Errorf("ringmq.namesrvListenPort=%s: %w; set another port, or name a name server with -n",
			v.Text("ringmq.namesrvListenPort"), err)
	}
	return names{addresses: []string{reached}, embedded: s}, nil
}

// isNameServer tells whether what listens at address answers the question for the cluster's brokers.
func isNameServer(address string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, client.Options{Address: address})
	if err != nil {
		return false
	}
	defer c.Close()
	answer, err := c.Call(ctx, &remoting.Command{Code: remoting.GetBrokerClusterInfo})
	return err == nil && answer.Code == remoting.Success
}
