package store

import "posthaste"

// List is one part of a user's resources of a kind, ordered by name: up to PageBytes, and at
// least one item if there is one.
type List[T any] struct {
	Items []T
	// Next is the name to continue after; "" after the last part. A filtered part may be empty
	// and have a Next.
	Next string
}

// listedSize is the fixed size of an item in bytes.
const listedSize = 256

// ScheduleSize returns the bytes that a schedule takes of a part.
func ScheduleSize(s *posthaste.Schedule) int {
	return listedSize + len(s.ID) + len(s.Destination) + len(s.Body) + settingsSize(&s.Settings)
}

// URLGroupSize is ScheduleSize for a URL group.
func URLGroupSize(g *posthaste.URLGroup) int {
	n := listedSize + len(g.Name) + headerSize(g.Headers)
	for _, e := range g.Endpoints {
		n += len(e.Name) + len(e.URL)
	}
	return n
}

// QueueSize is ScheduleSize for a queue.
func QueueSize(q QueueStatus) int { return listedSize + len(q.Name) }

// FlowKeySize is ScheduleSize for a flow-control key.
func FlowKeySize(k FlowStatus) int { return listedSize + len(k.Key) }
