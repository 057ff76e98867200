package engine

// AskAlways makes the store ask the kernel of all bytes of the log whether they are in memory, also of those that were appended just now.
func AskAlways(s *Store) { s.recent = 0 }

// Keep has the keeper save a mark of all there is.
func Keep(s *Store) error { return s.keeper.Keep() }
