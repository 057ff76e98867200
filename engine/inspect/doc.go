// Package inspect reads a store folder of ringmq or of a Java broker without changing a byte of it: what is in it (Stat), whether it is
// whole (Verify), and every record and queue entry (Records, Entries).
//
// Nothing on the disk is believed. Sizes that files claim never make memory, a page that the device cannot read is an error of one
// segment, and lists that a hostile file could make long are bounded. Files are opened for reading only; no lock is taken, so a store in
// use is read while it moves: what stands at its tail is then not judged.
//
// The package knows the formats from engine/message, engine/consumequeue and engine/checkpoint and shares no state with a running
// engine. A Store is used by one goroutine at a time.
package inspect
