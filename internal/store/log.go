package store

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"posthaste"
)

// Log reads the log of events.
type Log interface {
	// Events returns the events of a user that match the query, joined with
	// their messages, in the query's order.
	//
	// The work of one call is bounded: a page may hold fewer events than asked
	// for, or none, and still have More to come. A reader that continues at
	// Next sees each matching event exactly once, whatever is written meanwhile:
	// an event is shown only when none with a lower position can follow. However
	// large they are, the entries of a page have no more bytes together than the
	// query says, unless there is only one.
	Events(ctx context.Context, user string, query EventQuery) (EventPage, error)
}

// EventQuery selects events by position and filter.
type EventQuery struct {
	Filter      EventFilter
	Low, High   posthaste.Position // both inclusive
	OldestFirst bool
	Limit       int  // at most so many events; at least 1
	Bytes       int  // at most so many bytes together, unless one entry has more; 0: PageBytes
	Bare        bool // nobody looks at bodies: those that cost reading may be left out
	Lent        bool // who asks gives the page back when done with it, see EventPage.Return
}

// Since returns a time before which no event matches: a message has none before it was made, but
// for what the clock was set back by.
func (q *EventQuery) Since() time.Time {
	since := q.Low.Time()
	if ids := q.Filter.MessageIDs; len(ids) > 0 {
		oldest := slices.MinFunc(ids, func(a, b posthaste.MessageID) int { return bytes.Compare(a[:], b[:]) })
		if made := oldest.CreatedAt().Add(-maxSetBack); made.After(since) {
			return made
		}
	}
	return since
}

// maxSetBack is by how much the clock may be set back between a message and its events.
const maxSetBack = 24 * time.Hour

// EventPage is a part of the answer to an EventQuery.
type EventPage struct {
	Entries []Entry
	More    bool               // matching events may follow
	Next    posthaste.Position // where they begin: the next Low if OldestFirst, else the next High

	GiveBack func() // by Return; nil if the page is not wanted back, as in a store that lends none
}

// Return gives a page back that was lent: its memory is used for pages to come, and nobody
// may look at its entries any more, or at their messages and responses. It is called once at
// most; a page that is never given back is garbage like any other.
func (p *EventPage) Return() {
	if p.GiveBack != nil {
		p.GiveBack()
	}
}

// Entry is an event with the message it is about. Make one with NewEntry.
type Entry struct {
	posthaste.Event
	Message     *posthaste.Message // shared, not to be changed
	MessageSize int                // of Message, which takes longer to find out than to keep
}

// NewEntry returns an entry.
func NewEntry(event posthaste.Event, m *posthaste.Message) Entry {
	return Entry{Event: event, Message: m, MessageSize: MessageSize(m)}
}

// EventFilter narrows a query. Fields are joined by AND, the values of one
// field by OR; a field without values does not filter. No value is empty.
type EventFilter struct {
	MessageIDs  []posthaste.MessageID
	States      []posthaste.State
	URLs        []string
	URLGroups   []string
	ScheduleIDs []string
	Queues      []string
	Labels      []string
	Hosts       []string // with or without port, any letter case
	Paths       []string // without query
	CallerIPs   []string
	FlowKeys    []string

	// Runs selects the events of messages that belong to runs, and those that tell
	// of runs. Without it those that tell of runs are left out.
	Runs         bool
	RunIDs       []string
	WorkflowURLs []string
}

// Matches reports whether an event and its message pass the filter. It is the
// definition that every index has to agree with.
func (f *EventFilter) Matches(event *posthaste.Event, m *posthaste.Message) bool {
	return f.passesRun(event, m.Run) &&
		passes(f.MessageIDs, event.MessageID) &&
		f.PassesState(event.State) &&
		passes(f.URLs, m.URL) &&
		passes(f.URLGroups, m.URLGroup) &&
		passes(f.ScheduleIDs, m.ScheduleID) &&
		passes(f.Queues, m.Queue) &&
		passes(f.CallerIPs, m.CallerIP) &&
		passes(f.FlowKeys, m.FlowControl.Key) &&
		passesAny(f.Labels, m.Labels) &&
		passesHostAndPath(f.Hosts, f.Paths, m.URL)
}

// PassesState reports whether events of a state may pass the filter.
func (f *EventFilter) PassesState(state posthaste.State) bool {
	return passes(f.States, state) && (f.Runs || !state.OfRun())
}

func (f *EventFilter) passesRun(event *posthaste.Event, run *posthaste.RunLink) bool {
	if !f.Runs || run == nil {
		return !f.Runs && !event.State.OfRun()
	}
	return passes(f.RunIDs, run.ID) && passes(f.WorkflowURLs, run.URL)
}

func passesHostAndPath(hosts, paths []string, rawURL string) bool {
	if len(hosts) == 0 && len(paths) == 0 {
		return true
	}
	host, path := posthaste.HostAndPath(rawURL)
	bare := HostWithoutPort(host)
	return passes(paths, path) && (len(hosts) == 0 || slices.ContainsFunc(hosts, func(want string) bool {
		return strings.EqualFold(want, host) || strings.EqualFold(want, bare)
	}))
}

// HostWithoutPort cuts a port off a host, leaving the brackets of an IPv6
// address in place.
func HostWithoutPort(host string) string {
	colon := strings.LastIndexByte(host, ':')
	if colon < 0 || strings.HasSuffix(host, "]") {
		return host
	}
	return host[:colon]
}

func passes[T comparable](wanted []T, value T) bool {
	return len(wanted) == 0 || slices.Contains(wanted, value)
}

func passesAny(wanted, values []string) bool {
	return len(wanted) == 0 || slices.ContainsFunc(values, func(v string) bool { return slices.Contains(wanted, v) })
}
