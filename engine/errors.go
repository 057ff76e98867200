package engine

import "errors"

var (
	// ErrClosed is the reason of every put after Close.
	ErrClosed = errors.New("engine: the store is closed")
	// ErrPending refuses a store that holds messages which this version cannot deliver; see Options.AllowPending.
	ErrPending = errors.New("engine: the store holds messages that this version cannot deliver")
	// ErrForeign refuses a store of another kind.
	ErrForeign = errors.New("engine: the folder holds a store of another kind")
	// ErrNoIndex is what Query says of a store without an index of keys.
	ErrNoIndex = errors.New("engine: the store has no key index (messageIndexEnable)")
	// ErrOverdue is wrapped by the reason of a put that has waited too long for room in the log; see Limits.PutWaitMS.
	ErrOverdue = errors.New("engine: the message has waited too long for room in the commit log")

	errTooMany    = errors.New("engine: too many messages wait for room in the commit log")
	errPoolFull   = errors.New("engine: the transient pool has no room (fastFailIfNoBufferInStorePool)")
	errDiskFull   = errors.New("engine: the disk is too full to take messages")
	errIncomplete = errors.New("engine: closed before every message had its queue entry; the next start makes them")
)
