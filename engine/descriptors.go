package engine

import "golang.org/x/sys/unix"

// queueFilesShare of all that a process may open are queue files at most: each segment takes a descriptor, too, and each connection.
const queueFilesShare = 4

// limitOpenQueues keeps fewer queue files open than asked for where the process may not open many files.
func (s *Store) limitOpenQueues() {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return
	}
	o := &s.options
	if most := openQueuesWithin(limit.Cur); o.MaxOpenQueues > most {
		o.Logger.Warn("few files may be open at once, so fewer queue files stay open; raise it by ulimit -n",
			"ulimit -n", limit.Cur, "ringmq.openQueueFiles", o.MaxOpenQueues, "used", most)
		o.MaxOpenQueues = most
	}
}

func openQueuesWithin(descriptors uint64) int {
	return int(min(max(descriptors/queueFilesShare, 1), 1<<30))
}
