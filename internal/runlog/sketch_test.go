package runlog_test

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/runlog"
	"posthaste/internal/store"
)

// noon is when the runs of these tests begin.
var noon = time.UnixMilli(1_700_000_000_000)

// messageID is the id of the nth message, which is made n seconds past noon.
func messageID(n int) posthaste.MessageID {
	id := posthaste.MessageID{15: byte(n)}
	ms := uint64(noon.UnixMilli() + int64(n)*1000)
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	return id
}

// sketch draws what is known of a run, piece by piece.
type sketch struct {
	*runlog.Facts
	made   int // messages and waiters
	stands []*store.Status
}

// newSketch returns a run whose first entry was delivered.
func newSketch() *sketch {
	at := posthaste.FirstPosition(noon)
	s := &sketch{Facts: &runlog.Facts{
		Run: &posthaste.Run{
			RunRef:      posthaste.RunRef{ID: "wfr_1", CreatedAt: noon, Position: at, URL: "https://app.example/wf"},
			User:        "ann",
			RunProgress: posthaste.RunProgress{State: posthaste.RunStarted},
		},
		Messages: map[posthaste.MessageID]store.Status{},
		Errors:   map[posthaste.MessageID][]posthaste.Event{},
		Now:      noon.Add(time.Hour),
	}}
	s.First = s.entry(posthaste.CallStep, "payload").Message.ID
	s.Run.FirstID = s.First
	return s
}

// entry adds an entry whose message was delivered, and returns where that stands for
// stands to change.
func (s *sketch) entry(callType posthaste.CallType, body string) *store.Status {
	s.made++
	m := &posthaste.Message{
		ID:        messageID(s.made),
		URL:       s.Run.URL,
		Body:      []byte(body),
		NotBefore: messageID(s.made).CreatedAt(),
		Run:       &posthaste.RunLink{RunRef: s.Run.RunRef, CallType: callType, Entry: len(s.Entries)},
	}
	s.Entries = append(s.Entries, posthaste.RunEntry{
		Index: len(s.Entries), MessageID: m.ID, CallType: callType, Body: m.Body,
	})
	st := &store.Status{Message: m, State: posthaste.StateDelivered}
	s.stands = append(s.stands, st)
	return st
}

// step adds a plan or a result.
func (s *sketch) step(body string) *store.Status { return s.entry(posthaste.CallStep, body) }

// call adds a request that is made for a step.
func (s *sketch) call(stepID, name string, concurrent int) *store.Status {
	st := s.entry(posthaste.CallRequest, "asked")
	st.Message.URL, st.Message.Method = "https://third.example/x", http.MethodPut
	st.Message.Callback = &posthaste.Callback{URL: s.Run.URL, Settings: posthaste.Settings{Header: http.Header{
		"Upstash-Workflow-Stepid":     {stepID},
		"Upstash-Workflow-Stepname":   {name},
		"Upstash-Workflow-Steptype":   {"Call"},
		"Upstash-Workflow-Concurrent": {fmt.Sprint(concurrent)},
	}}}
	return st
}

// answer adds what came of a call.
func (s *sketch) answer(call *store.Status) *store.Status {
	return s.entry(posthaste.CallAnswer, fmt.Sprintf(
		`{"status":201,"header":{"X-A":["b"]},"body":"aGk=","sourceMessageId":"%s"}`, call.Message.ID))
}

// wait adds something that the run waits for.
func (s *sketch) wait(topic posthaste.Topic, step string) *posthaste.Waiter {
	s.made++
	w := &posthaste.Waiter{
		Run:       s.Run.RunRef,
		MessageID: messageID(s.made),
		CreatedAt: messageID(s.made).CreatedAt(),
		After:     len(s.Entries),
		Step:      []byte(step),
		Topic:     topic,
	}
	s.Waiters = append(s.Waiters, w)
	return w
}

// fails adds failed attempts to a message, which has none left.
func (s *sketch) fails(st *store.Status, statuses ...int) {
	for _, status := range statuses {
		event := posthaste.Event{
			Position:  posthaste.FirstPosition(noon.Add(time.Minute)) + posthaste.Position(st.Retried),
			MessageID: st.Message.ID,
			State:     posthaste.StateError,
			Error:     "no answer",
		}
		if status != 0 {
			event.Error = fmt.Sprint(status, " ", http.StatusText(status))
			event.Response = &posthaste.Response{Status: status, Header: http.Header{"X-Why": {"test"}}, Body: []byte("no")}
		}
		s.Errors[st.Message.ID] = append(s.Errors[st.Message.ID], event)
		st.Retried++
	}
}

// retries lets a message wait for another attempt.
func (s *sketch) retries(st *store.Status, statuses ...int) {
	s.fails(st, statuses...)
	st.State, st.NextAttemptAt = posthaste.StateRetry, s.Now.Add(time.Minute)
}

// fail ends the run because a message failed.
func (s *sketch) fail(st *store.Status, statuses ...int) {
	s.fails(st, statuses...)
	st.State = posthaste.StateFailed
	s.end(posthaste.RunFailed)
	s.Run.FailedID, s.Run.FailedStatus = st.Message.ID, statuses[len(statuses)-1]
	s.Run.DeadLetterID = posthaste.DeadLetterID(posthaste.FirstPosition(s.Run.CompletedAt))
}

// cancel ends the run with a message that was not delivered.
func (s *sketch) cancel(st *store.Status) {
	st.State, st.NextAttemptAt = posthaste.StateCancelled, time.Time{}
	s.end(posthaste.RunCancelled)
}

// sleepUntil lets the first attempt of a message be due then.
func sleepUntil(st *store.Status, at time.Time) {
	st.State, st.NextAttemptAt, st.Message.NotBefore = posthaste.StateCreated, at, at
}

func (s *sketch) end(state posthaste.RunState) {
	s.Run.State, s.Run.CompletedAt = state, s.Now.Add(-time.Minute)
}

// shown returns the run as it is read.
func (s *sketch) shown() *runlog.Run {
	for _, st := range s.stands {
		s.Messages[st.Message.ID] = *st
	}
	return s.Show(math.MaxInt)
}

// outline writes groups in short, a line each.
func outline(groups []runlog.Group) string {
	var lines strings.Builder
	for _, group := range groups {
		steps := make([]string, len(group.Steps))
		for i, step := range group.Steps {
			steps[i] = outlineStep(step)
		}
		fmt.Fprintf(&lines, "%s: %s\n", group.Type, strings.Join(steps, " | "))
	}
	return lines.String()
}

func outlineStep(s *runlog.Step) string {
	var words []string
	if s.ID != 0 {
		words = append(words, fmt.Sprint(s.ID))
	}
	for _, word := range []string{s.Name, s.Type, string(s.State)} {
		if word != "" {
			words = append(words, word)
		}
	}
	for _, failed := range s.Errors {
		words = append(words, fmt.Sprint(failed.Status))
	}
	if s.NextAt != 0 {
		words = append(words, "next")
	}
	return strings.Join(words, " ")
}
