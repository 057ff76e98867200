//go:build mutant_nofsync

package mutant

// NoFsync: the commit log is written but not fsynced.
const NoFsync = true
