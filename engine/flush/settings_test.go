package flush

import (
	"testing"
	"testing/synctest"
	"time"

	"ringmq/engine/message"
)

// pass lets time go by and checks whether the log is flushed then.
func (r *rig) pass(d time.Duration, flushed bool, what string) {
	r.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	if is := r.log.Flushed() == r.log.End(); is != flushed {
		r.t.Errorf("%s: flushed %d of %d", what, r.log.Flushed(), r.log.End())
	}
}

func (r *rig) change(change func(s *Settings)) {
	r.set(change)
	r.service.SettingsChanged()
	synctest.Wait()
}

// Each setting of the flusher is followed at once, also by an interval that is under way.
func TestFlushSettingsChangeLive(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T) {
		const hour = int64(time.Hour / time.Millisecond)
		r := newRig(t, false, func(r *rig) {
			r.settings = Settings{FlushIntervalMS: hour, FlushLeastPages: 0, FlushThoroughIntervalMS: never, FlushTimed: true}
		})
		r.put(&r.service.Committed, 0)
		r.pass(10*time.Minute, false, "in an hour")

		r.change(func(s *Settings) { s.FlushIntervalMS = hour / 4 })
		r.pass(5*time.Minute-time.Millisecond, false, "the interval began with the last flush, not with the change")
		r.pass(time.Millisecond, true, "after the shorter interval")

		// An interval that is over by the new setting ends at once; many changes do not put it off.
		r.put(&r.service.Committed, 0)
		r.pass(2*time.Minute, false, "within a quarter")
		for range 10 {
			r.change(func(s *Settings) { s.FlushIntervalMS += 1000 })
			time.Sleep(time.Second)
		}
		r.change(func(s *Settings) { s.FlushIntervalMS = 1000 })
		r.pass(0, true, "the interval is over already")

		r.change(func(s *Settings) { s.FlushLeastPages = 2 })
		r.put(&r.service.Committed, 0)
		r.pass(time.Minute, false, "less than two pages")
		r.change(func(s *Settings) { s.FlushLeastPages = 0 })
		r.pass(time.Second, true, "no least number of pages")

		r.change(func(s *Settings) { s.FlushIntervalMS, s.FlushTimed = hour, false })
		r.put(&r.service.Committed, 0)
		r.pass(0, true, "not timed: flushed when it was written")
		r.change(func(s *Settings) { s.FlushTimed = true })
		r.put(&r.service.Committed, 0)
		r.pass(time.Minute, false, "timed again")
		r.end(true)
	})
}

// The thorough interval is followed at once, with ASYNC_FLUSH and with SYNC_FLUSH.
func TestThoroughIntervalChangesLive(t *testing.T) {
	t.Parallel()
	for _, sync := range []bool{false, true} {
		in(t, func(t *testing.T) {
			r := newRig(t, sync, func(r *rig) {
				r.settings = Settings{FlushIntervalMS: never, FlushLeastPages: 4, FlushThoroughIntervalMS: never, FlushTimed: true}
			})
			marked := func(want message.Offset, what string) {
				t.Helper()
				synctest.Wait()
				marks, _ := r.told()
				last := message.Offset(0)
				if len(marks) > 0 {
					last = marks[len(marks)-1]
				}
				if last != want {
					t.Errorf("sync %v, %s: marks %v, want %d", sync, what, marks, want)
				}
			}
			r.put(&r.service.Committed, 0)
			time.Sleep(time.Hour)
			marked(0, "never")
			r.change(func(s *Settings) { s.FlushThoroughIntervalMS = 2 * 3_600_000 })
			marked(0, "after another hour")
			time.Sleep(time.Hour)
			marked(r.log.End(), "after two hours")
			r.put(&r.service.Committed, 0)
			time.Sleep(time.Minute)
			r.change(func(s *Settings) { s.FlushThoroughIntervalMS = 30_000 })
			marked(r.log.End(), "over already")
			r.end(true)
		})
	}
}

// Changes while everything runs: no wait is lost, and nothing blocks.
func TestSettingsChangeUnderLoad(t *testing.T) {
	t.Parallel()
	r := newRig(t, false, nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 500 {
			r.set(func(s *Settings) { s.FlushIntervalMS, s.FlushTimed, s.FlushLeastPages = int64(i%7), i%2 == 0, i%3 })
			r.service.SettingsChanged()
		}
	}()
	var all []*waiter
	for range 500 {
		all = append(all, r.put(&r.service.Flushed, 0))
	}
	<-done
	if err := r.service.FlushAll(); err != nil {
		t.Error(err)
	}
	answered(t, "after all", nil, all...)
	r.end(true)
}
