// Package histogram counts values by their size, cheaply enough for every flush.
package histogram

import (
	"math/bits"
	"sync/atomic"
)

// bucketCount is enough for a GiB in bytes, and for 18 minutes in microseconds.
const bucketCount = 32

// Histogram counts values by powers of two: bucket i those above 1<<(i-1), up to 1<<i; the last one also all that are larger. One atomic
// addition each for the count and the sum, per flush, not per message.
type Histogram struct {
	buckets [bucketCount]atomic.Int64
	sum     atomic.Int64
}

// Add counts v.
func (h *Histogram) Add(v int64) {
	h.buckets[min(bits.Len64(uint64(max(v-1, 0))), bucketCount-1)].Add(1)
	h.sum.Add(v)
}

// Counts calls each for every bucket but the last, from below, with its bound and the number of values up to that, and returns the
// number and the sum of all.
func (h *Histogram) Counts(each func(upTo, count int64)) (count, sum int64) {
	for i := range h.buckets {
		count += h.buckets[i].Load()
		if i < bucketCount-1 {
			each(1<<i, count)
		}
	}
	return count, h.sum.Load()
}
