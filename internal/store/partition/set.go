package partition

import (
	"iter"
	"math/bits"
)

// set is a set of partitions.
type set uint64

func (s *set) add(n int) { *s |= 1 << n }

// first returns the set of the first n partitions.
func first(n int) set { return 1<<n - 1 }

// each returns the members in order.
func (s set) each() iter.Seq[int] {
	return func(yield func(int) bool) {
		for left := uint64(s); left != 0; left &= left - 1 {
			if !yield(bits.TrailingZeros64(left)) {
				return
			}
		}
	}
}
