package dispatch

import (
	"fmt"
	"strconv"
	"strings"
)

// DefaultDelays are the levels of RocketMQ's messageDelayLevel.
const DefaultDelays = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

// Delays are the delay levels: index 0 is level 1, values in ms.
type Delays []int64

// ParseDelays reads levels as in messageDelayLevel: numbers with a unit of s, m, h or d, parted by blanks.
func ParseDelays(levels string) (Delays, error) {
	units := map[byte]int64{'s': 1000, 'm': 60_000, 'h': 3_600_000, 'd': 86_400_000}
	var delays Delays
	for _, level := range strings.Fields(levels) {
		unit, known := units[level[len(level)-1]]
		n, err := strconv.ParseInt(level[:len(level)-1], 10, 32)
		if !known || err != nil || n < 0 {
			return nil, fmt.Errorf("dispatch: delay level %d is %q, must be a number and one of s, m, h, d", len(delays)+1, level)
		}
		delays = append(delays, n*unit)
	}
	if len(delays) == 0 {
		return nil, fmt.Errorf("dispatch: delay levels are %q, at least one is needed", levels)
	}
	return delays, nil
}

// Of is the length of a level; one above the highest counts as the highest, as in the original.
func (d Delays) Of(level int) int64 { return d[min(level, len(d))-1] }
