package inspect

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ringmq/engine/message"
)

// fieldsOf names the fields in which two records differ, with both values.
func fieldsOf(a, b *message.Record, places bool) string {
	var list []string
	field := func(name string, x, y any) {
		if x != y {
			list = append(list, fmt.Sprintf("%s %v and %v", name, x, y))
		}
	}
	field("topic", string(a.Topic), string(b.Topic))
	field("queue", a.QueueID, b.QueueID)
	field("number", a.QueueOffset, b.QueueOffset)
	field("store time", timeText(a.StoreTime), timeText(b.StoreTime))
	field("store host", a.StoreHost, b.StoreHost)
	field("born time", timeText(a.BornTime), timeText(b.BornTime))
	field("born host", a.BornHost, b.BornHost)
	field("magic", fmt.Sprintf("%08x", a.Magic), fmt.Sprintf("%08x", b.Magic))
	field("flag", a.Flag, b.Flag)
	field("sysflag", a.SysFlag, b.SysFlag)
	field("reconsumed", a.ReconsumeTimes, b.ReconsumeTimes)
	if places {
		field("size", a.Size, b.Size)
		field("prepared", a.PreparedOffset, b.PreparedOffset)
	}
	if !bytes.Equal(a.Body, b.Body) {
		list = append(list, fmt.Sprintf("body of %d and %d bytes, from byte %d on", len(a.Body), len(b.Body), firstUnequal(a.Body, b.Body)))
	}
	if names := propertyNames(a.Properties, b.Properties, places); len(names) > 0 {
		list = append(list, "properties "+strings.Join(names, " "))
	}
	if len(list) == 0 && places {
		return "the order of properties"
	}
	return strings.Join(list, ", ")
}

func firstUnequal(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// propertyNames are those whose values differ, sorted. The checksum of a record covers its place.
func propertyNames(a, b []byte, places bool) (names []string) {
	if bytes.Equal(a, b) {
		return nil
	}
	x, y := propertyMap(a), propertyMap(b)
	all := maps.Clone(x)
	maps.Copy(all, y)
	for name := range all {
		if x[name] != y[name] && (places || name != message.PropertyCRC) {
			names = append(names, fmt.Sprintf("%q", name))
		}
	}
	slices.Sort(names)
	return names
}

func propertyMap(properties []byte) map[string]string {
	m := make(map[string]string)
	for name, value := range message.Properties(properties) {
		m[string(name)] = string(value)
	}
	return m
}
