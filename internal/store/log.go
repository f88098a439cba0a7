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
	// Events calls visit for each event of a user that matches the query, joined with its
	// message, in the query's order. It returns the position at which the next call continues,
	// which is the next Low if OldestFirst and else the next High; more is false at the end.
	//
	// The entry is valid until visit returns. What it points to, its message and its response,
	// is read for this call or never changes: it may be kept, but not changed. visit must
	// return soon and must not call the store. If it fails, Events stops and returns its error.
	// After an error, whoever called discards what was visited.
	//
	// The work of one call is bounded: it may visit fewer events than asked for, or none, and
	// still have more. A reader that continues at next sees each matching event exactly once,
	// whatever is written meanwhile: an event is shown only when none with a lower position can
	// follow. The entries of a call have at most query.Bytes together, unless there is only one.
	Events(ctx context.Context, user string, query EventQuery, visit func(*Entry) error) (next posthaste.Position, more bool, err error)
}

// EventQuery selects events by position and filter.
type EventQuery struct {
	Filter      EventFilter
	Low, High   posthaste.Position // both inclusive
	OldestFirst bool
	Limit       int  // at most so many events; at least 1
	Bytes       int  // at most so many bytes together, unless one entry has more; 0: PageBytes
	Bare        bool // nobody looks at bodies: those that cost reading may be left out
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

// EventPage is the entries of one call of Events, for a caller that needs them all in memory.
type EventPage struct {
	Entries []Entry
	More    bool               // matching events may follow
	Next    posthaste.Position // where they begin: the next Low if OldestFirst, else the next High
}

// ReadEvents returns what Events visits as a page.
func ReadEvents(ctx context.Context, log Log, user string, query EventQuery) (page EventPage, err error) {
	page.Next, page.More, err = log.Events(ctx, user, query, func(entry *Entry) error {
		page.Entries = append(page.Entries, *entry)
		return nil
	})
	return page, err
}

// Visit calls visit for each entry and returns what Events does. The error is that of visit.
func (p *EventPage) Visit(visit func(*Entry) error) (next posthaste.Position, more bool, err error) {
	for _, entry := range p.Entries { // a copy: the page may be read again
		if err := visit(&entry); err != nil {
			return 0, false, err
		}
	}
	return p.Next, p.More, nil
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
