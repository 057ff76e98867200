//go:build !mutant_nolatch

package mutant

// NoLatch: a failed write or flush does not stop the store.
const NoLatch = false
