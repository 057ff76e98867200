//go:build !mutant_nodirsync

package mutant

// NoDirSync: directories are not fsynced.
const NoDirSync = false
