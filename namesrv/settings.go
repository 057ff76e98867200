package namesrv

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"ringmq/internal/properties"
)

// setting is one key of the original's name server configuration.
type setting struct {
	value  string // the default
	number bool   // a whole number that is not negative; else true or false
	effect effect
}

type effect uint8

const (
	works  effect = iota // changes what we do
	idle                 // is kept and shown, and changes nothing: what it tunes is not here
	locked               // only the default is built, or it is fixed at start
)

// knownSettings are the keys that code 318 may name and code 319 shows.
func knownSettings() map[string]setting {
	return map[string]setting{
		"orderMessageEnable":                {value: "false"},
		"returnOrderTopicConfigToBroker":    {value: "true"},
		"deleteTopicWithBrokerRegistration": {value: "false"},
		"enableAllTopicList":                {value: "true"},
		"enableTopicList":                   {value: "true"},
		"waitSecondsForService":             {value: "45", number: true, effect: idle},
		"clientRequestThreadPoolNums":       {value: "8", number: true, effect: idle},
		"defaultThreadPoolNums":             {value: "16", number: true, effect: idle},
		"scanNotActiveBrokerInterval":       {value: strconv.Itoa(scanIntervalMS), number: true, effect: locked},
		"needWaitForService":                {value: "false", effect: locked},
		"supportActingMaster":               {value: "false", effect: locked},
		"notifyMinBrokerIdChanged":          {value: "false", effect: locked},
		"clusterTest":                       {value: "false", effect: locked},
		"listenPort":                        {value: "9876", number: true, effect: locked},
	}
}

// settings are the name server's keys and values.
type settings struct {
	known map[string]setting

	mu     sync.RWMutex // guards values
	values map[string]string
}

func newSettings(given map[string]string) (*settings, error) {
	s := &settings{known: knownSettings(), values: map[string]string{}}
	for key, setting := range s.known {
		s.values[key] = setting.value
	}
	return s, s.change(given)
}

// change sets all keys or, with an error that names the first bad one, none.
func (s *settings) change(given map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if err := s.check(key, given[key]); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.values, given)
	return nil
}

func (s *settings) check(key, value string) error {
	setting, ok := s.known[key]
	if !ok {
		return fmt.Errorf("namesrv: key %q is unknown; known are %s", key, strings.Join(slices.Sorted(maps.Keys(s.known)), ", "))
	}
	if setting.number {
		if n, err := strconv.ParseUint(value, 10, 31); err != nil || strconv.FormatUint(n, 10) != value {
			return fmt.Errorf("namesrv: %s=%q: a whole number is needed", key, value)
		}
	} else if value != "true" && value != "false" {
		return fmt.Errorf("namesrv: %s=%q: true or false is needed", key, value)
	}
	if setting.effect == locked && value != s.text(key) {
		return fmt.Errorf("namesrv: %s=%s: only %s is possible here", key, value, s.text(key))
	}
	return nil
}

func (s *settings) on(key string) bool { return s.text(key) == "true" }

func (s *settings) text(key string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.values[key]
}

// setPort shows the port that was taken; nobody can change it.
func (s *settings) setPort(port uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values["listenPort"] = strconv.Itoa(int(port))
}

// appendTo writes the settings as lines of a properties file.
func (s *settings) appendTo(dst []byte) []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, key := range slices.Sorted(maps.Keys(s.values)) {
		dst = properties.Append(dst, key, s.values[key])
	}
	return dst
}

// parseProperties reads a properties file, as mqadmin sends it.
func parseProperties(text []byte) (map[string]string, error) {
	pairs, err := properties.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("namesrv: %w", err)
	}
	values := make(map[string]string, len(pairs))
	for _, p := range pairs {
		values[p.Key] = strings.TrimSpace(p.Value)
	}
	return values, nil
}
