package background

import "syscall"

// hasPriorities says that the operating system has priorities of threads.
const hasPriorities = true

// niceness is by how much the work is nicer than the process, on the scale of Linux,
// which ends at 19. At full load, when nothing is left over, it still gets a third of
// what others get: what holds a lock is never set aside for long.
const niceness = 5

// lowerPriority gives the thread that calls it a lower priority, for as long as it lives. Linux
// lets everybody do so, and needs a right to take it back.
func lowerPriority() {
	if current, err := priority(); err == nil {
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, thisThread, current+niceness) // else it is as fast as any
	}
}

// standBack lets threads run that are ready and wait for the processor of the one that
// calls it. It returns at once if there are none. Without it they may wait for some
// milliseconds, whatever their priority and even if another processor has nothing to do:
// see docs/performance.md.
func standBack() {
	_, _, _ = syscall.Syscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) // cannot fail
}

const thisThread = 0

// priority returns the niceness of the thread that calls it.
func priority() (int, error) {
	raw, err := syscall.Getpriority(syscall.PRIO_PROCESS, thisThread)
	return 20 - raw, err // the system call returns no negative numbers
}
