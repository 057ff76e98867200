package retention_test

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ringmq/engine/retention"
)

const hour = time.Hour

// made is a segment of the fake store.
type made struct {
	name             string
	modified, stored time.Time
}

// fakeStore has segments; each that is removed frees a part of the disk.
type fakeStore struct {
	mu       sync.Mutex
	segments []made
	removed  []string
	at       []time.Time // of the removals
	asked    []string    // for whose last store time it was asked
	trims    int
	trimErr  error
	queues   int         // with files to be removed
	trimmed  []time.Time // when those of one were
	err      error       // of RemoveOldest
	needed   bool        // the oldest must stay
	used     retention.Usage
	frees    float64
	usageErr error
}

func (f *fakeStore) Oldest() (retention.Segment, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.segments) < 2 {
		return retention.Segment{}, false, nil
	}
	s := f.segments[0]
	return retention.Segment{Name: s.name, ModifiedMS: s.modified.UnixMilli(), Left: len(f.segments) - 1}, true, nil
}

func (f *fakeStore) LastStored() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, f.segments[0].name)
	return f.segments[0].stored.UnixMilli()
}

func (f *fakeStore) RemoveOldest() (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil || f.needed {
		return false, f.err
	}
	f.removed = append(f.removed, f.segments[0].name)
	f.at = append(f.at, time.Now())
	f.segments = f.segments[1:]
	f.used.Log -= f.frees
	return true, nil
}

func (f *fakeStore) Expire() (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trims++
	return f.queues > 0, f.trimErr
}

func (f *fakeStore) RemoveQueueFiles() (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.queues == 0 {
		return false, nil
	}
	f.queues--
	f.trimmed = append(f.trimmed, time.Now())
	return f.queues > 0, nil
}

func (f *fakeStore) Usage() (retention.Usage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.used, f.usageErr
}

func (f *fakeStore) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeStore) names() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.removed, " ")
}

// bench is a cleaner in a bubble, whose clock begins at midnight UTC. It starts with the first pass; until then a test sets up what it likes.
type bench struct {
	*fakeStore
	cleaner  *retention.Cleaner
	started  bool
	settings retention.Settings
	lines    bytes.Buffer // complete once the bubble is idle
}

// within runs a test with segments a, b, c... that are as old as ages say; the last one is the one that is appended to.
func within(t *testing.T, ages []time.Duration, run func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{fakeStore: &fakeStore{}, settings: retention.Defaults()}
		for i, age := range ages {
			at := time.Now().Add(-age)
			b.segments = append(b.segments, made{string(rune('a' + i)), at, at})
		}
		b.cleaner = retention.New(retention.Options{
			Store: b, Settings: func() retention.Settings { b.mu.Lock(); defer b.mu.Unlock(); return b.settings }, Location: time.UTC,
			Now: func() int64 { return time.Now().UnixMilli() }, Logger: slog.New(slog.NewTextHandler(&b.lines, nil)),
		})
		defer b.cleaner.Close()
		run(b)
	})
}

func (b *bench) pass(d time.Duration) {
	if !b.started {
		b.started = true
		b.cleaner.Start()
	}
	time.Sleep(d)
	synctest.Wait()
}

func (b *bench) expect(t *testing.T, removed string) {
	t.Helper()
	if got := b.names(); got != removed {
		t.Errorf("removed %q, want %q", got, removed)
	}
}

func days(n ...int) []time.Duration {
	var list []time.Duration
	for _, n := range n {
		list = append(list, time.Duration(n)*24*hour)
	}
	return list
}

func TestExpiredSegmentsGoInTheirHour(t *testing.T) {
	within(t, days(9, 8, 4, 1, 0), func(b *bench) {
		b.settings.DeleteWhen = "04;16"
		b.pass(4*hour - time.Minute)
		b.expect(t, "")
		b.pass(2 * time.Minute)
		b.expect(t, "a b c")
		b.pass(48*hour - 2*time.Minute) // "d" is three days old since midnight
		b.expect(t, "a b c")
		b.pass(time.Hour)
		b.expect(t, "a b c d")
		b.pass(300 * hour)
		b.expect(t, "a b c d") // the one that is appended to stays
		if got := b.lines.String(); strings.Count(got, "\n") != 4 || !strings.Contains(got, `segment=a age=220h0m0s reason="expired, it is 04 o'clock" "segments left"=4`) {
			t.Errorf("lines:\n%s", got)
		}
	})
}

func TestFirstRoundComesAfterAMinute(t *testing.T) {
	within(t, days(9, 0), func(b *bench) {
		b.settings.DeleteWhen = "00"
		b.pass(time.Minute - time.Millisecond)
		b.expect(t, "")
		b.pass(time.Millisecond)
		b.expect(t, "a")
	})
}

// The later of the last record's time and the file's counts; the record is looked for only if the file is old enough, and once.
func TestAgeIsThatOfTheLaterTime(t *testing.T) {
	within(t, days(9, 0), func(b *bench) {
		now := time.Now()
		b.segments[0].modified, b.segments[0].stored = now, now.Add(-200*hour) // a restored copy
		b.settings.DeleteWhen = "00;01;02"
		b.pass(2 * hour)
		b.expect(t, "")
		if len(b.asked) != 0 {
			t.Errorf("the record was looked for: %v", b.asked)
		}
		b.set(func() { b.segments[0].modified, b.segments[0].stored = now.Add(-200*hour), now.Add(-69*hour) }) // dated back
		b.pass(time.Hour - time.Minute)
		b.expect(t, "")
		if len(b.asked) != 1 {
			t.Errorf("asked for %v", b.asked)
		}
		b.pass(24 * hour)
		b.expect(t, "a")
	})
	within(t, days(9, 0), func(b *bench) { // a clock that was ahead
		b.segments[0].stored = time.Now().Add(1000 * hour)
		b.settings.DeleteWhen = "00"
		b.pass(100 * hour)
		b.expect(t, "")
	})
}

func TestRemovalsAreSpread(t *testing.T) {
	within(t, days(9, 9, 9, 9, 9, 9, 9, 0), func(b *bench) {
		b.settings.DeleteWhen, b.settings.BatchMax, b.settings.PauseMS, b.settings.IntervalMS = "00", 3, 200, 5000
		begin := time.Now()
		b.pass(2 * time.Minute)
		b.expect(t, "a b c d e f g")
		var after []time.Duration
		for _, at := range b.at {
			after = append(after, at.Sub(begin).Round(time.Millisecond))
		}
		want := []time.Duration{60_000, 60_200, 60_400, 65_400, 65_600, 65_800, 70_800}
		for i := range want {
			want[i] *= time.Millisecond
		}
		if !slices.Equal(after, want) {
			t.Errorf("removed after %v, want %v", after, want)
		}
		if b.trims != 3 {
			t.Errorf("trimmed %d times, want once for each round that removed something", b.trims)
		}
	})
}

// Queue files go with a pause behind each queue, and for no longer than until the next look at the segments.
func TestQueueFilesGoSlowly(t *testing.T) {
	within(t, days(9, 9, 0), func(b *bench) {
		b.settings.DeleteWhen, b.settings.QueuePauseMS, b.settings.IntervalMS = "00", 400, 1000
		b.queues = 7
		begin := time.Now()
		b.pass(time.Hour)
		b.expect(t, "a b")
		var after []time.Duration
		for _, at := range b.trimmed {
			after = append(after, at.Sub(begin)-60_200*time.Millisecond) // two segments, 100 ms behind each
		}
		want := []time.Duration{0, 400, 800, 2200, 2600, 3000, 4400}
		for i := range want {
			want[i] *= time.Millisecond
		}
		if !slices.Equal(after, want) {
			t.Errorf("removed after %v, want %v", after, want)
		}
		if b.trims != 1 {
			t.Errorf("looked for expired files %d times, want once", b.trims)
		}
	})
}

// A shorter interval does not begin behind the long one that is under way; the first minute after a start stays.
func TestSettingsChangeLive(t *testing.T) {
	within(t, days(9, 8, 4, 1, 0), func(b *bench) {
		b.settings.DeleteWhen, b.settings.BatchMax, b.settings.IntervalMS = "00;01;02;03;04", 1, 86_400_000
		change := func(change func(s *retention.Settings)) {
			b.set(func() { change(&b.settings) })
			b.cleaner.SettingsChanged()
		}
		b.pass(30 * time.Second)
		change(func(s *retention.Settings) { s.ReservedMS++ })
		b.pass(29 * time.Second)
		b.expect(t, "")
		b.pass(time.Second)
		b.expect(t, "a")
		b.pass(time.Hour)
		b.expect(t, "a")
		change(func(s *retention.Settings) { s.IntervalMS = 7_200_000 })
		b.pass(time.Hour - time.Second)
		b.expect(t, "a")
		b.pass(2 * time.Second)
		b.expect(t, "a b")
		b.pass(time.Minute)
		change(func(s *retention.Settings) { s.IntervalMS, s.ReservedMS, s.BatchMax = 1000, 20*3_600_000, 10 })
		b.pass(time.Second)
		b.expect(t, "a b c d")
	})
}

func TestOrder(t *testing.T) {
	within(t, days(9, 8, 7, 1, 0), func(b *bench) {
		b.settings.BatchMax = 2
		b.cleaner.Order()
		b.cleaner.Order() // twice is once
		b.pass(time.Second)
		b.expect(t, "a b")
		b.pass(30 * time.Second) // the order stands until there is nothing left
		b.expect(t, "a b c")
		if !strings.Contains(b.lines.String(), "by order") {
			t.Errorf("lines:\n%s", b.lines.String())
		}
		b.set(func() { b.segments[0].modified, b.segments[0].stored = time.Time{}, time.Time{} })
		b.pass(time.Hour) // and not longer
		b.expect(t, "a b c")
		b.cleaner.Order()
		b.pass(time.Second)
		b.expect(t, "a b c d")
	})
}

func TestOrderOutlivesAFailure(t *testing.T) {
	within(t, days(9, 0), func(b *bench) {
		b.err = errors.New("no")
		b.cleaner.Order()
		b.pass(time.Second)
		b.expect(t, "")
		b.set(func() { b.err = nil })
		b.pass(time.Minute)
		b.expect(t, "a")
	})
}

func TestFullDisk(t *testing.T) {
	cases := []struct {
		name    string
		change  func(b *bench)
		removed string
		says    string
	}{
		{"room", func(b *bench) { b.used.Log = 0.75 }, "", ""},
		{"expired go", func(b *bench) { b.used.Log = 0.80 }, "a b", "the disk is 80.0 % full, diskMaxUsedSpaceRatio is 75.0 %"},
		{"only as many as needed", func(b *bench) { b.used.Log, b.frees = 0.80, 0.06 }, "a", ""},
		{"the queues' disk", func(b *bench) { b.used.Queues = 0.95 }, "a b", "the disk is 95.0 % full, diskMaxUsedSpaceRatio"},
		{"all go but the last", func(b *bench) { b.used.Log = 0.86 }, "a b c d", "diskSpaceCleanForciblyRatio is 85.0 %: the age does not matter"},
		{"forced, as many as needed", func(b *bench) { b.used.Log, b.frees = 0.95, 0.04 }, "a b c", ""},
		{"forced, switched off", func(b *bench) { b.used.Log, b.settings.ForciblyEnable = 0.95, false }, "a b", "diskMaxUsedSpaceRatio"},
		{"not known", func(b *bench) { b.used.Log, b.usageErr = 0.95, errors.New("no") }, "", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			within(t, days(9, 8, 1, 1, 0), func(b *bench) {
				b.set(func() { c.change(b) })
				b.pass(2 * time.Minute)
				b.expect(t, c.removed)
				if !strings.Contains(b.lines.String(), c.says) {
					t.Errorf("no line with %q:\n%s", c.says, b.lines.String())
				}
			})
		})
	}
}

func TestNothingToRemoveIsToldOnce(t *testing.T) {
	within(t, days(0), func(b *bench) {
		b.used.Log = 0.9
		b.pass(time.Hour)
		if got := strings.Count(b.lines.String(), "no segment of the commit log can be removed"); got != 1 {
			t.Errorf("told %d times:\n%s", got, b.lines.String())
		}
		b.set(func() { b.used.Log = 0.1 })
		b.pass(time.Minute)
		b.set(func() { b.used.Log = 0.9 })
		b.pass(time.Minute)
		if got := strings.Count(b.lines.String(), "no segment"); got != 2 {
			t.Errorf("told %d times:\n%s", got, b.lines.String())
		}
	})
	within(t, days(9, 0), func(b *bench) {
		b.used.Log, b.needed = 0.9, true
		b.pass(time.Hour)
		b.expect(t, "")
		b.set(func() { b.needed = false })
		b.pass(time.Minute)
		b.expect(t, "a")
	})
}

// What was derived is looked through at the first round, for the process may have been killed before it had gone, and until it could be done.
func TestTrimIsTriedAgain(t *testing.T) {
	within(t, days(0), func(b *bench) {
		b.trimErr = errors.New("no")
		b.pass(time.Minute + 20*time.Second)
		if b.trims != 3 {
			t.Errorf("tried %d times", b.trims)
		}
		b.set(func() { b.trimErr = nil })
		b.pass(time.Hour)
		if b.trims != 4 {
			t.Errorf("tried %d times", b.trims)
		}
	})
}

func TestCloseEndsAPause(t *testing.T) {
	within(t, days(9, 9, 0), func(b *bench) {
		b.settings.PauseMS = 3_600_000
		b.cleaner.Order()
		b.pass(time.Second)
		b.expect(t, "a")
	})
}

func TestValidate(t *testing.T) {
	good := retention.Defaults()
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"", "24", "-1", "4,16", "04;", "x", "1e0"} {
		s := retention.Defaults()
		s.DeleteWhen = text
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "deleteWhen") {
			t.Errorf("deleteWhen %q: %v", text, err)
		}
	}
	for key, harm := range map[string]func(s *retention.Settings){
		"fileReservedTime":             func(s *retention.Settings) { s.ReservedMS = -1 },
		"cleanResourceInterval":        func(s *retention.Settings) { s.IntervalMS = 0 },
		"deleteCommitLogFilesInterval": func(s *retention.Settings) { s.PauseMS = -1 },
		"deleteFileBatchMax":           func(s *retention.Settings) { s.BatchMax = 0 },
		"diskMaxUsedSpaceRatio":        func(s *retention.Settings) { s.MaxUsed = 0 },
		"diskSpaceCleanForciblyRatio":  func(s *retention.Settings) { s.CleanForcibly = 1.1 },
	} {
		s := retention.Defaults()
		harm(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}
