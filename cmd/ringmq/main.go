// Command ringmq is a message storage server that RocketMQ's clients, tools and brokers work with unchanged: broker, name server and
// their tools in one binary.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// version is set by the build for a release.
var version = "0.1.0-dev"

// usageError ends the program with code 2: the command line or the configuration is wrong, nothing has been touched.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	err := rootCommand().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "ringmq:", err)
	var usage usageError
	if errors.As(err, &usage) {
		os.Exit(2)
	}
	os.Exit(1)
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "ringmq",
		Short:         "A message storage server for RocketMQ clients",
		Version:       version + " " + revision(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(serverCommand(), namesrvCommand(), storeCommand())
	return root
}

// knownCommand refuses what follows a command that only has commands below it.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("unknown command %q; see %s --help", args[0], cmd.CommandPath())}
	}
	return nil
}

// flagError says of a flag's value what is allowed; pflag would name the Go function that did not take it.
func flagError(_ *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return usageError{err}
	}
	allowed := "a whole number"
	if invalid.GetFlag().Value.Type() == "bool" {
		allowed = "true or false"
	}
	return usageError{fmt.Errorf("--%s=%s: allowed is %s", invalid.GetFlag().Name, invalid.GetValue(), allowed)}
}

// revision is the commit that the binary was built from, as far as the build knows it.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(len(s.Value), 12)]
		}
	}
	return info.GoVersion
}
