package engine

import "ringmq/engine/message"

// AskAlways makes the store ask the kernel of all bytes of the log whether they are in memory, also of those that were appended just now.
func AskAlways(s *Store) { s.recent = 0 }

// FlushAll writes out and flushes all there is.
func FlushAll(s *Store) error { return s.flusher.FlushAll() }

// Keep has the keeper save a mark of all there is.
func Keep(s *Store) error { return s.keeper.Keep() }

// Indexed is where the index of keys stands.
func Indexed(s *Store) message.Offset { return s.index.Next() }

// CatchUp puts into the index what was passed over, without the pause that follows an error.
func CatchUp(s *Store) { CatchUpTo(s, s.dispatcher.Dispatched()) }

// CatchUpTo is CatchUp of what stands before to.
func CatchUpTo(s *Store, to message.Offset) {
	for s.index.Next() < to && s.indexSome(s.index.Next(), to, nil) {
	}
}

// KeysBehind is what the dispatcher does when the index misses the record at at; as if the pause that follows an error were over.
func KeysBehind(s *Store, at message.Offset) bool {
	s.keys.waiting.Store(false)
	return s.keysBehind(at)
}

// ReadDamage and AppendDamage are the form of ringmq/damaged.
var (
	ReadDamage   = readDamage
	AppendDamage = appendDamage
)

// FlushDerived makes queues and index durable.
func FlushDerived(s *Store) error { return s.flushRecovered() }

// OpenQueuesWithin is how many queue files stay open when a process may open so many files.
var OpenQueuesWithin = openQueuesWithin
