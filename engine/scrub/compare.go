package scrub

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"ringmq/engine/message"
	"ringmq/engine/seal"
	"ringmq/engine/segment"
)

// compare reads a sealed segment from the device and judges what differs.
func (s *Scrubber) compare(f *segment.File, st *state) {
	base := message.Offset(f.Base())
	sl, err := seal.Read(seal.Path(s.o.Dir, base))
	if err == nil && sl.Size != f.Size() {
		err = fmt.Errorf("scrub: seal of %s: %w: it is of a segment of %d bytes, this one has %d", f.Name(), seal.ErrInvalid, sl.Size, f.Size())
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.o.Logger.Warn("a seal cannot be used, the segment is sealed again", "segment", f.Name(), "error", err)
		}
		st.sealed, st.seen = false, never
		return
	}
	differ, err := s.differing(f, &sl)
	if s.failed(f, st, err) {
		return
	}
	if len(differ) == 0 && s.damages.forget(base, true) > 0 {
		s.o.Logger.Info("a damaged segment of the commit log reads again as it was sealed", "segment", f.Name())
	}
	if len(differ) > 0 && s.failed(f, st, s.judge(f, &sl, differ)) {
		return
	}
	s.tellSealed(f, &sl)
	st.seen, s.failing = s.o.Now(), false
	s.stamp(base, st.seen)
	s.o.Metrics.Compared.Add(1)
}

// other is a block that is not as it was sealed.
type other struct {
	block int
	err   error // of the device; nil: it was read, and differs
}

// differing reads every block of a segment from the device and returns those that are not as they were sealed. One that is not is read twice.
func (s *Scrubber) differing(f *segment.File, sl *seal.Seal) (list []other, err error) {
	device, err := f.OpenDevice()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, device.Close()) }()
	cached := f.Cached()
	var p pace
	for i := range sl.Blocks {
		same, err := s.readBlock(device, sl, i)
		if !same {
			same, err = s.readBlock(device, sl, i)
		}
		if !same {
			list = append(list, other{i, err})
		}
		n := int64(sl.Block(i).To - sl.Block(i).From)
		s.o.Metrics.ScrubbedBytes.Add(n)
		if unit := i * seal.BlockSize / segment.CacheUnit; !device.Direct() && !cached[unit] {
			from := int64(unit) * segment.CacheUnit
			f.Uncache(from, min(from+segment.CacheUnit, f.Size()))
		}
		rate := s.o.Settings().BytesPerSecond
		if rate <= 0 || !s.pause(&p, n, rate, false) {
			return nil, errStopped
		}
	}
	return list, nil
}

func (s *Scrubber) readBlock(device segment.Device, sl *seal.Seal, i int) (same bool, err error) {
	at := sl.Block(i)
	want := int(at.To - at.From)
	n, err := device.ReadAt(s.buffer, int64(at.From-sl.Base))
	return err == nil && n >= want && sl.Holds(i, s.buffer[:want]), err
}

// judge says what it means that blocks of a segment are not as they were sealed. If all of its records are whole, and they are others than
// those of the seal, another broker wrote it anew: it gets a new seal, and sl becomes that. Everything else is damage.
func (s *Scrubber) judge(f *segment.File, sl *seal.Seal, differ []other) error {
	now, err := s.make(f)
	if errors.Is(err, errStopped) {
		return err
	}
	if err == nil && now.Digest != sl.Digest && !damagedAnew(&now, sl) {
		*sl = now
		return s.sealAgain(f, sl, differ)
	}
	for i := 0; i < len(differ); {
		to := i + 1
		for to < len(differ) && differ[to].block == differ[to-1].block+1 && (differ[to].err == nil) == (differ[i].err == nil) {
			to++
		}
		s.tell(f, seal.Stretch{From: sl.Block(differ[i].block).From, To: sl.Block(differ[to-1].block).To}, s.reason(sl, &now, err, differ[i:to]), false)
		i = to
	}
	return nil
}

// damagedAnew tells whether anything holds no whole record that did when the segment was sealed.
func damagedAnew(now, sl *seal.Seal) bool {
	return slices.ContainsFunc(now.Damaged, func(d seal.Stretch) bool {
		return !slices.ContainsFunc(sl.Damaged, func(known seal.Stretch) bool { return known.From <= d.From && d.To <= known.To })
	})
}

// sealAgain gives a segment that another broker wrote anew its new seal. What is damaged in it was so before.
func (s *Scrubber) sealAgain(f *segment.File, now *seal.Seal, differ []other) error {
	if err := s.save(f, now); err != nil {
		return err
	}
	s.o.Metrics.Sealed.Add(1)
	s.o.Metrics.Resealed.Add(1)
	s.damages.forget(now.Base, false)
	s.o.Logger.Warn("a segment was written anew by another broker, all its records are whole, and it is sealed again", "segment", f.Name(),
		"from block", differ[0].block, "blocks", len(differ), "records", now.Records)
	return nil
}

// reason says of a row of blocks what is wrong. now is what the page cache shows, unless that could not be read.
func (s *Scrubber) reason(sl, now *seal.Seal, err error, row []other) string {
	if row[0].err != nil {
		return "the device cannot read it: " + row[0].err.Error()
	}
	const changed = "the bytes are not those that were sealed"
	if err != nil {
		return changed + "; " + err.Error()
	}
	from, to := sl.Block(row[0].block).From, sl.Block(row[len(row)-1].block).To
	for _, d := range now.Damaged {
		if d.From < to && d.To > from {
			return fmt.Sprintf("%s; at %d to %d stands no whole record", changed, d.From, d.To)
		}
	}
	if !slices.ContainsFunc(row, func(o other) bool { return now.Blocks[o.block] != sl.Blocks[o.block] }) {
		return changed + "; those in the page cache still are"
	}
	return changed + "; its records are whole: the change is where none of their checksums covers it"
}
