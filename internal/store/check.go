package store

import "fmt"

// Checked is what a check of a backend has looked at, and what it found: whether every
// record can be read, and whether indexes, lanes and numbers agree with what they are
// about.
type Checked struct {
	Messages    int64 `json:"messages"`
	Waiting     int64 `json:"waiting"` // messages that wait or are claimed
	Events      int64 `json:"events"`
	DeadLetters int64 `json:"deadLetters"`
	Runs        int64 `json:"runs"`
	FailedRuns  int64 `json:"failedRuns"` // entries of their DLQ

	// Problems are sentences about what does not fit, at most mostProblems of them.
	Problems []string `json:"problems"`
}

// mostProblems is how many problems are told: damage shows in many places at once.
const mostProblems = 100

// Add tells a problem, unless enough are told.
func (c *Checked) Add(format string, args ...any) {
	if len(c.Problems) < mostProblems {
		c.Problems = append(c.Problems, fmt.Sprintf(format, args...))
	}
}
