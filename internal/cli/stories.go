package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/client"
)

// logEntry is what is shown of an entry of the log.
type logEntry struct {
	Time             int64           `json:"time"` // Unix ms
	State            posthaste.State `json:"state"`
	MessageID        string          `json:"messageId"`
	Method           string          `json:"method"`
	URL              string          `json:"url"`
	Error            string          `json:"error"`
	ResponseStatus   int             `json:"responseStatus"`
	NextDeliveryTime int64           `json:"nextDeliveryTime"` // Unix ms
	Queue            string          `json:"queueName"`
	Label            string          `json:"label"`
	Attempt          struct {
		Status   int   `json:"status"`
		Duration int64 `json:"duration"` // ms
	} `json:"attempt"` // that ended
}

// status returns the status of the response that the entry is about, 0 for none.
func (e *logEntry) status() int { return cmp.Or(e.ResponseStatus, e.Attempt.Status) }

// what describes the entry, beside its state.
func (e *logEntry) what() string {
	parts := []string{}
	if status := strconv.Itoa(e.status()); e.status() != 0 && !strings.Contains(e.Error, status) {
		parts = append(parts, status)
	}
	if e.Error != "" {
		parts = append(parts, e.Error)
	}
	if e.NextDeliveryTime != 0 {
		parts = append(parts, "next "+at(e.NextDeliveryTime).text)
	}
	return strings.Join(parts, "  ")
}

// story is a message as its entries in the log show it.
type story struct {
	MessageID      string          `json:"messageId"`
	State          posthaste.State `json:"state"` // where it stands
	Method         string          `json:"method"`
	URL            string          `json:"url"`
	Queue          string          `json:"queueName,omitempty"`
	Label          string          `json:"label,omitempty"`
	CreatedAt      int64           `json:"createdAt,omitempty"` // Unix ms; 0: its beginning was not read
	StateAt        int64           `json:"stateAt"`             // Unix ms
	Attempts       int             `json:"attempts"`
	ResponseStatus int             `json:"responseStatus,omitempty"` // of the latest attempt that ended
	Error          string          `json:"error,omitempty"`
	NextDelivery   int64           `json:"nextDeliveryTime,omitempty"` // Unix ms

	entries []logEntry // the earliest first
}

// add puts an entry before those that the story has.
func (s *story) add(e logEntry) {
	if len(s.entries) == 0 {
		*s = story{
			MessageID: e.MessageID, State: e.State, Method: e.Method, URL: e.URL, Queue: e.Queue, Label: e.Label,
			StateAt: e.Time, NextDelivery: e.NextDeliveryTime,
		}
	}
	s.entries = append([]logEntry{e}, s.entries...)
	switch {
	case e.State == posthaste.StateActive:
		s.Attempts++
	case e.State == posthaste.StateCreated:
		s.CreatedAt = e.Time
	}
	if s.Error == "" && s.State != posthaste.StateDelivered {
		s.Error = e.Error
	}
	if s.ResponseStatus == 0 && (s.State != posthaste.StateDelivered || e.State == posthaste.StateDelivered) {
		s.ResponseStatus = e.status()
	}
}

// mostStoryPages is how much of the log is read for the beginnings of messages.
const mostStoryPages = 20

// tellStories returns the messages that a query of the log is about, those that changed last
// first: count of them that are in one of the states, any if there are none. It reads on until
// it has the beginning of each, but not for ever: messages that wait for days have theirs far
// back.
func tellStories(ctx context.Context, server *client.Client, query url.Values, states []string, count int) ([]*story, error) {
	known := map[string]*story{}
	var order []*story
	request := client.Request{Path: "/v2/logs", Query: query}.With("trimBody", noBodies)
	for range mostStoryPages {
		page, err := server.Page(ctx, request)
		if err != nil {
			return nil, err
		}
		events, err := listIn(page.Body, "events")
		if err != nil {
			return nil, err
		}
		for _, event := range events {
			var e logEntry
			if err := json.Unmarshal(event, &e); err != nil {
				return nil, err
			}
			s := known[e.MessageID]
			if s == nil {
				s = &story{}
				known[e.MessageID] = s
				order = append(order, s)
			}
			s.add(e)
		}
		if page.Cursor == "" || isToldTo(order, states, count) {
			break
		}
		request = request.With("cursor", page.Cursor)
	}
	return selectStories(order, states, count), nil
}

// selectStories returns the first stories that are in one of the states.
func selectStories(all []*story, states []string, count int) (selected []*story) {
	for _, s := range all {
		if count > 0 && len(selected) == count {
			break
		}
		is := func(state string) bool {
			wanted, _ := posthaste.ParseState(state)
			return wanted == s.State
		}
		if len(states) == 0 || slices.ContainsFunc(states, is) {
			selected = append(selected, s)
		}
	}
	return selected
}

// isToldTo reports whether there are as many stories as are wanted, each from its beginning.
func isToldTo(all []*story, states []string, count int) bool {
	selected := selectStories(all, states, count)
	return count > 0 && len(selected) == count &&
		!slices.ContainsFunc(selected, func(s *story) bool { return s.CreatedAt == 0 })
}

// storyTable shows a message in a line.
var storyTable = tableOf(columns{
	{"CHANGED", ofTime},
	{"STATE", len(posthaste.StateCancelRequested)},
	{"ATTEMPTS", 8},
	{"TOOK", 6},
	{"MESSAGE", 26},
	{name: "DESTINATION"},
}, func(s story) []cell {
	took := ""
	if s.CreatedAt != 0 && s.Attempts > 0 {
		took = briefly(time.Duration(s.StateAt-s.CreatedAt) * time.Millisecond)
	}
	return []cell{at(s.StateAt), inState(s.State), number(s.Attempts), {text: took}, {text: s.MessageID}, {text: s.URL, tail: s.what()}}
})

// what says where the message stands, beside its state.
func (s *story) what() string {
	last := logEntry{Error: s.Error, ResponseStatus: s.ResponseStatus, NextDeliveryTime: s.NextDelivery}
	return last.what()
}

// write writes a story from its beginning: what the message is, and a line for each change with
// the time since the one before.
func (s *story) write(t terminal) error {
	look := lookOf(t.Out)
	head := "message " + s.MessageID + "  " + s.Method + " " + s.URL
	if s.Label != "" {
		head += "  label " + s.Label
	}
	if err := writeLine(t.Out, "%s", cut(shown(head), look.width)); err != nil {
		return err
	}
	return s.writeChanges(t)
}

// writeChanges writes a line for each change.
func (s *story) writeChanges(t terminal) error {
	return changeColumns.writeBody(t.Out, lookOf(t.Out), s.rows())
}

var changeColumns = columns{{"", 0}, {"TIME", ofTime}, {"AFTER", 7}, {"STATE", len(posthaste.StateCancelRequested)}, {name: "WHAT"}}

func (s *story) rows() (rows [][]cell) {
	before := int64(0)
	for _, e := range s.entries {
		after := ""
		if before != 0 {
			after = "+" + briefly(time.Duration(e.Time-before)*time.Millisecond)
		}
		before = e.Time
		rows = append(rows, []cell{{}, at(e.Time), {text: after, colour: faint}, inState(e.State), {text: e.what()}})
	}
	return rows
}

// listMessagesCommand lists messages, each once.
type listMessagesCommand struct {
	logFilters `kong:"set='things=Messages',set='made=Messages published',set='timed=Messages that changed'"`
	State      []string `group:"filter" env:"-" sep:"none" placeholder:"STATE" help:"Messages whose latest state is this, such as FAILED."`
	Count      int      `env:"-" default:"50" placeholder:"N" help:"Maximum number of messages: 1 to 1000."`
	listOutput
	connection
}

// Validate returns a sentence about the first setting that is wrong.
func (c *listMessagesCommand) Validate() error {
	for _, state := range c.State {
		if _, known := posthaste.ParseState(state); !known {
			return unknownState(state)
		}
	}
	return cmp.Or(within("count", count(c.Count), 1, 1000), c.connection.Validate())
}

// unknownState returns a sentence about a text that is no state of messages.
func unknownState(text string) error {
	known := make([]string, len(posthaste.States))
	for i, state := range posthaste.States {
		known[i] = string(state)
	}
	return posthaste.Invalidf("state %q is not one of %s", text, strings.Join(known, ", "))
}

// Run prints the messages that changed last.
func (c *listMessagesCommand) Run(t terminal) error {
	return c.call(t, func(ctx context.Context, server *client.Client) error {
		stories, err := tellStories(ctx, server, params(c.logFilters), c.State, c.Count)
		if err != nil {
			return err
		}
		values := make([]json.RawMessage, len(stories))
		for i, s := range stories {
			if values[i], err = json.Marshal(s); err != nil {
				return err
			}
		}
		return list{output: c.Output, name: "messages", table: storyTable}.write(t, each(values))
	})
}
