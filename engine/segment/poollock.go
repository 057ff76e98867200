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
	quit    atomic.Bool
	done    sync.WaitGroup
	locked  int64 // of the goroutine, and of stop behind it
	metrics *Metrics
}

func (l *locker) start(memory []byte, progress func(int64, error), metrics *Metrics) {
	if progress == nil {
		progress = func(int64, error) {}
	}
	l.metrics = metrics
	l.done.Go(func() { l.run(memory, progress) })
}

func (l *locker) run(memory []byte, progress func(int64, error)) {
	for len(memory) > 0 && !l.quit.Load() {
		slice := memory[:min(lockSlice, len(memory))]
		if err := unix.Mlock(slice); err != nil {
			progress(l.locked, err)
			l.touch(memory)
			return
		}
		memory = memory[len(slice):]
		l.locked += int64(len(slice))
		l.metrics.PoolLockedBytes.Add(int64(len(slice)))
		progress(l.locked, nil)
	}
}

// touch makes memory that may not be locked present at least, so that the first lap of the appender does not fault.
func (l *locker) touch(memory []byte) {
	for len(memory) > 0 && !l.quit.Load() {
		slice := memory[:min(lockSlice, len(memory))]
		if unix.Madvise(slice, unix.MADV_POPULATE_WRITE) != nil {
			return // a kernel before 5.14, or no memory: the appender finds out
		}
		memory = memory[len(slice):]
	}
}

// stop ends the goroutine; it waits for the slice under way.
func (l *locker) stop() {
	l.quit.Store(true)
	l.done.Wait()
	if l.locked > 0 {
		l.metrics.PoolLockedBytes.Add(-l.locked)
	}
}
