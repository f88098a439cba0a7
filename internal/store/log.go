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
	// Events calls visit for each matching event with its message, in the query's order. next is
	// where the next call continues: its Low if OldestFirst, else its High. more is false at the
	// end.
	//
	// The entry is valid until visit returns; its message and response may be kept, but not
	// changed. visit must be quick and must not call the store. If it returns an error, Events
	// stops and returns it. After an error, discard what was visited.
	//
	// The work of one call is bounded: it may visit fewer events than requested, or none, and
	// still have more. A reader that continues at next sees each matching event exactly once,
	// because an event is visible only when no lower position can follow. The entries of a call
	// have at most query.Bytes together, unless there is only one.
	Events(ctx context.Context, user string, query EventQuery, visit func(*Entry) error) (next posthaste.Position, more bool, err error)
}

// EventQuery selects events by position and filter.
type EventQuery struct {
	Filter      EventFilter
	Low, High   posthaste.Position // both inclusive
	OldestFirst bool
	Limit       int  // maximum number of events, at least 1
	Bytes       int  // maximum bytes, unless a single entry has more; 0: PageBytes
	Bare        bool // bodies that cost reading may be left out
}

// Since returns a time before which no event matches, because a message has no earlier events. It
// allows for maxSetBack.
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

// maxSetBack is how far the clock may be set back between a message and its events.
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

// Entry is an event with its message. Make one with NewEntry.
type Entry struct {
	posthaste.Event
	Message     *posthaste.Message // shared: read-only
	MessageSize int                // cached store.MessageSize
}

// NewEntry returns an entry.
func NewEntry(event posthaste.Event, m *posthaste.Message) Entry {
	return Entry{Event: event, Message: m, MessageSize: MessageSize(m)}
}

// EventFilter selects events. Fields are joined by AND, the values of one field by OR; an empty
// field matches all.
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

	// Runs includes only events of messages of runs, and events of runs, which are left out
	// otherwise.
	Runs         bool
	RunIDs       []string
	WorkflowURLs []string
}

// Matches reports whether an event and its message pass the filter. Every index must agree with
// it.
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

// PassesState reports whether events in a state may pass.
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
		want = strings.ToLower(want) // as HostAndPath does
		return want == host || want == bare
	}))
}

// HostWithoutPort removes the port of a host, keeping brackets of an IPv6 address.
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
