package main

import (
	"fmt"
	"time"
)

// mode is how the broker flushes, and with that what an acknowledgement promises.
type mode string

const (
	syncFlush  mode = "sync"  // nothing is lost
	asyncFlush mode = "async" // a kill loses nothing; a power cut what was not flushed yet, from the end
	poolFlush  mode = "pool"  // a kill loses what was not committed yet, a power cut what was not flushed yet, from the end
)

// String and Set make a mode a flag.
func (m mode) String() string { return string(m) }

func (m *mode) Set(text string) error {
	switch mode(text) {
	case syncFlush, asyncFlush, poolFlush:
		*m = mode(text)
		return nil
	}
	return fmt.Errorf("%q, allowed are sync, async and pool", text)
}

// settings are the keys that choose it.
func (m mode) settings() []string {
	switch m {
	case asyncFlush:
		return []string{"flushDiskType=ASYNC_FLUSH"}
	case poolFlush:
		return []string{"flushDiskType=ASYNC_FLUSH", "transientStorePoolEnable=true", "transientStorePoolSize=8"}
	}
	return []string{"flushDiskType=SYNC_FLUSH"}
}

// window bounds the age of what a failure may take: ten times what the settings say, since a busy machine runs late. 0: nothing may be lost.
func (m mode) window(powerCut bool) time.Duration {
	switch {
	case m == syncFlush || m == asyncFlush && !powerCut:
		return 0
	case powerCut:
		return 5 * time.Second // flushIntervalCommitLog 500
	default:
		return 2 * time.Second // commitCommitLogThoroughInterval 200
	}
}
