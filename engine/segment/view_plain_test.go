//go:build !invariants

package segment_test

import "testing"

func TestSecondReleaseIsHarmless(t *testing.T) {
	t.Parallel()
	set := openSet(t, storeOf(fileSize, 0), fileSize)
	defer set.Close()
	v, _ := set.View(0, 10)
	v.Release()
	v.Release() // would panic for the file if it counted
}

func TestViewAllocatesNothing(t *testing.T) {
	set := openSet(t, storeOf(fileSize, 0, fileSize), fileSize)
	defer set.Close()
	if got := testing.AllocsPerRun(100, func() {
		v, ok := set.View(fileSize+10, 100)
		if !ok {
			t.Fatal("not found")
		}
		v.Release()
	}); got != 0 {
		t.Errorf("Set.View and Release allocate %v times", got)
	}
}
