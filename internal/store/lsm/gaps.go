package lsm

import (
	"slices"
	"sync"

	"posthaste"
)

// What was deleted stays in the storage engine until compactions have removed it, and
// whoever walks there steps over each key of it: where forty thousand dead letters were
// deleted, a page would take ten milliseconds longer. So the first to step over many
// remembers where they were, and all others jump.
//
// A gap is remembered of sets that grow at their far end alone, as those of dead letters
// do, and of runs by what they keep: what is added has a position above all that is visible. An import does
// not keep to that; it fills a store that nobody reads yet.

// gap is a range of positions, both included, of which a set has none and never will.
type gap struct{ low, high posthaste.Position }

// meets reports whether there is nothing between two gaps.
func (g gap) meets(other gap) bool { return g.low <= other.high+1 && other.low <= g.high+1 }

// nearestGap returns the index of the nearest of ascending gaps that ends at p or beyond.
// It is out of range if there is none.
func (d direction) nearestGap(gaps []gap, p posthaste.Position) int {
	if d == ascending {
		at, _ := slices.BinarySearchFunc(gaps, p, func(g gap, p posthaste.Position) int {
			if g.high < p {
				return -1
			}
			return 1
		})
		return at
	}
	at, _ := slices.BinarySearchFunc(gaps, p, func(g gap, p posthaste.Position) int {
		if g.low <= p {
			return -1
		}
		return 1
	})
	return at - 1
}

// gaps remembers the gaps of sets by the prefixes of their keys. The zero value is ready.
type gaps struct {
	mu    sync.Mutex
	of    map[string][]gap // ascending, none meets another; slices are shared, and never changed
	count int
}

const (
	gapSteps = 64   // deleted keys that make a gap worth remembering
	maxGaps  = 4096 // beyond which all are forgotten, to be found again
)

func (g *gaps) get(prefix []byte) []gap {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.of[string(prefix)]
}

// add remembers a gap, and returns all of its set.
func (g *gaps) add(prefix []byte, found gap) []gap {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of == nil || g.count >= maxGaps {
		g.of, g.count = map[string][]gap{}, 0
	}
	known := g.of[string(prefix)]
	var all []gap
	for _, other := range known {
		if found.meets(other) {
			found = gap{min(found.low, other.low), max(found.high, other.high)}
		} else {
			all = append(all, other)
		}
	}
	at := ascending.nearestGap(all, found.low)
	all = slices.Insert(all, at, found)
	g.of[string(prefix)] = all
	g.count += len(all) - len(known)
	return all
}
