package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"
)

// Preparer makes the next file ahead in the background: allocated, O_DIRECT zeros at a bounded rate, file and directory
// fsynced, mapped. So rolling to it never waits, and a later fdatasync of its blocks journals nothing. Files are made one
// after the other in the order they were asked for, by one goroutine.
type Preparer struct {
	o PreparerOptions

	mu   sync.Mutex
	jobs map[int64]*job // asked for and not taken
	todo []*job         // not begun
	shut bool

	wake chan struct{} // one slot: todo or shut has changed
	quit chan struct{} // closed by Close: stops a job under way
	done sync.WaitGroup
}

// PreparerOptions are the options of NewPreparer.
type PreparerOptions struct {
	Storage            Storage
	Size               int64
	Zero               bool                        // write zeros; otherwise files are only allocated
	ZeroBytesPerSecond int64                       // 0: 256 MiB/s
	Failed             func(base int64, err error) // a file could not be made; called by the goroutine; may be nil
	Metrics            *Metrics                    // may be nil
}

// defaultZeroRate makes a segment of 1 GiB in four seconds and leaves most of a device to the flusher.
const defaultZeroRate = 256 << 20

// job is one file that was asked for.
type job struct {
	base  int64
	hurry atomic.Bool   // somebody waits: allocated is enough
	ready chan struct{} // closed when file or err is set
	file  *File
	err   error
}

func (j *job) ended() bool {
	select {
	case <-j.ready:
		return true
	default:
		return false
	}
}

// NewPreparer starts the goroutine.
func NewPreparer(o PreparerOptions) *Preparer {
	if o.Size <= 0 {
		panic(fmt.Sprintf("BUG: segment: preparer for files of %d bytes", o.Size))
	}
	if o.ZeroBytesPerSecond <= 0 {
		o.ZeroBytesPerSecond = defaultZeroRate
	}
	o.Metrics = o.Metrics.orNew()
	p := &Preparer{o: o, jobs: make(map[int64]*job), wake: make(chan struct{}, 1), quit: make(chan struct{})}
	p.done.Go(p.run)
	return p
}

// Prepare asks for the file at base and returns at once. Asking again changes nothing, unless the last attempt failed: then
// there is another.
func (p *Preparer) Prepare(base int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ask(base)
}

// ask returns the job for base, a new one if there is none or it has failed. mu is held.
func (p *Preparer) ask(base int64) *job {
	j := p.jobs[base]
	if j != nil && !(j.ended() && j.err != nil) {
		return j
	}
	j = &job{base: base, ready: make(chan struct{})}
	if p.shut {
		j.err = fmt.Errorf("segment: prepare file %s: %w", Name(base), ErrClosed)
		close(j.ready)
		return j
	}
	p.jobs[base] = j
	p.todo = append(p.todo, j)
	p.signal()
	return j
}

func (p *Preparer) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Take gives away the file at base if it is ready; it never waits. Otherwise ready is false, and err is why the last attempt
// failed, nil if it is under way or nobody has asked.
func (p *Preparer) Take(base int64) (f *File, ready bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	j := p.jobs[base]
	if j == nil || !j.ended() {
		return nil, false, nil
	}
	if j.err != nil {
		return nil, false, j.err
	}
	delete(p.jobs, base)
	return j.file, true, nil
}

// Wait asks for the file at base, waits for it, and takes it. While it waits the file is made in a hurry: what is not yet
// written as zeros stays allocated only.
func (p *Preparer) Wait(base int64) (*File, error) {
	p.mu.Lock()
	j := p.ask(base)
	p.mu.Unlock()
	if err := p.await(j); err != nil {
		return nil, err
	}
	f, ready, err := p.Take(base)
	if !ready && err == nil {
		err = fmt.Errorf("segment: file %s: taken by somebody else meanwhile", Name(base))
	}
	return f, err
}

// Await waits until the file at base is ready to be taken, in a hurry as Wait does, and leaves it for Take; any number may
// wait. It returns the error of a failed attempt, and nil at once when nobody has asked for base or it has been taken.
func (p *Preparer) Await(base int64) error {
	p.mu.Lock()
	j := p.jobs[base]
	p.mu.Unlock()
	if j == nil {
		return nil
	}
	return p.await(j)
}

func (p *Preparer) await(j *job) error {
	if !j.ended() {
		p.o.Metrics.PrepareWaits.Add(1)
	}
	j.hurry.Store(true)
	<-j.ready
	return j.err
}

// Close ends the goroutine. Files not taken are closed and stay in the directory, all zero; who waits gets ErrClosed.
func (p *Preparer) Close() error {
	p.mu.Lock()
	if p.shut {
		p.mu.Unlock()
		return nil
	}
	p.shut = true
	close(p.quit)
	p.mu.Unlock()
	p.done.Wait()

	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for base, j := range p.jobs {
		delete(p.jobs, base)
		if j.file != nil {
			errs = append(errs, j.file.retire())
		}
	}
	return errors.Join(errs...)
}

func (p *Preparer) run() {
	for {
		j, shut := p.next()
		switch {
		case j != nil && shut:
			p.end(j, nil, ErrClosed)
		case j != nil:
			p.make(j)
		case shut:
			return
		default:
			select {
			case <-p.wake:
			case <-p.quit:
			}
		}
	}
}

func (p *Preparer) next() (j *job, shut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.todo) == 0 {
		return nil, p.shut
	}
	j = p.todo[0]
	p.todo = p.todo[1:]
	return j, p.shut
}

func (p *Preparer) make(j *job) {
	start := time.Now()
	b, err := p.makeBacking(j)
	p.o.Metrics.PrepareNS.Add(int64(time.Since(start)))
	if err != nil {
		p.o.Metrics.PrepareFailed.Add(1)
		if p.o.Failed != nil {
			p.o.Failed(j.base, err)
		}
		p.end(j, nil, err)
		return
	}
	p.o.Metrics.Prepared.Add(1)
	p.end(j, NewFile(j.base, b), nil)
}

// end publishes the outcome of a job. Take looks at it under mu, those who wait through the channel.
func (p *Preparer) end(j *job, f *File, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if errors.Is(err, ErrClosed) {
		err = fmt.Errorf("segment: prepare file %s: %w", Name(j.base), err)
	}
	j.file, j.err = f, err
	close(j.ready)
}

func (p *Preparer) makeBacking(j *job) (Backing, error) {
	name := Name(j.base)
	b, err := p.o.Storage.Create(name, p.o.Size)
	switch {
	case errors.Is(err, fs.ErrExist):
		if b, err = p.reuse(name); err != nil {
			return nil, err
		}
		p.o.Metrics.PrepareReused.Add(1)
	case err != nil:
		return nil, err
	}
	if !p.o.Zero {
		return b, nil
	}
	if err := p.zero(j, b); err != nil {
		// Whether its blocks can be trusted is not known; an attempt with fresh ones is better.
		return nil, errors.Join(err, b.Close(), p.o.Storage.Remove(name))
	}
	return b, nil
}

// reuse opens a file that an earlier run made ahead and did not take.
func (p *Preparer) reuse(name string) (Backing, error) {
	b, err := p.o.Storage.Open(name, p.o.Size)
	if err != nil {
		return nil, err
	}
	if at, err := firstNonZero(b); at >= 0 || err != nil {
		if err == nil {
			err = fmt.Errorf("segment: leftover file %s: %w: byte at %d", name, ErrNotZero, at)
		}
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// zero writes zeros over the blocks of b that are not written yet, if its storage knows how to, and syncs.
func (p *Preparer) zero(j *job, b Backing) error {
	z, ok := b.(zeroer)
	if !ok {
		return nil
	}
	stop := func() bool { return j.hurry.Load() }
	written, err := z.zero(pacer{bytesPerSecond: p.o.ZeroBytesPerSecond, quit: p.quit, hurry: stop})
	p.o.Metrics.ZeroedBytes.Add(written)
	if err != nil || written == 0 {
		return err
	}
	select {
	case <-p.quit:
		return nil // nobody takes the file any more, and whoever opens it syncs it
	default:
		return b.Sync()
	}
}
