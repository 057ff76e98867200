//go:build invariants

package segment_test

import "testing"

func TestSecondReleasePanics(t *testing.T) {
	t.Parallel()
	set := openSet(t, storeOf(fileSize, 0), fileSize)
	v, _ := set.View(0, 10)
	copied := v
	v.Release()
	mustBug(t, "View released twice", v.Release)
	mustBug(t, "View released twice", copied.Release)
}

func TestReleasedPoolViewIsRuined(t *testing.T) {
	t.Parallel()
	p := newPool(t, 4096)
	p.Put(0, []byte("abc"))
	v, _ := p.View(0, 3)
	kept := v.Bytes
	v.Release()
	if string(kept) == "abc" {
		t.Error("bytes kept beyond Release are still right")
	}
}
