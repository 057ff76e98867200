package dispatch_test

import (
	"slices"
	"strings"
	"testing"

	"ringmq/engine/dispatch"
)

func TestParseDelays(t *testing.T) {
	f := func(levels string, want dispatch.Delays, says string) {
		t.Helper()
		got, err := dispatch.ParseDelays(levels)
		if !slices.Equal(got, want) || (err != nil) != (says != "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, %v, want %v, %q", levels, got, err, want, says)
		}
	}
	f("1s", dispatch.Delays{1000}, "")
	f("  2s  3m 1h 2d 0s ", dispatch.Delays{2000, 180_000, 3_600_000, 172_800_000, 0}, "")
	f("", nil, "at least one")
	f("1s 5x", nil, `delay level 2 is "5x"`)
	f("s", nil, `delay level 1 is "s"`)
	f("-1s", nil, "delay level 1")
	f("1s 99999999999999s", nil, "delay level 2")
	defaults, err := dispatch.ParseDelays(dispatch.DefaultDelays)
	if err != nil || len(defaults) != 18 || defaults.Of(1) != 1000 || defaults.Of(18) != 7_200_000 || defaults.Of(99) != 7_200_000 {
		t.Errorf("default levels %v, %v", defaults, err)
	}
}
