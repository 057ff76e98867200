package commitlog

import "sync/atomic"

// Metrics counts what a Log does; all fields only grow.
type Metrics struct {
	Rolls        atomic.Int64 // segments begun by Append
	Busy         atomic.Int64 // appends that found no room
	Waits        atomic.Int64 // calls of Room that had to wait
	Writes       atomic.Int64 // writes of the committer
	WrittenBytes atomic.Int64 // of them, whole blocks
}
