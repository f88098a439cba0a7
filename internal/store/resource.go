package store

import "posthaste"

// QueueStatus is a queue and the number of its messages that have not ended.
type QueueStatus struct {
	posthaste.Queue
	Lag int
}

// RefuseDeleteFlowKey returns an Error with CodeConflict if messages that have not ended name the
// key.
func RefuseDeleteFlowKey(key string, messages int) error {
	if messages == 0 {
		return nil
	}
	return posthaste.Errorf(posthaste.CodeConflict,
		"the flow-control key %.100q is not deleted: messages under it that wait or are in flight: %d; cancel them or wait for their end", key, messages)
}

// FlowStatus is a key and its messages.
type FlowStatus struct {
	posthaste.FlowKey
	InFlight int // attempts
	Waiting  int // due and not in flight; a lower bound if there are very many
}
