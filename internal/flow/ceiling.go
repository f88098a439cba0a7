// Package flow holds the pure rules that decide whether one more delivery may
// start. Every backend calls them, also inside a transaction, so that one
// machine and many obey the same rule.
package flow

// shareOfRoom is the part of its user's room that one lane may hold.
const shareOfRoom = 8

// Ceiling returns how many attempts a lane without limits of its own may have
// in flight while its user may start room more.
//
// A lane may use an eighth of the room, and always one. With few busy lanes that
// is plenty (a twelfth of all slots for the only one); the more lanes fill up, the
// less each may hold, and some room stays for a lane that has none yet. A thousand
// destinations that hang can therefore never take every slot from one that is
// healthy. Switches share their buffers by this rule, the dynamic threshold.
func Ceiling(room int) int {
	return max(1, room/shareOfRoom)
}

// timesFree is how many times what is free one user may hold.
const timesFree = 3

// UserRoom returns how many more attempts a user may start, in all lanes together, who
// has so many in flight while free slots are left.
//
// It is the rule of Ceiling once more, for a user can have more lanes than there are
// slots. A user may hold three times what is free: three quarters of all slots when
// there is no other, and three quarters of what others leave. Who has nothing in flight
// may start one as long as any is free.
func UserRoom(free, inFlight int) int {
	return max(0, (timesFree*free-inFlight+timesFree)/(timesFree+1))
}
