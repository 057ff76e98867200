// Package config knows every key of a broker.conf: name, kind, range, default and meaning stand in one table, which drives
// parsing, checking and --printConfig. It reads files and flags; what a value does is its user's affair.
package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Kind is how a value is written.
type Kind uint8

// The kinds of values.
const (
	Text Kind = iota
	Int
	Bool
	Choice  // one of Key.Allowed
	Address // host:port, or `off`
)

// Key is one setting.
type Key struct {
	Name    string
	Aliases []string // other spellings that mean the same
	Kind    Kind
	Default string // "" when it depends on other settings
	Min     int64  // of an Int
	Max     int64  // of an Int; 0 means no upper limit
	Allowed []string
	Meaning string
}

// check returns value as it is kept, or an error that says what is allowed.
func (k *Key) check(value string) (string, error) {
	value = strings.TrimSpace(value)
	if strings.ContainsFunc(value, unicode.IsControl) {
		return "", fmt.Errorf("config: %s=%.200q: allowed is %s", k.Name, value, k.allowed())
	}
	switch k.Kind {
	case Int:
		n, err := strconv.ParseInt(value, 10, 64)
		upper := k.Max
		if upper == 0 {
			upper = math.MaxInt64
		}
		if err != nil || n < k.Min || n > upper {
			return "", fmt.Errorf("config: %s=%s: allowed is %s", k.Name, value, k.allowed())
		}
		return strconv.FormatInt(n, 10), nil
	case Bool:
		// java.lang.Boolean reads everything but "true" as false; a typing error must not switch something off.
		if v := strings.ToLower(value); v == "true" || v == "false" {
			return v, nil
		}
		return "", fmt.Errorf("config: %s=%s: allowed is %s", k.Name, value, k.allowed())
	case Choice:
		if slices.Contains(k.Allowed, value) {
			return value, nil
		}
		return "", fmt.Errorf("config: %s=%s: allowed is %s", k.Name, value, k.allowed())
	case Address:
		if value == "off" {
			return value, nil
		}
		host, port, ok := cutPort(value)
		if !ok || host == "" || port < 0 {
			return "", fmt.Errorf("config: %s=%s: allowed is %s", k.Name, value, k.allowed())
		}
	}
	return value, nil
}

func (k *Key) allowed() string {
	switch k.Kind {
	case Int:
		if k.Max == 0 {
			return fmt.Sprintf("a whole number from %d", k.Min)
		}
		return fmt.Sprintf("a whole number from %d to %d", k.Min, k.Max)
	case Bool:
		return "true or false"
	case Choice:
		return strings.Join(k.Allowed, " or ")
	case Address:
		return "host:port or off"
	}
	return "text without control characters"
}

func cutPort(address string) (host string, port int, ok bool) {
	i := strings.LastIndexByte(address, ':')
	if i < 0 {
		return "", 0, false
	}
	n, err := strconv.ParseUint(address[i+1:], 10, 16)
	return address[:i], int(n), err == nil
}
