// Package sim runs a whole store in a simulated machine: the log on a disk in memory, the small files in a folder whose device is remembered
// (crashtest), the clock in a bubble (testing/synctest). A run is a list of steps made from a seed: messages, pulls, queries, time, orders
// of retention, clean stops, kills, power cuts at rest or in the middle of any write or sync of the log, of a start, a stop or another
// recovery, flushes that fail, full disks, bits that rot. Beside the store stands a plain model, and what the store says must be what the
// model says.
//
// The rules after each start:
//
//   - what was promised is there: with SYNC_FLUSH every acknowledged message and every one that a consumer saw, else what was flushed, and
//     what was written when only the process ended;
//   - what is there is the beginning of what was put, in its order and byte for byte, and behind it the log is zero;
//   - each queue begins with its first readable message, its numbers follow each other, and nothing comes back that was cut once;
//   - every key finds exactly its messages.
//
// One goroutine drives. After every step it waits until all goroutines of the store are blocked, so that a run depends on its seed alone;
// docs/crash.md says what that leaves out. A machine hangs in the middle of an operation by a fault that holds it there.
package sim
