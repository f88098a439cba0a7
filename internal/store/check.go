package store

import "fmt"

// Checked is the result of checking a backend: that every record is readable, and that indexes,
// lanes and counters agree with the records.
type Checked struct {
	Messages    int64 `json:"messages"`
	Waiting     int64 `json:"waiting"` // waiting or claimed messages
	Events      int64 `json:"events"`
	DeadLetters int64 `json:"deadLetters"`
	Runs        int64 `json:"runs"`
	FailedRuns  int64 `json:"failedRuns"` // entries of the DLQ of runs

	// Problems has one sentence per problem, up to maxProblems.
	Problems []string `json:"problems"`
}

// maxProblems limits the report: damage shows up in many places at once.
const maxProblems = 100

// Add reports a problem, up to maxProblems.
func (c *Checked) Add(format string, args ...any) {
	if len(c.Problems) < maxProblems {
		c.Problems = append(c.Problems, fmt.Sprintf(format, args...))
	}
}
