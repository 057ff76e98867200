package uring

import (
	"golang.org/x/sys/unix"
)

// runPlain does operation i of ops with the system call that it stands for. The operations before it are settled.
func runPlain(ops []Op, i int) {
	op := &ops[i]
	if afterFailure(ops, i) {
		op.settle(ErrCanceled)
		return
	}
	for {
		n, err := op.call()
		switch {
		case err == unix.EINTR: // nothing was done and no error was taken notice of
			continue
		case err == nil:
			op.finish(n)
		default:
			op.settle(err)
		}
		return
	}
}

func (op *Op) call() (int, error) {
	switch {
	case op.Kind == Fsync && op.Flags&DataSync != 0:
		return 0, unix.Fdatasync(op.FD)
	case op.Kind == Fsync:
		return 0, unix.Fsync(op.FD)
	case op.Flags&DSync != 0:
		return pwriteDSync(op.FD, op.Buf, op.Off)
	}
	return unix.Pwrite(op.FD, op.Buf, op.Off)
}

// pwriteDSync is pwritev2 with RWF_DSYNC: one call that has written and flushed its bytes when it returns.
func pwriteDSync(fd int, p []byte, off int64) (int, error) {
	return unix.Pwritev2(fd, [][]byte{p}, off, unix.RWF_DSYNC)
}

// startWriteBack has the kernel begin to write the dirty pages of all files, without waiting, so that their flushes find the
// bytes on their way. It promises nothing and its errors are left to the flush, which reports them all.
func startWriteBack(fds []int) {
	for _, fd := range fds {
		_ = unix.SyncFileRange(fd, 0, 0, unix.SYNC_FILE_RANGE_WRITE)
	}
}
