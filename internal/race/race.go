// Package race tells tests whether the race detector is on. It makes most of them ten to
// twenty times slower, and finds what there is to find in a few of many like cases. A test
// that leaves some out for it has its package tested once more, without it: make test
// finds such packages by their import of this one.
package race

// Few returns some if the race detector is on, and all otherwise.
func Few[T any](some, all T) T {
	if Enabled {
		return some
	}
	return all
}
