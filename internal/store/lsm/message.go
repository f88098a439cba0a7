package lsm

import (
	"posthaste"
	"posthaste/internal/store/record"
)

// An envelope begins with a byte that says where the body is.
const (
	bodyWithin byte = iota
	bodyBeside
	bodyInRun // it is an entry of the run's list
)

// appendEnvelope appends the envelope of a message.
func appendEnvelope(dst []byte, m *posthaste.Message) []byte {
	place := bodyWithin
	switch {
	case isEntry(m):
		place = bodyInRun
	case len(m.Body) >= largeBody:
		place = bodyBeside
	}
	if place != bodyWithin {
		bare := *m
		bare.Body = nil
		m = &bare
	}
	return record.AppendMessage(append(dst, place), m)
}

// isEntry reports whether a message is an entry of its run's list, which holds its
// body.
func isEntry(m *posthaste.Message) bool {
	return m.Run != nil && m.Run.CallType != posthaste.CallFailure
}

func newItem(m *posthaste.Message, st status) *item {
	return &item{ticket: ticket{st.order, m.ID}, message: m, waiting: st.waiting}
}

func laneOf(m *posthaste.Message) laneID { return laneID{m.User, m.Lane()} }
