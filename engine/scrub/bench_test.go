package scrub

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringmq/engine/commitlog"
	"ringmq/engine/message"
	"ringmq/engine/seal"
	"ringmq/engine/segment"
)

// benchSize is that of the one full segment of the benchmarks.
const benchSize = 64 << 20

// benched is a scrubber that does not wait, on a log with one full segment of messages of so many bytes.
func benched(b *testing.B, bodyLen int) (*Scrubber, *segment.File) {
	dir := b.TempDir()
	logDir := filepath.Join(dir, "commitlog")
	m := message.Message{Topic: "T", Body: []byte(strings.Repeat("x", bodyLen)), Properties: []byte("TAGS\x01tag\x02")}
	rec, err := message.AppendRecord(nil, &m)
	if err != nil {
		b.Fatal(err)
	}
	var content []byte
	for len(content)+len(rec)+message.BlankLen <= benchSize {
		message.Stamp(rec, 0, message.Offset(len(content)), 1)
		content = append(content, rec...)
	}
	content = append(message.AppendBlank(content, benchSize-len(content)), make([]byte, benchSize)...)[:benchSize]
	if err := os.Mkdir(logDir, 0o755); err != nil {
		b.Fatal(err)
	}
	for base, bytes := range map[int64][]byte{0: content, benchSize: make([]byte, benchSize)} {
		if err := os.WriteFile(filepath.Join(logDir, segment.Name(base)), bytes, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	storage, err := segment.NewDir(logDir, segment.DirOptions{Writable: true})
	if err != nil {
		b.Fatal(err)
	}
	log, err := commitlog.Open(commitlog.Options{Storage: storage, SegmentSize: benchSize, MappedAppend: true, Now: func() int64 { return 1 }})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { log.Close() })
	if err := log.Start(benchSize); err != nil {
		b.Fatal(err)
	}
	f := log.Segments().First()
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	s := New(Options{
		Log: log, LogDir: logDir, Dir: filepath.Join(dir, "seals"), Settings: func() Settings { return Settings{BytesPerSecond: 1 << 50, IntervalMS: 1} },
		Now: func() int64 { return 1 }, Logger: slog.New(slog.DiscardHandler),
	})
	buffer, free, err := segment.AlignedBuffer(seal.BlockSize)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = free() })
	s.buffer = buffer
	return s, f
}

// reportCPU reports what a gibibyte costs of one CPU, the kernel's part included.
func reportCPU(b *testing.B, run func()) {
	cpu := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	b.SetBytes(benchSize)
	run()
	began := cpu()
	for b.Loop() {
		run()
	}
	b.ReportMetric((cpu()-began).Seconds()*(1<<30)/benchSize/float64(b.N), "cpu-s/GiB")
}

// BenchmarkMake is what the seal of a segment costs: in memory, as a segment is that was just written, and read from the device.
func BenchmarkMake(b *testing.B) {
	for _, cold := range []bool{false, true} {
		b.Run(map[bool]string{false: "warm", true: "cold"}[cold], func(b *testing.B) {
			s, f := benched(b, 1024)
			reportCPU(b, func() {
				if cold {
					f.Uncache(0, f.Size())
				}
				if _, err := s.make(f); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

// BenchmarkCompare is what it costs to read a segment from the device and compare it with its seal.
func BenchmarkCompare(b *testing.B) {
	s, f := benched(b, 1024)
	sl, err := s.make(f)
	if err != nil {
		b.Fatal(err)
	}
	reportCPU(b, func() {
		if differ, err := s.differing(f, &sl); err != nil || len(differ) > 0 {
			b.Fatal(differ, err)
		}
	})
}
