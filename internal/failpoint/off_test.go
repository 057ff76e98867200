//go:build !failpoints

package failpoint

import "testing"

// TestHitCostsNothing holds the promise that a build without the tag has no failpoints at all.
func TestHitCostsNothing(t *testing.T) {
	t.Setenv("RINGMQ_FAILPOINT", BeforeStamp)
	if Enabled {
		t.Fatal("Enabled is true without the build tag")
	}
	Hit(BeforeStamp) // would kill the test
	if n := testing.AllocsPerRun(100, func() { Hit(AfterCopy) }); n != 0 {
		t.Errorf("Hit allocates %v times", n)
	}
}
