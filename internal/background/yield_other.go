//go:build !linux

package background

// yields says that the operating system has no priorities of threads, or none that a
// program without C can reach.
const yields = false

func yield() {}

func standBack() {}
