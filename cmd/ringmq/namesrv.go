package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"ringmq/internal/config"
	"ringmq/namesrv"
)

// stopTimeout bounds how long a stop waits for answers under way.
const stopTimeout = 5 * time.Second

func namesrvCommand() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "namesrv [-c namesrv.conf] [--set key=value]...",
		Short: "Run a name server alone",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sources, err := f.sources()
			if err != nil {
				return usageError{err}
			}
			values, err := config.Namesrv(slices.Concat(sources.Below, sources.Above))
			if err != nil {
				return usageError{err}
			}
			if f.show(values) {
				return nil
			}
			return runNamesrv(cmd.Context(), values)
		},
	}
	f.register(cmd)
	return cmd
}

// noArguments is cobra.NoArgs with the exit code of wrong usage.
func noArguments(cmd *cobra.Command, args []string) error {
	if err := cobra.NoArgs(cmd, args); err != nil {
		return usageError{err}
	}
	return nil
}

func runNamesrv(ctx context.Context, v *config.Values) error {
	logger := newLogger()
	for _, line := range v.Warnings {
		logger.Warn(line)
	}
	s, err := namesrv.Listen(namesrv.Options{
		Address: net.JoinHostPort(v.Text("bindAddress"), v.Text("listenPort")),
		KVPath:  v.Text("kvConfigPath"),
		Logger:  logger,
	})
	if err != nil {
		return fmt.Errorf("listenPort=%s, bindAddress=%s: %w", v.Text("listenPort"), v.Text("bindAddress"), err)
	}
	fmt.Println("The Name Server boot success. serializeType=JSON, address", s.Addr())
	<-ctx.Done()
	stopping, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return s.Close(stopping)
}
