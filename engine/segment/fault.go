package segment

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// ErrUnreadable is wrapped by what CatchFault returns.
var ErrUnreadable = errors.New("segment: the device cannot read these bytes")

// CatchFault makes a page of a mapping that the device cannot read an error instead of the end of the process. Whoever touches a mapping
// whose pages may have to be read defers it, so:
//
//	defer segment.CatchFault(&err, what, debug.SetPanicOnFault(true))
//
// It costs a few nanoseconds and allocates nothing. Only a fault is caught; another panic goes on.
func CatchFault(err *error, what string, before bool) {
	debug.SetPanicOnFault(before)
	switch fault := recover().(type) {
	case nil:
	case interface {
		error
		Addr() uintptr
	}:
		*err = fmt.Errorf("%s: %w: %w", what, ErrUnreadable, fault)
	default:
		panic(fault)
	}
}
