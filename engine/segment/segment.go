// Package segment keeps mapped files of one fixed size, the memory pool that appends go to, and counted views of both.
// It knows no message. Positions are plain int64: byte positions in the logical file that all files of a Set form.
package segment

import "time"

// Storage is one directory of fixed-size files; the seam for faults. Names are plain file names.
type Storage interface {
	List() ([]Info, error)                           // sorted by name, stray names included
	Open(name string, size int64) (Backing, error)   // error if it is missing or of another size
	Create(name string, size int64) (Backing, error) // really allocated, all zero, file and directory durable; fails if it exists
	Resize(name string, size int64) error            // recovery only: pads with allocated zeros or cuts
	Remove(name string) error                        // durable
	MoveTo(name, path string) error                  // durable in both directories
}

type Info struct {
	Name    string
	Size    int64
	ModTime time.Time
}

// Backing is one open file. All flushes go through the one descriptor that was opened before its first write.
type Backing interface {
	Bytes() []byte                            // the whole file, mapped; read only unless the storage is made writable
	WriteAt(pieces [][]byte, off int64) error // all or an error; short writes are continued
	Sync() error                              // fdatasync
	Fd() int                                  // -1 when there is none
	Close() error
}

// File is a file of a Set, counted by holds: its bytes stay mapped until the last hold is released, also when it has been
// removed from the Set meanwhile.
type File struct{}

func (f *File) Base() int64                         { panic("unbuilt") } // position of its first byte = its name
func (f *File) Size() int64                         { panic("unbuilt") }
func (f *File) Name() string                        { panic("unbuilt") } // 20 digits
func (f *File) Bytes() []byte                       { panic("unbuilt") }
func (f *File) WriteAt(p [][]byte, off int64) error { panic("unbuilt") } // off inside the file; marks it dirty
func (f *File) Sync() error                         { panic("unbuilt") } // plain fdatasync
func (f *File) Fd() int                             { panic("unbuilt") }
func (f *File) Hold() bool                          { panic("unbuilt") } // false when it is already closing
func (f *File) Release()                            { panic("unbuilt") }

// Set is the ordered files of one directory. Reading it takes no lock; one owner at a time changes it.
type Set struct{}

type SetOptions struct {
	Size    int64 // bytes of each file
	Storage Storage
}

// OpenSet opens every well-named file, in order. Repairs (wrong sizes) are the caller's, before.
func OpenSet(o SetOptions) (*Set, error)   { panic("unbuilt") }
func (s *Set) Files() []*File              { panic("unbuilt") }
func (s *Set) Find(off int64) *File        { panic("unbuilt") } // nil if no file covers off
func (s *Set) First() *File                { panic("unbuilt") } // nil if empty
func (s *Set) Last() *File                 { panic("unbuilt") }
func (s *Set) Add(f *File)                 { panic("unbuilt") } // its base is the end of the last file
func (s *Set) RemoveFirst() error          { panic("unbuilt") } // retention
func (s *Set) RemoveFrom(base int64) error { panic("unbuilt") } // recovery: files at or above base
func (s *Set) Close() error                { panic("unbuilt") }

// View is bytes that stay valid until Release, which must happen exactly once. From the mapping it holds the file; from the
// pool it owns a copied buffer.
type View struct {
	Bytes []byte
}

func (v *View) Release() { panic("unbuilt") }

// View holds [off, off+n) of the mapping, cut at the end of the file.
func (s *Set) View(off int64, n int) (View, bool) { panic("unbuilt") }

// Preparer makes the next file ahead in the background: allocated, O_DIRECT zeros at a bounded rate (ZeroBytesPerSecond, 0 =
// allocate only), file and directory fsynced.
type Preparer struct{}

type PreparerOptions struct {
	Storage            Storage
	Size               int64
	Zero               bool
	ZeroBytesPerSecond int64
	Failed             func(base int64, err error)
}

func NewPreparer(o PreparerOptions) *Preparer                        { panic("unbuilt") }
func (p *Preparer) Prepare(base int64)                               { panic("unbuilt") } // ask; returns at once
func (p *Preparer) Take(base int64) (f *File, ready bool, err error) { panic("unbuilt") } // never waits
func (p *Preparer) Wait(base int64) (*File, error)                   { panic("unbuilt") } // waits for it
func (p *Preparer) Close() error                                     { panic("unbuilt") } // a file not taken stays in the directory, all zero

// Pool is the ring of anonymous, mlock'd memory that producers copy into. Position off lives at off % Size. One appender at
// a time (the put lock) calls Put and Zero; the committer reads Pieces; it alone moves Free forward.
type Pool struct{}

type PoolOptions struct {
	Size   int64
	Lock   bool                         // mlock in the background in slices of at most 64 MiB
	Locked func(bytes int64, err error) // progress, may be nil
}

func NewPool(o PoolOptions) (*Pool, error)                   { panic("unbuilt") }
func (p *Pool) Start(off int64)                              { panic("unbuilt") } // everything before off is free
func (p *Pool) Room(end int64) bool                          { panic("unbuilt") } // may bytes up to end be put?
func (p *Pool) Put(off int64, b []byte)                      { panic("unbuilt") }
func (p *Pool) Zero(off int64, n int64)                      { panic("unbuilt") }
func (p *Pool) Pieces(from, to int64, dst [][]byte) [][]byte { panic("unbuilt") } // at most two, appended to dst
func (p *Pool) Free(off int64)                               { panic("unbuilt") } // bytes before off may be overwritten
func (p *Pool) View(from int64, n int) (View, bool)          { panic("unbuilt") } // a copy; false when it was overwritten meanwhile
func (p *Pool) Close() error                                 { panic("unbuilt") }
