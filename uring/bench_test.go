package uring

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkSyncFds makes the state of a flush of derived files: 4 KiB more in the first file, 20 bytes more in each other.
// ring and plain are SyncFds in its two modes; single flushes file by file, without write-back started ahead.
func BenchmarkSyncFds(b *testing.B) {
	for _, files := range []int{1, 2, 3, 4, 6, 10, 34, 66} {
		for _, way := range []string{"ring", "plain", "single"} {
			b.Run(fmt.Sprintf("files=%d/%s", files, way), func(b *testing.B) {
				q := Open(Options{Off: way != "ring"})
				defer q.Close()
				if way == "ring" && q.Mode() != ModeRing {
					b.Skipf("no ring here: %s", q.Reason())
				}
				fds := descriptors(b, files)
				block, entry := make([]byte, 4096), make([]byte, 20)
				written := int64(0)
				b.ReportAllocs()
				for b.Loop() {
					b.StopTimer()
					for i, fd := range fds {
						p := entry
						if i == 0 {
							p = block
						}
						if _, err := unix.Pwrite(fd, p, written*int64(len(p))); err != nil {
							b.Fatal(err)
						}
					}
					written++
					b.StartTimer()
					if err := flushBy(way, q, fds); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func flushBy(way string, q *Queue, fds []int) error {
	if way != "single" {
		return q.SyncFds(fds)
	}
	for _, fd := range fds {
		if err := unix.Fdatasync(fd); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkFlushOne is one file flushed through the ring and by the plain call: why SyncFds does not use the ring for one.
func BenchmarkFlushOne(b *testing.B) {
	for _, mode := range []string{ModeRing, ModePlain} {
		b.Run(mode, func(b *testing.B) {
			q := Open(Options{Off: mode == ModePlain})
			defer q.Close()
			fd := descriptors(b, 1)[0]
			block := make([]byte, 4096)
			ops := []Op{{Kind: Fsync, Flags: DataSync, FD: fd}}
			b.ReportAllocs()
			for at := int64(0); b.Loop(); at += 4096 {
				if _, err := unix.Pwrite(fd, block, at%(64<<20)); err != nil {
					b.Fatal(err)
				}
				if err := q.Do(ops); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkWriteFixed is the direct way of the log: O_DIRECT, registered memory, on the device when it ends.
func BenchmarkWriteFixed(b *testing.B) {
	buf := memory(b, 1<<20)
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
		for _, mode := range []string{ModeRing, ModePlain} {
			b.Run(fmt.Sprintf("size=%dKiB/%s", size>>10, mode), func(b *testing.B) {
				q := Open(Options{Off: mode == ModePlain, Buffers: [][]byte{buf}})
				defer q.Close()
				fd, err := unix.Open(b.TempDir()+"/f", unix.O_RDWR|unix.O_CREAT|unix.O_DIRECT|unix.O_CLOEXEC, 0o600)
				if err != nil {
					b.Skipf("O_DIRECT: %v", err)
				}
				defer unix.Close(fd)
				const fileSize = 64 << 20
				for at := int64(0); at < fileSize; at += int64(len(buf)) {
					if _, err := unix.Pwrite(fd, buf, at); err != nil {
						b.Fatal(err)
					}
				}
				ops := []Op{{Kind: WriteFixed, Flags: DSync, FD: fd, Buf: buf[:size]}}
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if err := q.Do(ops); err != nil {
						b.Fatal(err)
					}
					ops[0].Off = (ops[0].Off + int64(size)) % fileSize
				}
			})
		}
	}
}
