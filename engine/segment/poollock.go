package segment

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// lockSlice bounds one mlock call: the first touch of memory is slow on a virtual machine, and Close waits for one slice.
const lockSlice = 64 << 20

// locker locks memory in the background. The zero locker has nothing to do.
type locker struct {
	quit atomic.Bool
	done sync.WaitGroup
}

func (l *locker) start(memory []byte, progress func(int64, error), metrics *Metrics) {
	if progress == nil {
		progress = func(int64, error) {}
	}
	l.done.Go(func() { l.run(memory, progress, metrics) })
}

func (l *locker) run(memory []byte, progress func(int64, error), metrics *Metrics) {
	locked := 0
	for locked < len(memory) && !l.quit.Load() {
		slice := memory[locked:min(locked+lockSlice, len(memory))]
		if err := unix.Mlock(slice); err != nil {
			progress(int64(locked), err)
			return
		}
		locked += len(slice)
		metrics.PoolLockedBytes.Add(int64(len(slice)))
		progress(int64(locked), nil)
	}
}

// stop ends the goroutine; it waits for the slice under way.
func (l *locker) stop() {
	l.quit.Store(true)
	l.done.Wait()
}
