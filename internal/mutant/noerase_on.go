//go:build mutant_noerase

package mutant

// NoErase: the cut tail of the log stays in place.
const NoErase = true
