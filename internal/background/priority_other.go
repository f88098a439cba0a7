//go:build !linux

package background

// hasPriorities says that the operating system has no priorities of threads, or none that a
// program without C can reach.
const hasPriorities = false

func lowerPriority() {}

func standBack() {}
