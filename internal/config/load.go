package config

import (
	_ "embed"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"

	"ringmq/internal/properties"
)

// originalNames has the names of all settings of the Java broker (4.9.7 and 5.5.0), a line each.
//
//go:embed original.txt
var originalNames string

// Value is one effective setting.
type Value struct {
	Key    *Key
	Text   string
	Source string // "default", "file PATH line …", "--set", "environment …"
}

// Values is a complete set of settings.
type Values struct {
	Warnings []string // one line each, for the log
	values   map[string]*Value
}

// Setting is a name and a value from one source, later ones win.
type Setting struct{ Name, Text, Source string }

// File reads a Java properties file: `=` or `:`, continuation lines, \u escapes; the last of two equal names wins. `${…}` is not replaced.
func File(path string) ([]Setting, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("config: file given by -c: %w", err)
	}
	settings, err := parse(raw, "file "+path)
	if err != nil {
		return nil, fmt.Errorf("config: file %s: %w", path, err)
	}
	return settings, nil
}

// parse reads the text of a properties file. Of two equal names the last one counts.
func parse(text []byte, source string) ([]Setting, error) {
	pairs, err := properties.Parse(text)
	if err != nil {
		return nil, err
	}
	settings := make([]Setting, 0, len(pairs))
	at := make(map[string]int, len(pairs))
	for _, p := range pairs {
		s := Setting{p.Key, p.Value, source}
		if i, twice := at[p.Key]; twice {
			settings[i] = s
			continue
		}
		at[p.Key] = len(settings)
		settings = append(settings, s)
	}
	return settings, nil
}

// Flag reads the key=value of --set.
func Flag(arg string) (Setting, error) {
	name, text, ok := strings.Cut(arg, "=")
	if !ok || strings.TrimSpace(name) == "" {
		return Setting{}, fmt.Errorf("config: --set %s: allowed is key=value", arg)
	}
	return Setting{strings.TrimSpace(name), text, "--set"}, nil
}

// Server makes the settings of a broker.
func Server(settings []Setting) (*Values, error) {
	v, err := load(serverKeys, settings)
	if err != nil {
		return nil, err
	}
	return v, v.derive()
}

// Namesrv makes the settings of a name server.
func Namesrv(settings []Setting) (*Values, error) { return load(namesrvKeys, settings) }

// byName finds a key by each of its names.
func byName(keys []Key) map[string]*Key {
	names := make(map[string]*Key, len(keys))
	for i := range keys {
		k := &keys[i]
		names[k.Name] = k
		for _, alias := range k.Aliases {
			names[alias] = k
		}
	}
	return names
}

func isOriginal(name string) bool { return slices.Contains(strings.Fields(originalNames), name) }

func load(keys []Key, settings []Setting) (*Values, error) {
	v := &Values{values: make(map[string]*Value, len(keys))}
	for i := range keys {
		k := &keys[i]
		v.values[k.Name] = &Value{Key: k, Text: k.Default, Source: "default"}
	}
	byName := byName(keys)
	for _, s := range settings {
		if k := byName[s.Name]; k != nil {
			text, err := k.check(s.Text)
			if err != nil {
				return nil, fmt.Errorf("%w (%s)", err, s.Source)
			}
			v.values[k.Name] = &Value{Key: k, Text: text, Source: s.Source}
			continue
		}
		if err := refused(s); err != nil {
			return nil, err
		}
		if isOriginal(s.Name) {
			v.warn("%s=%s (%s) is a setting of RocketMQ that has no effect here", s.Name, s.Text, s.Source)
		} else {
			v.warn("%s=%s (%s) is not a known setting", s.Name, s.Text, s.Source)
		}
	}
	return v, nil
}

func refused(s Setting) error {
	for _, r := range refusals {
		if r.name == s.Name && strings.TrimSpace(s.Text) != r.harmless {
			return fmt.Errorf("config: %s=%s (%s): %s; allowed is only '%s'", s.Name, s.Text, s.Source, r.why, r.harmless)
		}
	}
	return nil
}

func (v *Values) warn(format string, args ...any) {
	v.Warnings = append(v.Warnings, fmt.Sprintf(format, args...))
}

// All returns every setting, sorted by name.
func (v *Values) All() []*Value {
	all := make([]*Value, 0, len(v.values))
	for _, value := range v.values {
		all = append(all, value)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Key.Name < all[j].Key.Name })
	return all
}

// String is the effective result with where each value came from, as --printConfig shows it; it reads as a properties file.
func (v *Values) String() string {
	var b strings.Builder
	for _, value := range v.All() {
		fmt.Fprintf(&b, "# %s (%s)\n%s", value.Key.Meaning, value.Source, properties.Append(nil, value.Key.Name, value.Text))
	}
	return b.String()
}
