package scrub_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"ringmq/engine/message"
	"ringmq/engine/scrub"
	"ringmq/engine/seal"
	"ringmq/engine/segment"
)

// Every full segment gets a seal that agrees with it; the one that is appended to does not.
func TestFullSegmentsAreSealed(t *testing.T) {
	t.Parallel()
	within(t, 3, func(t *testing.T, r *rig) {
		r.s.Start()
		r.pass(time.Minute)
		for i := range 3 {
			s := r.sealed(i)
			recLen := int64(len(record(t, 0, "first", bodyLen)))
			if want := int64(size-message.BlankLen) / recLen; s.Records != want || s.Base != message.Offset(i)*size || s.Size != size || s.Damaged != nil ||
				int64(s.Last-s.Base) != (want-1)*recLen || s.LastStoreTimeMS != 1_000_000+int64(s.Last) {
				t.Errorf("seal of segment %d: %+v, want %d records", i, s, want)
			}
		}
		if exists(r.sealPath(3)) {
			t.Error("the segment that is appended to has a seal")
		}
		if n := r.metrics.Sealed.Load(); n != 3 || r.metrics.SealedBytes.Load() != 3*size {
			t.Errorf("%d sealed, %d bytes", n, r.metrics.SealedBytes.Load())
		}
		r.book.expect(t)
	})
}

// A bit that flips on the disk is found wherever it is, named by file, block and offset, and told once. What the change hits does not matter: a
// body, bytes that no checksum of a record covers, or those behind the end record.
func TestEveryFlippedBitIsFound(t *testing.T) {
	t.Parallel()
	first := len(record(t, 0, "first", bodyLen))
	const whole = "its records are whole: the change is where none of their checksums covers it"
	for _, c := range []struct {
		name   string
		at     int // of the file
		reason string
	}{
		{"size of the first record", 2, fmt.Sprintf("at %d to %d stands no whole record", size, size+first)},
		{"queue id", 15, whole},
		{"queue offset", 27, whole},
		{"own position", 35, "stands no whole record"},
		{"born time", 47, whole},
		{"store time", 63, whole},
		{"body", 100, fmt.Sprintf("at %d to %d stands no whole record", size, size+first)},
		{"topic", first - 18 - 2 - 1, whole},
		{"properties", first - 5, whole},
		{"body in block 1", mib + 5, "stands no whole record"},
		{"body at the end of block 1", 2*mib - 1, "stands no whole record"},
		{"body in block 2", 2*mib + 40_000, "stands no whole record"},
		{"end record", 24*first + 3, "stands no whole record"},
		{"behind the end record", size - 1, whole},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			within(t, 3, func(t *testing.T, r *rig) {
				r.s.Start()
				r.pass(time.Minute)
				flip(t, r.path(1), c.at)
				r.pass(day)
				block := c.at / mib
				from := size + block*mib
				line := []string{"level=ERROR", "the commit log is damaged", "file=" + r.path(1), fmt.Sprintf("block=%d ", block),
					fmt.Sprintf("offset=%d ", from), "the bytes are not those that were sealed", c.reason}
				r.book.expect(t, line)
				d := r.s.Damages()
				if len(d) != 1 || d[0].File != r.path(1) || d[0].Block != block || d[0].Last != block || d[0].From != message.Offset(from) {
					t.Errorf("damages %+v", d)
				}
				r.pass(3 * day)
				r.book.expect(t) // not again
				if n := r.metrics.Damaged.Load(); n != 1 || r.metrics.Compared.Load() < 9 {
					t.Errorf("%d damaged, %d compared", n, r.metrics.Compared.Load())
				}
				flip(t, r.path(1), c.at)
				r.pass(day)
				r.book.expect(t, []string{"level=INFO", "reads again as it was sealed"})
				if d := r.s.Damages(); len(d) != 0 {
					t.Errorf("damages %+v", d)
				}
			})
		})
	}
}

// Neighbouring blocks make one line, others another; more of it later is told then.
func TestDamagedBlocksAreToldInRows(t *testing.T) {
	t.Parallel()
	within(t, 2, func(t *testing.T, r *rig) {
		r.s.Start()
		r.pass(time.Minute)
		flip(t, r.path(0), 100)
		flip(t, r.path(0), mib+100)
		flip(t, r.path(1), 100)
		flip(t, r.path(1), 2*mib+100)
		r.pass(day)
		r.book.expect(t, []string{`block="0 to 1"`, "offset=0 to=2097152"}, []string{"block=0", fmt.Sprintf("offset=%d to=%d", size, size+mib)},
			[]string{"block=2", fmt.Sprintf("offset=%d to=%d", size+2*mib, 2*size)})
		flip(t, r.path(1), mib+100)
		r.pass(day)
		r.book.expect(t, []string{`block="0 to 2"`, fmt.Sprintf("offset=%d to=%d", size, 2*size)})
		r.pass(2 * day)
		r.book.expect(t)
	})
}

// A Java broker that cut the log and went on writes other messages at the same places: whole ones are sealed anew, with one line.
func TestSegmentWrittenAnewIsSealedAgain(t *testing.T) {
	t.Parallel()
	within(t, 2, func(t *testing.T, r *rig) {
		r.s.Start()
		r.pass(time.Minute)
		before := r.sealed(1)
		recLen := len(record(t, 0, "first", bodyLen))
		other := segmentOf(t, size, "second")
		patch(t, r.path(1), 13*recLen, other[13*recLen:]) // from within block 1 on
		r.pass(day)
		r.book.expect(t, []string{"level=WARN", "written anew by another broker", "segment=" + segment.Name(size), `"from block"=1 blocks=2`})
		after := r.sealed(1)
		if after.Digest == before.Digest || after.Records != before.Records || after.Damaged != nil || after.Blocks[0] != before.Blocks[0] {
			t.Errorf("seal %+v, was %+v", after, before)
		}
		r.pass(3 * day)
		r.book.expect(t)
		if n := r.metrics.Resealed.Load(); n != 1 {
			t.Errorf("sealed again %d times", n)
		}
	})
}

// If what was written anew is not whole it is damage, and the seal stays.
func TestSegmentWrittenAnewWithABrokenRecord(t *testing.T) {
	t.Parallel()
	within(t, 2, func(t *testing.T, r *rig) {
		r.s.Start()
		r.pass(time.Minute)
		before := r.sealed(1)
		other := segmentOf(t, size, "second")
		other[mib+700] ^= 1
		writeFile(t, r.path(1), other)
		r.pass(day)
		r.book.expect(t, []string{"level=ERROR", `block="0 to 2"`, "stands no whole record"})
		if after, err := seal.Read(r.sealPath(1)); err != nil || after.Digest != before.Digest {
			t.Errorf("seal %+v, %v, was %+v", after, err, before)
		}
		r.pass(2 * day)
		r.book.expect(t)
	})
}

// What is damaged before a segment is sealed is told then and stands in the seal: it does not become right by that. It is told once in each run,
// and what changes elsewhere is found as well.
func TestSealBlessesNothing(t *testing.T) {
	t.Parallel()
	within(t, 2, func(t *testing.T, r *rig) {
		recLen := len(record(t, 0, "first", bodyLen))
		at := size + message.Offset(2*recLen)
		flip(t, r.path(1), 2*recLen+500)
		r.s.Start()
		r.pass(time.Minute)
		line := []string{"level=ERROR", "the commit log is damaged", "file=" + r.path(1), "block=0", fmt.Sprintf("offset=%d ", at),
			"no whole record stood here when the segment was sealed"}
		r.book.expect(t, line)
		s := r.sealed(1)
		if want := (seal.Stretch{From: at, To: at + message.Offset(recLen)}); len(s.Damaged) != 1 || s.Damaged[0] != want {
			t.Errorf("damaged %v, want %v", s.Damaged, want)
		}
		r.pass(3 * day)
		r.book.expect(t)
		if d := r.s.Damages(); len(d) != 1 || d[0].From != at {
			t.Errorf("damages %+v", d)
		}

		r.close()
		r.open()
		r.s.Start()
		r.pass(2 * day)
		r.book.expect(t, line)
		flip(t, r.path(1), mib+99)
		r.pass(day)
		r.book.expect(t, []string{"level=ERROR", "block=1 ", "the bytes are not those that were sealed"})
		if d := r.s.Damages(); len(d) != 2 {
			t.Errorf("damages %+v", d)
		}
	})
}

// A seal that is broken or gone costs a walk and, if it is broken, a line. One of a segment of another size is not believed either.
func TestBrokenSealIsMadeAnew(t *testing.T) {
	t.Parallel()
	within(t, 3, func(t *testing.T, r *rig) {
		r.s.Start()
		r.pass(time.Minute)
		want := r.sealed(2)
		flip(t, r.sealPath(0), 80)
		if err := os.Remove(r.sealPath(1)); err != nil {
			t.Fatal(err)
		}
		other := want
		other.Size, other.Blocks, other.Last, other.Records, other.LastStoreTimeMS = mib, other.Blocks[:1], -1, 0, 0
		if err := other.Save(r.seals()); err != nil {
			t.Fatal(err)
		}
		r.pass(day)
		r.book.expect(t, []string{"level=WARN", "a seal cannot be used", segment.Name(0), "checksum is"},
			[]string{"level=WARN", "a seal cannot be used", segment.Name(2 * size), "of a segment of 1048576 bytes"})
		for i := range 3 {
			if s := r.sealed(i); i == 2 && s.Digest != want.Digest {
				t.Errorf("%+v", s)
			}
		}
	})
}

// What the device cannot read is damage, whether there is a seal or not, and told once. A file that has become shorter faults as a bad sector.
func TestUnreadableSegment(t *testing.T) {
	t.Parallel()
	within(t, 3, func(t *testing.T, r *rig) {
		if err := os.Truncate(r.path(0), mib+8192); err != nil {
			t.Fatal(err)
		}
		r.s.Start()
		r.pass(time.Minute)
		r.book.expect(t, []string{"level=ERROR", "file=" + r.path(0), "block=1 ", "offset=1048576 ", "the device cannot read it"})
		if err := os.Truncate(r.path(1), mib+8192); err != nil {
			t.Fatal(err)
		}
		r.pass(day)
		r.book.expect(t, []string{"level=ERROR", "file=" + r.path(1), `block="1 to 2"`, fmt.Sprintf("offset=%d ", size+mib), "the bytes are not those that were sealed"})
		r.pass(3 * day)
		r.book.expect(t)
		if exists(r.sealPath(0)) || !exists(r.sealPath(2)) {
			t.Error("the first segment has a seal, or the last one has none")
		}
	})
}

// The seal goes before its segment, and both go when one of them can go only.
func TestRetire(t *testing.T) {
	t.Parallel()
	within(t, 3, func(t *testing.T, r *rig) {
		flip(t, r.path(0), 100)
		r.s.Start()
		r.pass(time.Minute)
		r.book.take()
		failed := errors.New("no")
		if err := r.s.Retire(0, func() error { return failed }); err != failed || exists(r.sealPath(0)) {
			t.Errorf("error %v, the seal is there: %v", err, exists(r.sealPath(0)))
		}
		if len(r.s.Damages()) != 1 {
			t.Errorf("damages %+v", r.s.Damages())
		}
		r.pass(day)
		r.sealed(0) // made again, as the segment is still there
		if err := r.s.Retire(0, func() error {
			if exists(r.sealPath(0)) || !exists(r.path(0)) {
				t.Error("the segment goes before its seal")
			}
			return r.log.RemoveFirst()
		}); err != nil || len(r.s.Damages()) != 0 {
			t.Errorf("%v, damages %+v", err, r.s.Damages())
		}
		r.pass(2 * day)
		if exists(r.sealPath(0)) || !exists(r.sealPath(1)) || !exists(r.sealPath(2)) {
			t.Error("the first seal is there, or another is not")
		}
	})
}

// A segment that is removed while its seal is made gets none.
func TestNoSealForARemovedSegment(t *testing.T) {
	t.Parallel()
	within(t, 2, func(t *testing.T, r *rig) {
		for i := range 2 {
			forget(t, r.file(i)) // so that it takes its time
		}
		r.s.Start()
		r.pass(time.Second)
		if n := r.metrics.SealedBytes.Load(); n == 0 || n >= size {
			t.Fatalf("%d bytes hashed", n)
		}
		if err := r.s.Retire(0, r.log.RemoveFirst); err != nil {
			t.Fatal(err)
		}
		r.pass(time.Minute)
		if exists(r.sealPath(0)) || !exists(r.sealPath(1)) || r.metrics.Sealed.Load() != 1 {
			t.Errorf("%d sealed", r.metrics.Sealed.Load())
		}
		r.book.expect(t)
	})
}

// A segment that is removed while it is compared is no damage of the log any more, whatever was found in it.
func TestNoDamageOfARemovedSegment(t *testing.T) {
	t.Parallel()
	within(t, 2, func(t *testing.T, r *rig) {
		r.s.Start()
		r.pass(time.Minute)
		flip(t, r.path(0), 100)
		r.rate.Store(mib / 4)
		r.pass(day - time.Minute + 2*time.Second)
		if n := r.metrics.ScrubbedBytes.Load(); n == 0 || n >= size {
			t.Fatalf("%d bytes read", n)
		}
		if err := r.s.Retire(0, r.log.RemoveFirst); err != nil {
			t.Fatal(err)
		}
		r.pass(day)
		if list := r.s.Damages(); len(list) != 0 || r.metrics.Damaged.Load() != 0 {
			t.Errorf("damages %v", list)
		}
		r.book.expect(t)
	})
}

// The scrub reads no faster than it may, block by block, and each segment once in an interval.
func TestRate(t *testing.T) {
	t.Parallel()
	within(t, 2, func(t *testing.T, r *rig) {
		r.s.Start()
		r.pass(time.Minute)
		if n := r.metrics.Compared.Load(); n != 0 {
			t.Fatalf("%d compared before their time", n)
		}
		r.rate.Store(mib / 4)
		r.pass(day - time.Minute) // sealed within the first second; at mib/4 a segment takes 9.2 s
		for second := range 30 {
			due := min(int64(second)*mib/4+mib, 2*size)
			if n := r.metrics.ScrubbedBytes.Load(); n > due || second > 5 && n < due/2 {
				t.Errorf("after %d s %d bytes were read, want up to %d", second, n, due)
			}
			r.pass(time.Second)
		}
		r.pass(day/2 - time.Minute)
		if n := r.metrics.ScrubbedBytes.Load(); n != 2*size {
			t.Errorf("%d bytes were read in a round, want %d", n, 2*size)
		}
		r.pass(day / 2)
		r.pass(time.Minute)
		if n := r.metrics.ScrubbedBytes.Load(); n != 4*size {
			t.Errorf("%d bytes were read in two rounds, want %d", n, 4*size)
		}
	})
}

// At rate 0 nothing is read, neither to seal what is old nor to compare; a change counts at once.
func TestOff(t *testing.T) {
	t.Parallel()
	within(t, 2, func(t *testing.T, r *rig) {
		r.rate.Store(0)
		r.s.Start()
		r.pass(3 * day)
		if exists(r.sealPath(0)) || r.metrics.SealedBytes.Load() != 0 {
			t.Error("sealed")
		}
		r.rate.Store(mib)
		r.s.SettingsChanged()
		r.pass(10 * time.Second)
		r.sealed(0)
		r.sealed(1)
		r.pass(day) // all are compared, or about to be
		r.rate.Store(0)
		r.pass(time.Minute)
		n := r.metrics.ScrubbedBytes.Load()
		r.pass(3 * day)
		if r.metrics.ScrubbedBytes.Load() != n {
			t.Error("read while off")
		}
	})
}

// Close does not wait for a pause to be over.
func TestCloseIsPrompt(t *testing.T) {
	t.Parallel()
	for _, when := range []time.Duration{0, time.Second, day + time.Second, day + 3*time.Second} {
		within(t, 2, func(t *testing.T, r *rig) {
			r.s.Start()
			r.pass(when)
			r.rate.Store(1)
			r.pass(10 * time.Second)
			began := time.Now()
			r.s.Close()
			if took := time.Since(began); took != 0 {
				t.Errorf("after %v: %v", when, took)
			}
			r.s = scrub.New(scrub.Options{Log: r.log}) // close closes another one
		})
	}
}

// After a restart the rounds go on where they were: a segment is due when its seal says so. Earlier only if it was written since, or if another
// broker may have had the store.
func TestRestart(t *testing.T) {
	t.Parallel()
	for _, foreign := range []bool{false, true} {
		within(t, 3, func(t *testing.T, r *rig) {
			r.s.Start()
			r.pass(day / 2)
			r.close()
			date(t, r.path(1), time.Now()) // written behind the scrub's back
			r.foreign = foreign
			r.open()
			r.s.Start()
			r.pass(time.Minute)
			want := int64(1)
			if foreign {
				want = 3
			}
			if n := r.metrics.Compared.Load(); n != want {
				t.Errorf("foreign %v: %d compared at once, want %d", foreign, n, want)
			}
			if r.pass(day / 2); r.metrics.Compared.Load() != 3 {
				t.Errorf("foreign %v: %d compared half a day later, want 3", foreign, r.metrics.Compared.Load())
			}
			if n := r.metrics.Sealed.Load(); n != 3 {
				t.Errorf("foreign %v: %d sealed, want 3, once", foreign, n)
			}
			r.book.expect(t)
		})
	}
}

// Seals that could not be written are told once, not for each segment and each round, and written when it is possible.
func TestUnwritableFolder(t *testing.T) {
	t.Parallel()
	within(t, 3, func(t *testing.T, r *rig) {
		writeFile(t, r.seals(), nil)
		r.s.Start()
		r.pass(3 * day)
		r.book.expect(t, []string{"level=WARN", "could not be sealed", "a file of that name is in the way"})
		if err := os.Remove(r.seals()); err != nil {
			t.Fatal(err)
		}
		r.pass(day)
		for i := range 3 {
			r.sealed(i)
		}
	})
}

func TestSettings(t *testing.T) {
	t.Parallel()
	good := scrub.Defaults()
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		s    scrub.Settings
		want string
	}{
		{scrub.Settings{BytesPerSecond: -1, IntervalMS: 1}, "ringmq.scrubRate is -1"},
		{scrub.Settings{BytesPerSecond: 16, IntervalMS: 1}, "allowed are 0 (off) and 65536 and above"},
		{scrub.Settings{IntervalMS: 0}, "ringmq.scrubInterval is 0"},
	} {
		if err := c.s.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.s, err)
		}
	}
}
