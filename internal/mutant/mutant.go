// Package mutant holds the deliberate faults of the crash suite: each constant is false but in a binary built with its
// tag, and the suite has to fail against every such binary. A suite that passes without fsync proves nothing.
//
//	mutant_nofsync     the commit log is not fsynced
//	mutant_nodirsync   a directory is not fsynced after a file in it was made, renamed or removed
//	mutant_noerase     what recovery cuts from the log is not erased
//	mutant_nolatch     a failed flush is tried again as if nothing had happened
package mutant
