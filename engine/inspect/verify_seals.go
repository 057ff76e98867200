package inspect

import (
	"fmt"
	"path/filepath"
	"runtime/debug"

	"ringmq/engine/message"
	"ringmq/engine/seal"
	"ringmq/engine/segment"
)

// sealState is what a verifier knows of the seals of full segments.
type sealState struct {
	dir   string
	files map[int64]bool // seals that no segment has come for, by base
	maker *seal.Maker    // of the segment that is walked, nil: it has no seal
	seal  seal.Seal      // of that segment
}

func (v *verifier) planSeals() {
	x := &v.seals
	x.dir = filepath.Join(v.s.dir, "ringmq", "seals")
	files, err := seal.List(x.dir, false)
	if err != nil {
		v.addSeal(Unfinished, x.dir, -1, 0, err.Error())
	}
	x.files = make(map[int64]bool, len(files))
	for _, f := range files {
		x.files[int64(f.Base)] = true
	}
}

// beginSeal reads the seal of a segment that is going to be walked.
func (v *verifier) beginSeal(f *segmentFile) {
	x := &v.seals
	x.maker = nil
	if !x.files[f.base] {
		return
	}
	delete(x.files, f.base)
	path := seal.Path(x.dir, message.Offset(f.base))
	var err error
	if x.seal, err = seal.Read(path); err != nil {
		if !v.report.InUse { // it may be removed with its segment
			v.addSeal(Unfinished, path, f.base, 0, fmt.Sprintf("the next start seals the segment again: %v", err))
		}
		return
	}
	x.maker = seal.NewMaker(x.seal.Base, x.seal.Size)
}

// endSeal compares a segment, all of which was walked, with its seal. full says that the log goes on behind it.
func (v *verifier) endSeal(w *walk, full bool) {
	x := &v.seals
	maker := x.maker
	if x.maker = nil; maker == nil || v.report.InUse && !full {
		return
	}
	path := seal.Path(x.dir, x.seal.Base)
	if int64(len(w.b)) < x.seal.Size || !full {
		v.addSeal(Unfinished, path, w.f.base, 0, "it is of a full segment, which this one is not; the next start removes it")
		return
	}
	var err error
	func() {
		defer segment.CatchFault(&err, "inspect: segment "+w.f.name, debug.SetPanicOnFault(true))
		for from, to := maker.Next(); from < to; from, to = maker.Next() {
			maker.Block(w.b[from:to])
		}
	}()
	if err != nil {
		return // its records have told
	}
	v.report.Sealed++
	v.compareSeal(path, w, maker.Seal())
}

// compareSeal tells bytes that have changed by themselves from those that another broker has written since.
func (v *verifier) compareSeal(path string, w *walk, made seal.Seal) {
	sealed := &v.seals.seal
	first, differ := -1, int64(0)
	for i := range sealed.Blocks {
		if made.Blocks[i] != sealed.Blocks[i] {
			if differ++; first < 0 {
				first = i
			}
		}
	}
	if differ == 0 {
		return
	}
	hole := len(v.index.holes) > 0 && v.index.holes[len(v.index.holes)-1].To > w.f.base
	if v.s.State.Lock.Last == "java" && !hole && made.Digest != sealed.Digest {
		v.addSeal(Unfinished, path, w.f.base, differ, "another broker has written the segment since it was sealed; the next start seals it again")
		return
	}
	block := sealed.Block(first)
	f := Finding{Kind: KindSeal, Severity: Damage, Path: w.f.path, Offset: int64(block.From), Number: int64(first), Count: differ, Lasting: true,
		Text: fmt.Sprintf("block %d, bytes %d to %d of the log, is not as it was sealed%s", first, block.From, block.To, andMore(differ))}
	v.report.add(f)
}

// finishSeals looks at seals that no segment has come for.
func (v *verifier) finishSeals() {
	if n := int64(len(v.seals.files)); n > 0 && !v.report.InUse {
		v.addSeal(Unfinished, v.seals.dir, -1, n, count(n, "seal")+" of no segment; the next start removes what it does not need")
	}
}

func (v *verifier) addSeal(severity Severity, path string, offset, n int64, text string) {
	v.report.add(Finding{Kind: KindSeal, Severity: severity, Path: path, Offset: offset, Number: -1, Count: n, Text: text})
}
