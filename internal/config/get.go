package config

import (
	"maps"
	"strconv"
)

// clone is a copy whose values may be put anew.
func (v *Values) clone() *Values {
	return &Values{Warnings: v.Warnings, values: maps.Clone(v.values)}
}

func (v *Values) put(name, text, source string) {
	value := v.value(name)
	v.values[name] = &Value{Key: value.Key, Text: text, Source: source}
}

func (v *Values) value(name string) *Value {
	value := v.values[name]
	if value == nil {
		panic("BUG: config: no key " + name)
	}
	return value
}

// Text returns the value of a key.
func (v *Values) Text(name string) string { return v.value(name).Text }

// Int returns the value of an Int key.
func (v *Values) Int(name string) int64 {
	n, err := strconv.ParseInt(v.value(name).Text, 10, 64)
	if err != nil {
		panic("BUG: config: " + name + " has no number")
	}
	return n
}

// Bool returns the value of a Bool key.
func (v *Values) Bool(name string) bool { return v.value(name).Text == "true" }
