package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"ringmq/internal/config"
)

// flags are what `server` and `namesrv` share.
type flags struct {
	file        string
	nameServers string
	set         []string
	print       bool
}

func (f *flags) register(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.file, "config", "c", "", "properties `file`, as of Apache RocketMQ")
	cmd.Flags().StringArrayVar(&f.set, "set", nil, "`key=value`, wins over the file; may be repeated")
	cmd.Flags().BoolVarP(&f.print, "printConfig", "p", false, "print the effective settings with their sources and end")
}

// settings gathers file, environment, -n and --set; later ones win.
func (f *flags) settings() ([]config.Setting, error) {
	var list []config.Setting
	if address := os.Getenv("NAMESRV_ADDR"); address != "" {
		list = append(list, config.Setting{Name: "namesrvAddr", Text: address, Source: "environment NAMESRV_ADDR"})
	}
	if f.file != "" {
		fromFile, err := config.File(f.file)
		if err != nil {
			return nil, err
		}
		list = append(list, fromFile...)
	}
	if f.nameServers != "" {
		list = append(list, config.Setting{Name: "namesrvAddr", Text: f.nameServers, Source: "-n"})
	}
	for _, arg := range f.set {
		s, err := config.Flag(arg)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// resolve makes the settings of one command; printed tells that --printConfig has been served.
func (f *flags) resolve(load func([]config.Setting) (*config.Values, error)) (values *config.Values, printed bool, err error) {
	list, err := f.settings()
	if err != nil {
		return nil, false, usageError{err}
	}
	if values, err = load(list); err != nil {
		return nil, false, usageError{err}
	}
	if f.print {
		fmt.Print(values)
		for _, line := range values.Warnings {
			fmt.Fprintln(os.Stderr, "warning:", line)
		}
		return values, true, nil
	}
	return values, false, nil
}

// newLogger writes to stderr; stdout is for the banner.
func newLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, nil))
}
