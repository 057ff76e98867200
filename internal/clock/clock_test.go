package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestElapsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := Elapsed()
		if at := now(); at != 0 {
			t.Errorf("begins at %d", at)
		}
		time.Sleep(1500 * time.Millisecond)
		if at := now(); at != 1500 {
			t.Errorf("%d after 1500 ms", at)
		}
	})
}
