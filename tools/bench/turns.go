package main

import (
	"slices"
	"time"
)

// An asker asks one side something, once, and returns how long the answer took.
type asker func() (time.Duration, error)

// turns is for how long sides are asked, and how many answers of each are enough: as many
// are measured as come within that time, and one at least.
type turns struct {
	time time.Duration
	most int
}

var briefly = turns{120 * time.Millisecond, 50}

// atLength is beside work that comes and goes in some milliseconds, which one answer waits
// for and the next does not.
func (o Options) atLength() turns { return turns{max(briefly.time, o.Duration/20), 2 * briefly.most} }

// take asks all sides in turn, so that what holds the machine up for a moment does so
// for all of them. It returns the median of what each took, and how often each was asked;
// the first answer of each does not count.
func (t turns) take(sides ...asker) (medians []time.Duration, asked int, err error) {
	took := make([][]time.Duration, len(sides))
	var began time.Time
	for ; asked <= 1 || asked <= t.most && time.Since(began) < t.time; asked++ {
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
