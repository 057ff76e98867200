package index

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"

	"golang.org/x/sys/unix"
)

const pageSize = 4096

// table is the head of the file that is written to, header and slots, in anonymous memory: 20 MB with the original's settings, of which
// the kernel gives what is used. Slots are hit at random, so they are changed here and written by the page. The Index's lock guards it.
type table struct {
	geometry geometry
	memory   []byte   // whole pages
	head     []byte   // of memory: what stands in the file
	dirty    []uint64 // a bit for each page
}

func newTable(g geometry) (*table, error) {
	size := (g.headLen() + pageSize - 1) / pageSize * pageSize
	memory, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("index: %d bytes of memory for the slots: %w", size, err)
	}
	return &table{geometry: g, memory: memory, head: memory[:g.headLen()], dirty: make([]uint64, (size/pageSize+63)/64)}, nil
}

func (t *table) free() { _ = unix.Munmap(t.memory) }

// clear makes it the head of an empty file. The kernel takes the memory back and gives zeros.
func (t *table) clear() {
	if unix.Madvise(t.memory, unix.MADV_DONTNEED) != nil {
		clear(t.memory)
	}
	clear(t.dirty)
}

func (t *table) slot(hash int32) int32 {
	return int32(binary.BigEndian.Uint32(t.head[t.geometry.slotAt(hash):]))
}

func (t *table) setSlot(hash, n int32) {
	at := t.geometry.slotAt(hash)
	binary.BigEndian.PutUint32(t.head[at:], uint32(n))
	t.touch(at) // a slot never lies across two pages: both are multiples of 4
}

// exchange sets a slot, but for its page's mark, and returns what it was.
func (t *table) exchange(hash, n int32) int32 {
	slot := t.head[t.geometry.slotAt(hash):]
	before := int32(binary.BigEndian.Uint32(slot))
	binary.BigEndian.PutUint32(slot, uint32(n))
	return before
}

func (t *table) putHeader(h *header) {
	h.put(t.head)
	t.touch(0)
}

func (t *table) touch(at int64) {
	page := at / pageSize
	t.dirty[page/64] |= 1 << (page % 64)
}

// load reads the head of a file and says whether it is that of h and all slots point to entries there are.
func (t *table) load(r io.ReaderAt, h *header) error {
	err := t.pages(r, func(at int64, page []byte) { copy(t.memory[at:], page) })
	if err != nil {
		return err
	}
	if got := decodeHeader(t.head); got != *h {
		return fmt.Errorf("header is %+v, %+v was kept", got, *h)
	}
	for at := headerLen; at < len(t.head); at += slotLen {
		if n := int32(binary.BigEndian.Uint32(t.head[at:])); n < 0 || n >= h.count {
			return fmt.Errorf("slot at byte %d points to entry %d of %d", at, n, h.count)
		}
	}
	return nil
}

// compare marks the pages in which the file is not as it should be.
func (t *table) compare(r io.ReaderAt) error {
	err := t.pages(r, func(at int64, page []byte) {
		if !bytes.Equal(page, t.head[at:at+int64(len(page))]) {
			t.touch(at)
		}
	})
	if err != nil {
		return err
	}
	return nil
}

// pages reads the head of a file and calls fn for each page that has anything but zeros in the file or in memory.
func (t *table) pages(r io.ReaderAt, fn func(at int64, page []byte)) error {
	buffer, zeros := make([]byte, 64*pageSize), make([]byte, pageSize)
	for at := 0; at < len(t.head); {
		b := buffer[:min(len(buffer), len(t.head)-at)]
		if _, err := r.ReadAt(b, int64(at)); err != nil {
			return fmt.Errorf("read %d bytes at %d: %w", len(b), at, err)
		}
		for len(b) > 0 {
			page := b[:min(pageSize, len(b))]
			if !bytes.Equal(page, zeros[:len(page)]) || !bytes.Equal(t.head[at:at+len(page)], zeros[:len(page)]) {
				fn(int64(at), page)
			}
			b, at = b[len(page):], at+len(page)
		}
	}
	return nil
}

// writePages writes one run of dirty pages, at most limit of them, and says how many bytes; 0 when there was none.
func (t *table) writePages(w io.WriterAt, limit int) (int, error) {
	first := t.firstDirty()
	if first < 0 {
		return 0, nil
	}
	end := first
	for end < first+limit && end/64 < len(t.dirty) && t.dirty[end/64]&(1<<(end%64)) != 0 {
		end++
	}
	b := t.head[first*pageSize : min(end*pageSize, len(t.head))]
	if _, err := w.WriteAt(b, int64(first*pageSize)); err != nil {
		return 0, err
	}
	for page := first; page < end; page++ {
		t.dirty[page/64] &^= 1 << (page % 64)
	}
	return len(b), nil
}

func (t *table) firstDirty() int {
	for i, word := range t.dirty {
		if word != 0 {
			return i*64 + bits.TrailingZeros64(word)
		}
	}
	return -1
}
