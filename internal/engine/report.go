package engine

import "posthaste"

// FailedForGood reports whether the attempt made an entry of a dead letter queue: that of
// runs if its message belongs to one, else that of messages. A call that fails has an
// answer where the SDK can take one, and a failure callback belongs to an entry that is
// there.
func (r AttemptReport) FailedForGood() bool {
	run := r.Message.Run
	switch {
	case r.State != posthaste.StateFailed:
		return false
	case run == nil:
		return true
	case run.CallType == posthaste.CallRequest:
		return !run.Features.Has(posthaste.FeatureNoDelete)
	default:
		return run.CallType != posthaste.CallFailure
	}
}
