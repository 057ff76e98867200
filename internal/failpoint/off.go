//go:build !failpoints

package failpoint

// Enabled tells whether this binary was built with failpoints.
const Enabled = false

// Hit does nothing in this build.
func Hit(string) {}
