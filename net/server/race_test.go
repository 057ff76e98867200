//go:build race

package server

// raceEnabled: sync.Pool drops at random under the race detector.
const raceEnabled = true
