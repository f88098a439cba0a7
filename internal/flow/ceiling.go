// Package flow holds the pure rules that decide whether one more attempt may start: which message
// of a lane, under a flow-control key, and how many slots and how much memory a lane and a user may
// use. Every backend calls them, also inside a transaction, so that one node and many apply the same
// rules.
package flow

// laneShare is the part of its user's quota that one lane may use: an eighth.
const laneShare = 8

// Ceiling returns how many attempts a lane may have in flight while its user may start quota more.
//
// A lane may use an eighth of the quota, and always one slot. With few busy lanes that is plenty:
// the only one gets a twelfth of all slots. The more lanes fill up, the less each may use, and some
// slots stay free for a lane that has none yet. A thousand destinations that hang can therefore
// never take every slot from one that is healthy. Network switches share their buffers by this
// rule, there called the dynamic threshold.
func Ceiling(quota int) int {
	return max(1, quota/laneShare)
}

// userFactor is how many times the number of free slots, or of free bytes, one user may use.
const userFactor = 3

// UserQuota returns how many more attempts a user with a number of attempts in flight may start, in
// all lanes together, while a number of slots are free.
//
// It is the rule of Ceiling for users, because a user can have more lanes than there are slots. A
// user may use three times the number of free slots: three quarters of all slots if there is no
// other user, and three quarters of those that others leave. A user with nothing in flight may
// start one attempt as long as any slot is free.
func UserQuota(free, inFlight int) int {
	return max(0, (userFactor*free-inFlight+userFactor)/(userFactor+1))
}
