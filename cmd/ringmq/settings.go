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

// sources gathers environment and file, and above them -n and --set; later ones win.
func (f *flags) sources() (s config.Sources, err error) {
	if address := os.Getenv("NAMESRV_ADDR"); address != "" {
		s.Below = append(s.Below, config.Setting{Name: "namesrvAddr", Text: address, Source: "environment NAMESRV_ADDR"})
	}
	if f.file != "" {
		fromFile, err := config.File(f.file)
		if err != nil {
			return s, err
		}
		s.Below = append(s.Below, fromFile...)
	}
	if f.nameServers != "" {
		s.Above = append(s.Above, config.Setting{Name: "namesrvAddr", Text: f.nameServers, Source: "-n"})
	}
	for _, arg := range f.set {
		set, err := config.Flag(arg)
		if err != nil {
			return s, err
		}
		s.Above = append(s.Above, set)
	}
	return s, nil
}

// show serves --printConfig, and tells whether it was asked for.
func (f *flags) show(v *config.Values, more ...error) bool {
	if !f.print {
		return false
	}
	fmt.Print(v)
	for _, line := range v.Warnings {
		fmt.Fprintln(os.Stderr, "warning:", line)
	}
	for _, err := range more {
		if err != nil {
			fmt.Fprintln(os.Stderr, "warning:", err)
		}
	}
	return true
}

// newLogger writes to stderr; stdout is for the banner.
func newLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, nil))
}
