// Package flow holds the pure rules that decide whether one more delivery may
// start. Every backend calls them, also inside a transaction, so that one
// machine and many obey the same rule.
package flow

// shareOfFree is the part of the free slots that one lane may hold.
const shareOfFree = 8

// Ceiling returns how many attempts a lane without limits of its own may have
// in flight while free slots are left for new attempts.
//
// A lane may use an eighth of what is free, and always one. With few busy lanes
// that is plenty (a ninth of all slots for the only one); the more lanes fill
// up, the less each may hold, and some slots stay free for a lane that has none
// yet. A thousand destinations that hang can therefore never take every slot
// from one that is healthy. Switches share their buffers by this rule, the
// dynamic threshold.
func Ceiling(free int) int {
	return max(1, free/shareOfFree)
}
