package bench

import (
	"slices"
	"time"
)

// An asker asks one side something, once, and returns how long the answer took.
type asker func() (time.Duration, error)

// What is measured of each side: as many answers as come within a time, and one at least.
const (
	askingTime   = 60 * time.Millisecond
	leastAnswers = 1
	mostAnswers  = 25
)

// takeTurns asks all sides in turn, so that what holds the machine up for a moment does so
// for all of them. It returns the median of what each took, and how often each was asked;
// the first answer of each does not count.
func takeTurns(sides ...asker) (medians []time.Duration, asked int, err error) {
	took := make([][]time.Duration, len(sides))
	var began time.Time
	for ; asked <= leastAnswers || asked <= mostAnswers && time.Since(began) < askingTime; asked++ {
		if asked == 1 {
			began = time.Now()
		}
		for i := range sides {
			if asked%2 == 1 { // so that none always follows the same other
				i = len(sides) - 1 - i
			}
			once, err := sides[i]()
			if err != nil {
				return nil, asked, err
			}
			if asked > 0 {
				took[i] = append(took[i], once)
			}
		}
	}
	for _, answers := range took {
		slices.Sort(answers)
		medians = append(medians, quantile(answers, 0.5))
	}
	return medians, asked, nil
}
