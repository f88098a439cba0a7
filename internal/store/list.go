package store

import "posthaste"

// List is a part of what a user has of a kind, by name: what fits in PageBytes, and one
// item at least unless there is none.
type List[T any] struct {
	Items []T
	// Next is the name to go on behind; "" when this was the last part. A part that was
	// filtered may have no items and a next one.
	Next string
}

// ListAll reads all parts of a list.
func ListAll[T any](part func(after string) (List[T], error)) (all []T, err error) {
	for after, more := "", true; more; {
		list, err := part(after)
		if err != nil {
			return nil, err
		}
		all = append(all, list.Items...)
		after, more = list.Next, list.Next != ""
	}
	return all, nil
}

// listedSize is what a thing that is listed takes beside its texts and its body.
const listedSize = 256

// ScheduleSize is what a schedule takes of a part of a list, in bytes.
func ScheduleSize(s *posthaste.Schedule) int {
	return listedSize + len(s.ID) + len(s.Destination) + len(s.Body) + settingsSize(&s.Settings)
}

// URLGroupSize is ScheduleSize of a URL group.
func URLGroupSize(g *posthaste.URLGroup) int {
	n := listedSize + len(g.Name) + headerSize(g.Headers)
	for _, e := range g.Endpoints {
		n += len(e.Name) + len(e.URL)
	}
	return n
}

// QueueSize is ScheduleSize of a queue.
func QueueSize(q QueueStatus) int { return listedSize + len(q.Name) }

// FlowKeySize is ScheduleSize of a flow-control key.
func FlowKeySize(k FlowStatus) int { return listedSize + len(k.Key) }
