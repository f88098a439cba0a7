// Package race tells tests whether the race detector is on. It makes most of them ten to
// twenty times slower, and finds what there is to find in a few of many like cases. A test
// that leaves some out for it is run once more, without it: .ci/without-race finds it by its
// name, so that the test asks itself, and not what it calls.
package race

// Few returns some if the race detector is on, and all otherwise.
func Few[T any](some, all T) T {
	if Enabled {
		return some
	}
	return all
}
