// Package clock has the clock for deadlines and time-outs. The time of day is not one: it is set forward and back, by people and by
// machines.
package clock

import "time"

// Elapsed returns a clock that counts the milliseconds since the call. It never jumps, whatever happens to the time of day.
func Elapsed() func() int64 {
	start := time.Now()
	return func() int64 { return time.Since(start).Milliseconds() }
}
