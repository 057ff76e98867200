package segment

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// lazyWriter takes a random part of every write, or an error.
type lazyWriter struct {
	rng  *rand.Rand
	data []byte
	fail error // the next call returns it
}

func (w *lazyWriter) writePieces(pieces [][]byte, off int64) (int, error) {
	if err := w.fail; err != nil {
		w.fail = nil
		return 0, err
	}
	all := bytes.Join(pieces, nil)
	if w.rng.IntN(4) == 0 {
		w.fail = unix.EINTR
	}
	return copy(w.data[off:], all[:1+w.rng.IntN(len(all))]), nil
}

func TestWriteAllGoesOnBehindShortWrites(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		var pieces [][]byte
		for range rng.IntN(6) {
			piece := make([]byte, rng.IntN(50))
			for i := range piece {
				piece[i] = byte(1 + rng.IntN(255))
			}
			pieces = append(pieces, piece)
		}
		want := append(make([]byte, 7), bytes.Join(pieces, nil)...)
		w := &lazyWriter{rng: rng, data: make([]byte, len(want))}
		lengths := len(pieces)
		if err := writeAll(w, pieces, 7); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(w.data, want) || lengths != len(pieces) || !bytes.Equal(bytes.Join(pieces, nil), want[7:]) {
			t.Fatalf("wrote %x, want %x", w.data, want)
		}
	}
}

type stuckWriter struct{}

func (stuckWriter) writePieces([][]byte, int64) (int, error) { return 0, nil }

func TestWriteAllErrors(t *testing.T) {
	t.Parallel()
	if err := writeAll(stuckWriter{}, [][]byte{nil, {1}}, 0); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("no progress: %v, want %v", err, io.ErrShortWrite)
	}
	full := &lazyWriter{rng: rand.New(rand.NewPCG(1, 1)), data: make([]byte, 9), fail: unix.ENOSPC}
	if err := writeAll(full, [][]byte{{1}}, 4); !errors.Is(err, unix.ENOSPC) || err.Error() != "at 4: no space left on device" {
		t.Errorf("full disk: %v", err)
	}
}

// TestWriteZeros is the way to sure blocks on a file system that cannot allocate.
func TestWriteZeros(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = zeroChunk + 5000
	if err := writeAll(descriptor(f.Fd()), [][]byte{bytes.Repeat([]byte{1}, size)}, 0); err != nil {
		t.Fatal(err)
	}
	if err := writeZeros(f, 100, size-1); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(f.Name())
	want := bytes.Repeat([]byte{1}, size)
	clear(want[100 : size-1])
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, not as they should be: %v", len(got), err)
	}
}
