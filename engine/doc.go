// Package engine is the store as a library, without a network: Open (recovers), Put, Get, Close.
//
// The commit log is the only truth. Each service owns one position in it, published atomically, and every promise is a wait for a
// position:
//
//	appended    bytes copied under the put lock
//	committed   bytes in the page cache
//	flushed     bytes the device has
//	readable    what consumers may see: committed; with SyncFlush flushed
//	dispatched  records whose queue entries exist
//
// A put is answered when the positions that its policy names have passed its end. Waits are places in a queue ordered by position,
// part of the request itself: no goroutine is parked and nothing is allocated for a message.
package engine
