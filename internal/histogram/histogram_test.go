package histogram

import "testing"

func TestHistogram(t *testing.T) {
	var h Histogram
	for _, v := range []int64{0, 1, 2, 3, 4, 5, 1024, 1025, 1 << 24, 1<<24 + 1, 1 << 40} {
		h.Add(v)
	}
	want := map[int64]int64{1: 2, 2: 3, 4: 5, 8: 6, 512: 6, 1024: 7, 2048: 8, 1 << 24: 9}
	count, sum := h.Counts(func(upTo, count int64) {
		if n, ok := want[upTo]; ok && n != count {
			t.Errorf("up to %d: %d, want %d", upTo, count, n)
		}
		delete(want, upTo)
	})
	if count != 11 || sum != 15+1024+1025+1<<24+1<<24+1+1<<40 || len(want) > 0 {
		t.Errorf("count %d, sum %d, bounds not seen %v", count, sum, want)
	}
	if n := testing.AllocsPerRun(100, func() { h.Add(77) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
