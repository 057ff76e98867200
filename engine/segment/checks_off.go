//go:build !invariants

package segment

// checksEnabled says whether the costly checks of the build tag invariants are compiled in.
const checksEnabled = false

// releaseCheck finds a View that is released twice, also by way of a copy. Without the tag it is nothing.
type releaseCheck struct{}

func (c *releaseCheck) armed()    {}
func (c *releaseCheck) released() {}

// mangle ruins a buffer whose owner has let it go. Without the tag it does nothing.
func mangle([]byte) {}
