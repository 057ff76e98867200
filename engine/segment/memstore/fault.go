package memstore

// Op names an operation of the storage or of one of its files.
type Op string

// The operations that Inject can strike.
const (
	OpList   Op = "list"
	OpSettle Op = "settle"
	OpOpen   Op = "open"
	OpCreate Op = "create"
	OpResize Op = "resize"
	OpRemove Op = "remove"
	OpMove   Op = "move"
	OpWrite  Op = "write"
	OpSync   Op = "sync"
)

// Fault is something that goes wrong. Its fields are not to be changed after Inject.
type Fault struct {
	Op      Op
	Name    string          // of the file; "": any
	Nth     int             // strikes the n-th matching operation from now on; 0 is the next one
	Always  bool            // and every one after it
	Err     error           // what the operation returns; nil: it succeeds after Hold
	Short   int             // OpWrite: bytes written before Err
	Entered chan<- struct{} // closed when the fault first strikes, may be nil
	Hold    <-chan struct{} // the operation hangs until it is closed, may be nil

	seen   int
	struck bool
}

// err is nil for no fault.
func (f *Fault) err() error {
	if f == nil {
		return nil
	}
	return f.Err
}

// Inject arms f. Of several that match the one armed first strikes.
func (s *Storage) Inject(f *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, f)
}

// Heal disarms all faults; operations that hang go on hanging.
func (s *Storage) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// Count is how many operations of that kind were begun.
func (s *Storage) Count(op Op) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[op]
}

// run counts the operation and returns the fault that strikes it, nil if none, after hanging as long as that one wants.
func (s *Storage) run(op Op, name string) *Fault {
	f := s.strike(op, name)
	if f != nil && f.Hold != nil {
		<-f.Hold
	}
	return f
}

func (s *Storage) strike(op Op, name string) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[op]++
	var hit *Fault
	for _, f := range s.faults {
		if f.Op != op || f.Name != "" && f.Name != name {
			continue
		}
		f.seen++ // every fault counts for itself, also behind one that strikes
		if hit == nil && (f.seen == max(f.Nth, 1) || f.Always && f.seen > f.Nth) {
			hit = f
		}
	}
	if hit != nil && !hit.struck {
		hit.struck = true
		if hit.Entered != nil {
			close(hit.Entered)
		}
	}
	return hit
}
