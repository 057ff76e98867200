package segment

import (
	"errors"
	"fmt"
	"sort"
	"sync"
	"sync/atomic"
)

// Set is the ordered files of one directory. Reading it takes no lock. Its files are changed by whoever appends (Add) and by
// whoever retires old ones (RemoveFirst); a short lock keeps the two apart, never held over a disk operation.
type Set struct {
	size    int64
	storage Storage
	metrics *Metrics

	files atomic.Pointer[[]*File] // sorted by base; the slice is immutable, a change publishes a new one
	mu    sync.Mutex              // changers only
}

// SetOptions are the options of OpenSet.
type SetOptions struct {
	Size    int64 // bytes of each file
	Storage Storage
	Metrics *Metrics // may be nil
}

// Gap is a stretch [From, To) between two files of a Set that no file covers.
type Gap struct{ From, To int64 }

// OpenSet opens every well-named file, in order, and ignores stray names. Repairs (wrong sizes) are the caller's, before. A
// gap between files is tolerated, see Gaps; files that overlap are an error.
func OpenSet(o SetOptions) (*Set, error) {
	if o.Size <= 0 {
		return nil, fmt.Errorf("segment: file size %d: must be above 0", o.Size)
	}
	infos, err := o.Storage.List()
	if err != nil {
		return nil, err
	}
	s := &Set{size: o.Size, storage: o.Storage, metrics: o.Metrics.orNew()}
	s.files.Store(new([]*File))
	var files []*File
	for _, info := range infos {
		base, ok := ParseName(info.Name)
		if !ok {
			continue
		}
		if n := len(files); n > 0 && base < files[n-1].End() {
			err = fmt.Errorf("segment: file %s begins inside file %s of %d bytes", info.Name, files[n-1].name, o.Size)
			return nil, errors.Join(err, retireAll(files))
		}
		b, err := o.Storage.Open(info.Name, o.Size)
		if err != nil {
			return nil, errors.Join(err, retireAll(files))
		}
		s.metrics.Opened.Add(1)
		f := NewFile(base, b)
		f.metrics = s.metrics
		files = append(files, f)
	}
	s.files.Store(&files)
	return s, nil
}

// Size is the number of bytes of each file.
func (s *Set) Size() int64 { return s.size }

// Files are all files in order. The caller must not alter the slice, and must Hold a file before it touches its bytes unless
// it is the one who removes files.
func (s *Set) Files() []*File { return *s.files.Load() }

// Gaps are the stretches between files that no file covers, in order.
func (s *Set) Gaps() []Gap {
	var gaps []Gap
	files := s.Files()
	for i := 1; i < len(files); i++ {
		if from, to := files[i-1].End(), files[i].base; from < to {
			gaps = append(gaps, Gap{from, to})
		}
	}
	return gaps
}

// Find returns the file that covers off, nil if there is none. Without gaps that is one division.
func (s *Set) Find(off int64) *File {
	files := s.Files()
	n := len(files)
	if n == 0 || off < files[0].base || off >= files[n-1].End() {
		return nil
	}
	// Files before off leave off at least its distance from the first file, so with gaps it can only be further to the left.
	i := min(int((off-files[0].base)/s.size), n-1)
	if f := files[i]; off >= f.base && off < f.End() {
		return f
	}
	i = sort.Search(i+1, func(i int) bool { return files[i].End() > off })
	if f := files[i]; off >= f.base {
		return f
	}
	return nil
}

// First is the oldest file, nil if the Set is empty.
func (s *Set) First() *File {
	if files := s.Files(); len(files) > 0 {
		return files[0]
	}
	return nil
}

// Last is the newest file, nil if the Set is empty.
func (s *Set) Last() *File {
	if files := s.Files(); len(files) > 0 {
		return files[len(files)-1]
	}
	return nil
}

// Add takes over f, whose base is the end of the last file; into an empty Set any base may come.
func (s *Set) Add(f *File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.Files()
	if f.size != s.size {
		panic(fmt.Sprintf("BUG: segment: file %s of %d bytes added to a set of %d", f.name, f.size, s.size))
	}
	if n := len(old); n > 0 && f.base != old[n-1].End() {
		panic(fmt.Sprintf("BUG: segment: file %s added behind %s of %d bytes", f.name, old[n-1].name, s.size))
	}
	f.metrics = s.metrics
	// A copy, since readers may hold the old slice and append could write into its array.
	files := make([]*File, 0, len(old)+1)
	files = append(append(files, old...), f)
	s.files.Store(&files)
}

// RemoveFirst removes the oldest file, durably; nothing happens if there is none. Views of it stay valid.
func (s *Set) RemoveFirst() error {
	f := s.First()
	if f == nil {
		return nil
	}
	return s.remove(f)
}

// RemoveFrom removes the files at or above base, last one first, so that what is left after a crash is always a beginning.
func (s *Set) RemoveFrom(base int64) error {
	for f := s.Last(); f != nil && f.base >= base; f = s.Last() {
		if err := s.remove(f); err != nil {
			return err
		}
	}
	return nil
}

// remove takes f out of the directory, then out of the set: if the first fails the set still tells the truth.
func (s *Set) remove(f *File) error {
	if err := s.storage.Remove(f.name); err != nil {
		return err
	}
	if !s.drop(f) {
		return nil // somebody else removed it at the same time, and retires it
	}
	s.metrics.Removed.Add(1)
	return f.retire()
}

func (s *Set) drop(f *File) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.Files()
	files := make([]*File, 0, len(old))
	for _, other := range old {
		if other != f {
			files = append(files, other)
		}
	}
	if len(files) == len(old) {
		return false
	}
	s.files.Store(&files)
	return true
}

// Close lets all files go. Views stay valid until they are released. Nothing is synced.
func (s *Set) Close() error {
	s.mu.Lock()
	files := s.Files()
	s.files.Store(new([]*File))
	s.mu.Unlock()
	return retireAll(files)
}

func retireAll(files []*File) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.retire())
	}
	return errors.Join(errs...)
}

// View holds [off, off+n) of the mapping, cut at the end of the file; false when no file covers off or n is not positive.
// It does not know up to where bytes were written: that is the caller's.
func (s *Set) View(off int64, n int) (View, bool) {
	f := s.Find(off)
	// A failing Hold means that the file was removed between Find and Hold: as if it had not been found.
	if f == nil || n <= 0 || !f.Hold() {
		return View{}, false
	}
	from := off - f.base
	to := min(from+int64(n), f.size)
	v := View{Bytes: f.bytes[from:to:to], file: f}
	v.check.armed()
	return v, true
}
