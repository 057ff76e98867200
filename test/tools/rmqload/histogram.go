package main

import "math/bits"

// subBits: 64 buckets for each power of two.
const subBits = 6

// histogram of nanoseconds, with buckets of 1.6 %.
type histogram struct {
	buckets [64 << subBits]uint32
	n       uint64
	max     int64
	sum     int64
}

func bucketOf(v uint64) int {
	if v < 1<<subBits {
		return int(v)
	}
	e := bits.Len64(v) - 1 - subBits
	return (e+1)<<subBits + int(v>>uint(e))&(1<<subBits-1)
}

// middleOf is the value in the middle of a bucket.
func middleOf(i int) float64 {
	if i < 1<<subBits {
		return float64(i)
	}
	e := i>>subBits - 1
	m := i&(1<<subBits-1) | 1<<subBits
	return (float64(m) + 0.5) * float64(uint64(1)<<uint(e))
}

func (h *histogram) add(ns int64) {
	ns = max(ns, 0)
	h.buckets[bucketOf(uint64(ns))]++
	h.n++
	h.sum += ns
	h.max = max(h.max, ns)
}

func (h *histogram) merge(o *histogram) {
	for i, c := range o.buckets {
		h.buckets[i] += c
	}
	h.n += o.n
	h.sum += o.sum
	h.max = max(h.max, o.max)
}

// quantile is in microseconds.
func (h *histogram) quantile(p float64) float64 {
	if h.n == 0 {
		return 0
	}
	want := max(uint64(float64(h.n)*p+0.5), 1)
	var seen uint64
	for i, c := range h.buckets {
		if seen += uint64(c); seen >= want {
			return min(middleOf(i), float64(h.max)) / 1e3
		}
	}
	return float64(h.max) / 1e3
}
