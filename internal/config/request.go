package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

var (
	// ErrBad is wrapped by the refusal of a change whose key or value is not one.
	ErrBad = errors.New("not changed")
	// ErrFixed is wrapped by the refusal of a change of a key that no request may change.
	ErrFixed = errors.New("not changed by request")
)

const (
	maxRequest = 64 << 10 // bytes of a request
	maxText    = 4 << 10  // bytes of a value
	maxTold    = 8        // faults named in one answer
)

// requested reads the text of a request. The names of what it returns are those of keys, their values are good by themselves, and
// a request may change them. The error names each bad one: key, value, what is allowed.
func requested(text []byte) ([]Setting, error) {
	if len(text) > maxRequest {
		return nil, fmt.Errorf("config: the request has %d bytes, allowed are %d: %w", len(text), maxRequest, ErrBad)
	}
	asked, err := parse(text, overridesSource)
	if err != nil {
		return nil, fmt.Errorf("config: the request is no properties text: %w: %w", err, ErrBad)
	}
	if len(asked) == 0 {
		return nil, fmt.Errorf("config: the request names no key, allowed are lines of key=value: %w", ErrBad)
	}
	keys := byName(serverKeys)
	var faults []error
	for i := range asked {
		if asked[i], err = changeable(keys, asked[i]); err != nil {
			if faults = append(faults, err); len(faults) == maxTold {
				break
			}
		}
	}
	return asked, errors.Join(faults...)
}

// changeable returns s with the name and the value that its key has for it.
func changeable(keys map[string]*Key, s Setting) (Setting, error) {
	k := keys[s.Name]
	if k == nil {
		return s, unknown(s)
	}
	if c := changes[k.Name]; c.when == never {
		return s, fmt.Errorf("config: %s=%.200q cannot be changed while the broker runs, for %s; allowed is another value in the file or by --set at a start: %w",
			k.Name, s.Text, c.why, ErrFixed)
	}
	if len(s.Text) > maxText {
		return s, fmt.Errorf("config: %s=%.40q… has %d bytes, allowed are %d: %w", k.Name, s.Text, len(s.Text), maxText, ErrBad)
	}
	value, err := k.check(s.Text)
	if err != nil {
		return s, fmt.Errorf("%w: %w", err, ErrBad)
	}
	return Setting{k.Name, value, s.Source}, nil
}

// unknown says why a name that is no key cannot be changed.
func unknown(s Setting) error {
	i := slices.IndexFunc(refusals, func(r refusal) bool { return r.name == s.Name })
	switch {
	case i >= 0:
		return fmt.Errorf("config: %s=%.200q: %s; allowed is only '%s': %w", s.Name, s.Text, refusals[i].why, refusals[i].harmless, ErrFixed)
	case isOriginal(s.Name):
		return fmt.Errorf("config: %s=%.200q: a setting of RocketMQ that has no effect here; allowed are the keys that GET_BROKER_CONFIG shows: %w",
			s.Name, s.Text, ErrBad)
	}
	return fmt.Errorf("config: %.200q=%.200q: not a known setting; allowed are the keys that GET_BROKER_CONFIG shows: %w", s.Name, s.Text, ErrBad)
}

// outcome is what a request has brought about.
type outcome struct{ now, restart, shadowed []string }

func (o *outcome) add(s Setting, c change, source string) {
	line := s.Name + "=" + s.Text
	switch {
	case source != "":
		o.shadowed = append(o.shadowed, line+" ("+source+")")
	case c.when == now:
		o.now = append(o.now, line)
	default:
		o.restart = append(o.restart, line)
	}
}

// String is the answer's remark.
func (o *outcome) String() string {
	var parts []string
	for _, p := range []struct {
		what  string
		lines []string
	}{
		{"in effect now: ", o.now},
		{"in effect after a restart: ", o.restart},
		{"in effect now, but after a restart the command line wins: ", o.shadowed},
	} {
		if len(p.lines) > 0 {
			parts = append(parts, p.what+strings.Join(p.lines, ", "))
		}
	}
	return strings.Join(parts, "; ")
}
