package lsm

import (
	"testing"

	"posthaste"
)

// everyThird has the positions that three divides, of which each costs so many blocks.
type everyThird struct {
	cost  int
	read  *int
	asked int
}

func (e *everyThird) seek(p posthaste.Position) (posthaste.Position, bool) {
	e.asked++
	*e.read += e.cost
	return (p + 2) / 3 * 3, true
}

func (e *everyThird) close() error { return nil }

// TestSparingSet asks for every position, and for those alone that are in the set.
func TestSparingSet(t *testing.T) {
	const positions = 10 * (sparingTrial + sparingRest)
	tests := map[string]struct {
		cost      int // blocks for each position
		step      posthaste.Position
		wantAsked int
	}{
		"a block spares two thirds of an entry": {1, 1, positions / 5},
		"a block spares nothing":                {1, 3, positions / 5},
		"no block is read":                      {0, 1, positions},
		"no block is read, nothing is spared":   {0, 3, positions},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var blocks int
			third := &everyThird{cost: test.cost, read: &blocks}
			set := &sparingSet{positionSet: third, blocks: &blocks}
			for n := range posthaste.Position(positions) {
				p := n * test.step
				want, _ := (&everyThird{read: new(int)}).seek(p)
				if nearest, ok := set.seek(p); !ok || nearest != want && nearest != p {
					t.Fatalf("seek(%d) = %d, %t, want %d or itself", p, nearest, ok, want)
				}
			}
			if third.asked != test.wantAsked {
				t.Errorf("%d positions were asked for, want %d of %d", third.asked, test.wantAsked, positions)
			}
		})
	}
}

// TestSparingSetThatSparesMuch is asked for each position although each costs a block.
func TestSparingSetThatSparesMuch(t *testing.T) {
	var blocks int
	third := &everyThird{cost: 1, read: &blocks}
	set := &sparingSet{positionSet: third, blocks: &blocks}
	const positions = 5 * sparingTrial
	for n := range posthaste.Position(positions) {
		set.seek(3*n + 1)
	}
	if third.asked != positions {
		t.Errorf("%d positions were asked for, want all %d", third.asked, positions)
	}
}
