package lsm

import "posthaste"

// sparingSet is a set whose reader looks at each position by itself as well, so that it may
// claim to have one it has not: that costs a look at an entry. It is for a long list beside
// short ones, of which each position lies in another block.
//
// While it reads more blocks than it spares its reader entries it is not asked, and has
// every position; after a while it is tried again.
type sparingSet struct {
	positionSet
	blocks *int // read so far, by this set and others

	asked, spared, read int // since it was last judged
	resting             int // for how many positions it is not asked
}

// sparingTrial is how many positions a sparingSet is asked for before it is judged, and
// sparingRest how many it then rests for.
const sparingTrial, sparingRest = 16, 64

func (s *sparingSet) seek(p posthaste.Position) (nearest posthaste.Position, ok bool) {
	if s.resting > 0 {
		s.resting--
		return p, true
	}
	before := *s.blocks
	nearest, ok = s.positionSet.seek(p)
	s.read += *s.blocks - before
	if nearest != p {
		s.spared++
	}
	if s.asked++; s.asked == sparingTrial {
		if s.read > s.spared {
			s.resting = sparingRest
		}
		s.asked, s.spared, s.read = 0, 0, 0
	}
	return nearest, ok
}
