// Package failpoint marks the places where the crash suite kills the process. Without the build tag "failpoints" Hit is an
// empty function that the compiler removes, so that a place costs nothing.
//
// With the tag, the environment variable RINGMQ_FAILPOINT chooses one place and how often it is passed before it strikes:
//
//	RINGMQ_FAILPOINT=name            kill -9 of the own process at the first pass
//	RINGMQ_FAILPOINT=name:count      at the count-th pass
//	RINGMQ_FAILPOINT=name:count:stop SIGSTOP instead, so that the one who watches can look at the files before it kills
package failpoint

// The places there are. They stand in the order in which one put passes them.
const (
	BeforeStamp = "beforeStamp" // under the put lock, before queue offset, own offset and store time are known
	AfterCopy   = "afterCopy"   // under the put lock, bytes copied, End not published
	MidRoll     = "midRoll"     // under the put lock, end record placed, next segment not begun
	BeforeWrite = "beforeWrite" // committer, before the write of a batch
	AfterWrite  = "afterWrite"  // committer, batch in the page cache, committed not published
	BeforeSync  = "beforeSync"  // flusher, before fdatasync
	AfterSync   = "afterSync"   // flusher, fdatasync returned, nobody told
	MidCut      = "midCut"      // recovery, tail saved, not erased
)
