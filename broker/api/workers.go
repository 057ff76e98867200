package api

import "sync"

// queuedTasks is how many tasks may wait for a worker.
const queuedTasks = 1024

// workers run what may block an event loop: reads that are not in memory, files that are written, long answers.
type workers struct {
	tasks chan func()
	ended sync.WaitGroup

	mu     sync.RWMutex
	closed bool // guarded by mu; tasks is closed
}

func newWorkers(n int) *workers {
	w := &workers{tasks: make(chan func(), queuedTasks)}
	for range n {
		w.ended.Go(func() {
			for task := range w.tasks {
				task()
			}
		})
	}
	return w
}

// do runs task soon, or says that too many wait, or that the workers have ended.
func (w *workers) do(task func()) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return false
	}
	select {
	case w.tasks <- task:
		return true
	default:
		return false
	}
}

// close ends the workers after the tasks that wait.
func (w *workers) close() {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.tasks)
	}
	w.mu.Unlock()
	w.ended.Wait()
}
