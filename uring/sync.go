package uring

// ringFilesMin is the number of files from which one enter with a flush of each is quicker than flushing them one by one.
// For a single file it is not: a flush through the ring runs in a worker of the kernel, two context switches away.
const ringFilesMin = 2

// SyncFds makes what was written to the files durable (fdatasync). With several files write-back is started on all of them
// first, then all are flushed at once. Every file is flushed, also when another one fails; the error is that of the first
// that failed.
func (q *Queue) SyncFds(fds []int) error { return q.SyncFdsEach(fds, nil) }

// SyncFdsEach is SyncFds that also tells of each file how it went, unless errs is nil: it is as long as fds.
func (q *Queue) SyncFdsEach(fds []int, errs []error) error {
	b, err := q.begin()
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
		return err
	}
	defer q.end(b)
	defer func() {
		for i := range errs {
			errs[i] = b.syncOps[i].Err
		}
	}()
	b.syncOps = b.syncOps[:0]
	for _, fd := range fds {
		b.syncOps = append(b.syncOps, Op{Kind: Fsync, Flags: DataSync, FD: fd})
	}
	if len(fds) < ringFilesMin {
		for i := range b.syncOps {
			runPlain(b.syncOps, i)
		}
		return firstError(b.syncOps)
	}
	startWriteBack(fds)
	b.ops = b.syncOps
	q.run(b)
	return firstError(b.syncOps)
}
