package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// dial connects and returns a blocking descriptor outside of Go's poller: a thread that waits in read needs nobody to wake it.
func dial() (fd int, err error) {
	c, err := net.Dial("tcp", *addr)
	if err != nil {
		return -1, err
	}
	defer c.Close()
	f, err := c.(*net.TCPConn).File()
	if err != nil {
		return -1, err
	}
	defer f.Close()
	if fd, err = syscall.Dup(int(f.Fd())); err != nil {
		return -1, err
	}
	timeout := syscall.Timeval{Sec: 1} // of a read, so that the end of the run is seen
	err = errors.Join(
		syscall.SetNonblock(fd, false),
		syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1),
		syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &timeout),
	)
	return fd, err
}

// read is a raw system call: the runtime is not told, so the thread keeps its P while it waits. There is a P for each connection.
func read(fd int, b []byte) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	return int(n), e
}

func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, _, e := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		if e == syscall.EINTR || e == syscall.EAGAIN {
			continue
		}
		if e != 0 {
			return fmt.Errorf("write: %w", e)
		}
		b = b[n:]
	}
	return nil
}

// call sends one request and waits for its answer.
func call(fd int, request []byte) (a answer, err error) {
	if err := writeAll(fd, request); err != nil {
		return a, err
	}
	var got []byte
	part := make([]byte, 1<<16)
	for deadline := time.Now().Add(10 * time.Second); ; {
		if size, err := a.next(got); size > 0 || err != nil {
			return a, err
		}
		n, e := read(fd, part)
		switch {
		case e == syscall.EAGAIN || e == syscall.EINTR:
			if time.Now().After(deadline) {
				return a, errors.New("no answer within 10 s")
			}
		case e != 0:
			return a, fmt.Errorf("read: %w", e)
		case n == 0:
			return a, errors.New("closed by the server")
		default:
			got = append(got, part[:n]...)
		}
	}
}

// createTopic is UPDATE_AND_CREATE_TOPIC.
func createTopic() error {
	fd, err := dial()
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	fields := []field{{"topic", *topic}, {"defaultTopic", "TBW102"}, {"readQueueNums", strconv.Itoa(*queues)},
		{"writeQueueNums", strconv.Itoa(*queues)}, {"perm", "6"}, {"topicFilterType", "SINGLE_TAG"},
		{"topicSysFlag", "0"}, {"order", "false"}}
	if *attrs != "" {
		fields = append(fields, field{"attributes", *attrs})
	}
	a, err := call(fd, frame(17, opaqueBase, fields, nil))
	if err == nil && a.code != 0 {
		err = fmt.Errorf("answered %d: %s", a.code, a.remark())
	}
	if err != nil {
		return fmt.Errorf("create topic %s: %w", *topic, err)
	}
	return nil
}
