package lsm

// sketch has a bit for each term by which an event can be found. Terms share bits, so it
// tells for certain only what an event cannot be found by, which takes a look at nothing else:
// of all who follow the log each looks at all events, and most are of interest to few.
type sketch uint64

func sketchOf(terms []term) (s sketch) {
	for _, t := range terms {
		s |= t.bit()
	}
	return s
}

// bit returns one of the 64 bits, by a hash of Fibonacci: the hash of a term may be an id,
// whose high bits are a time.
func (t term) bit() sketch {
	return 1 << ((t.hash + uint64(t.field)) * 0x9E3779B97F4A7C15 >> 58)
}

// passesAll reports whether an event may be found by one of the terms of each of the lists.
func (s sketch) passesAll(lists []sketch) bool {
	for _, terms := range lists {
		if s&terms == 0 {
			return false
		}
	}
	return true
}
