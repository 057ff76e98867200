package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"ringmq/broker"
	"ringmq/broker/topic"
	"ringmq/internal/config"
	"ringmq/net/server"
)

func serverCommand() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "server [-c broker.conf] [-n namesrv:9876] [--set key=value]...",
		Short: "Run a broker; without a name server named, also an embedded one",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sources, err := f.sources()
			if err != nil {
				return usageError{err}
			}
			sources.Check = check
			settings, err := config.Open(sources)
			if err != nil {
				return usageError{err}
			}
			if f.show(settings.Values(), settings.Damage()) {
				return nil
			}
			return runServer(cmd.Context(), settings, newLogger(), os.Stdout)
		},
	}
	f.register(cmd)
	cmd.Flags().StringVarP(&f.nameServers, "namesrvAddr", "n", "", "name `servers`, host:port separated by ';'")
	return cmd
}

// runServer starts every part, waits for the end of ctx and stops them in the opposite order.
func runServer(ctx context.Context, settings *config.Live, logger *slog.Logger, out io.Writer) (err error) {
	begun, v := time.Now(), settings.Values()
	for _, line := range v.Warnings {
		logger.Warn(line)
	}
	if err := check(v); err != nil {
		return usageError{err}
	}
	names, err := nameServers(v, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, names.stop()) }()

	live := newTuning(v)
	b, err := broker.Open(brokerOptions(settings, live, names.addresses, logger))
	if err != nil {
		return err
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		err = errors.Join(err, b.Close(stopping))
		logger.Info("stopped")
	}()
	if ctx.Err() != nil {
		return nil // told to stop while the store was recovering
	}
	if err := settings.Own(logger.With("part", "config")); err != nil {
		return err
	}
	settings.Follow(func(v *config.Values) {
		set := live.use(v)
		b.Change(set.policy, set.limits)
	})
	if err := b.Start(); err != nil {
		return fmt.Errorf("listenPort=%d, bindAddress=%s: %w", v.Int("listenPort"), v.Text("bindAddress"), err)
	}
	defer serveHTTP(v, b, logger)()

	printBanner(out, v, b, names, time.Since(begun))
	<-ctx.Done()
	logger.Info("stopping")
	return nil
}

// address joins a setting with a host and one with a port.
func address(v *config.Values, host, port string) string {
	return net.JoinHostPort(v.Text(host), v.Text(port))
}

// fastPort takes everything but pulls; slaves and clients with the VIP channel use it.
func fastPort(v *config.Values) int64 { return v.Int("listenPort") - 2 }

// checkPorts finds two parts that would take the same port.
func checkPorts(v *config.Values) error {
	taken := map[int64]string{v.Int("listenPort"): "listenPort", fastPort(v): "listenPort-2 (the fast port)"}
	others := []string{"haListenPort"}
	if len(v.NameServers()) == 0 {
		others = append(others, "ringmq.namesrvListenPort")
	}
	for _, name := range others {
		if by := taken[v.Int(name)]; by != "" {
			return fmt.Errorf("config: %s=%d: %s has that port; allowed is another one", name, v.Int(name), by)
		}
		taken[v.Int(name)] = name
	}
	return nil
}

// check finds what is wrong with settings that are good one by one.
func check(v *config.Values) error {
	for _, check := range []func(*config.Values) error{checkPorts, checkTraceTopic, checkStore} {
		if err := check(v); err != nil {
			return err
		}
	}
	return nil
}

func checkStore(v *config.Values) error {
	return storeOptions(v, newTuning(v), slog.New(slog.DiscardHandler)).Validate()
}

func brokerOptions(settings *config.Live, t *tuning, names []string, logger *slog.Logger) broker.Options {
	v := settings.Values()
	listen := func(port int64) string {
		return net.JoinHostPort(v.Text("bindAddress"), strconv.FormatInt(port, 10))
	}
	ms := func(name string) time.Duration { return time.Duration(v.Int(name)) * time.Millisecond }
	return broker.Options{
		Cluster:     v.Text("brokerClusterName"),
		Name:        v.Text("brokerName"),
		ID:          v.Int("brokerId"),
		Address:     address(v, "brokerIP1", "listenPort"),
		HAAddress:   address(v, "brokerIP2", "haListenPort"),
		NameServers: names,

		RegisterPeriod:     ms("registerNameServerPeriod"),
		RegisterTimeout:    ms("registerBrokerTimeoutMills"),
		SaveOffsetsEvery:   ms("flushConsumerOffsetInterval"),
		ClientExpiry:       ms("channelExpiredTimeout"),
		DefaultTopicQueues: int32(v.Int("defaultTopicQueueNums")),
		NoClusterTopic:     !v.Bool("clusterTopicEnable"),
		NoBrokerTopic:      !v.Bool("brokerTopicEnable"),
		Region:             v.Text("regionId"),
		TraceTopic:         traceTopic(v),
		FastPort:           uint16(fastPort(v)),
		Version:            "ringmq " + version,
		Settings:           settings,
		Policy:             t.set.Load().policy,
		Logger:             logger.With("part", "broker"),
		Engine:             storeOptions(v, t, logger),
		Server: server.Options{
			Addresses:      []string{listen(v.Int("listenPort")), listen(fastPort(v))},
			Loops:          int(v.Int("ringmq.eventLoops")),
			MaxConnections: int(v.Int("ringmq.maxConnections")),
			IdleTimeout:    time.Duration(v.Int("serverChannelMaxIdleTimeSeconds")) * time.Second,
			OutboundLimit:  int(v.Int("ringmq.outboundLimit")),
			MemoryLimit:    v.Int("ringmq.memoryLimit"),
			Logger:         logger.With("part", "server"),
		},
	}
}

// traceTopic is the topic for the clients' message traces, "" when there is none.
func traceTopic(v *config.Values) string {
	if !v.Bool("traceTopicEnable") {
		return ""
	}
	return v.Text("msgTraceTopicName")
}

func checkTraceTopic(v *config.Values) error {
	if name := traceTopic(v); name != "" || v.Bool("traceTopicEnable") {
		if err := topic.CheckName(name); err != nil {
			return fmt.Errorf("config: msgTraceTopicName=%s: %w", name, err)
		}
	}
	return nil
}
