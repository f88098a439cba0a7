package record

import (
	"net/http"
	"slices"
	"time"

	"pgregory.net/rapid"

	"posthaste"
)

// anyText draws texts of all bytes: what clients send is not always UTF-8.
var anyText = rapid.Custom(func(t *rapid.T) string {
	return string(rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "text"))
})

// anyBytes draws nil or a body of at least one byte, as decoding returns them.
var anyBytes = rapid.Custom(func(t *rapid.T) []byte {
	if rapid.Bool().Draw(t, "none") {
		return nil
	}
	return rapid.SliceOfN(rapid.Byte(), 1, 600).Draw(t, "body")
})

var anyTexts = rapid.Custom(func(t *rapid.T) []string {
	if rapid.Bool().Draw(t, "none") {
		return nil
	}
	return rapid.SliceOfN(anyText, 1, 4).Draw(t, "texts")
})

var anyHeader = rapid.Custom(func(t *rapid.T) http.Header {
	if rapid.Bool().Draw(t, "none") {
		return nil
	}
	values := rapid.SliceOfN(anyText, 1, 3)
	return rapid.MapOfN(anyText, values, 1, 30).Draw(t, "header")
})

// anyTime draws no time or one from 1970 on, to the millisecond.
var anyTime = rapid.Custom(func(t *rapid.T) time.Time {
	return fromMilli(rapid.Int64Range(0, 1<<47).Draw(t, "ms"))
})

var anyDuration = rapid.Map(rapid.Int64(), func(n int64) time.Duration { return time.Duration(n) })

var anyRetries = rapid.Ptr(rapid.IntRange(0, 1<<30), true)

// anySettings draws settings whose callbacks nest at most depth deep.
func anySettings(depth int) *rapid.Generator[posthaste.Settings] {
	return rapid.Custom(func(t *rapid.T) posthaste.Settings {
		return posthaste.Settings{
			Method:     anyText.Draw(t, "method"),
			Header:     anyHeader.Draw(t, "header"),
			Retries:    anyRetries.Draw(t, "retries"),
			RetryDelay: anyText.Draw(t, "retry delay"),
			Timeout:    anyDuration.Draw(t, "timeout"),
			Labels:     anyTexts.Draw(t, "labels"),
			FlowControl: posthaste.FlowControl{
				Key: anyText.Draw(t, "flow key"),
				FlowLimit: posthaste.FlowLimit{
					Parallelism: rapid.Int().Draw(t, "parallelism"),
					Rate:        rapid.Int().Draw(t, "rate"),
					Period:      anyDuration.Draw(t, "period"),
				},
			},
			Callback:        anyCallback(depth).Draw(t, "callback"),
			FailureCallback: anyCallback(depth).Draw(t, "failure callback"),
			Redact: posthaste.Redaction{
				Body:       rapid.Bool().Draw(t, "redact body"),
				AllHeaders: rapid.Bool().Draw(t, "redact all"),
				Headers:    anyTexts.Draw(t, "redact headers"),
			},
			Dialect: posthaste.Dialect(rapid.Uint8Range(0, uint8(posthaste.DialectService)).Draw(t, "dialect")),
			Trace:   posthaste.TraceContext(anyText.Draw(t, "trace")),
		}
	})
}

func anyCallback(depth int) *rapid.Generator[*posthaste.Callback] {
	if depth == 0 {
		return rapid.Just[*posthaste.Callback](nil)
	}
	return rapid.Custom(func(t *rapid.T) *posthaste.Callback {
		if rapid.Bool().Draw(t, "none") {
			return nil
		}
		return &posthaste.Callback{
			URL:      anyText.Draw(t, "url"),
			Delay:    anyDuration.Draw(t, "delay"),
			Given:    anyHeader.Draw(t, "given"),
			Settings: anySettings(depth-1).Draw(t, "settings"),
		}
	})
}

var anyID = rapid.Custom(func(t *rapid.T) posthaste.MessageID {
	return posthaste.MessageID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
})

var anyMessage = rapid.Custom(func(t *rapid.T) *posthaste.Message {
	m := &posthaste.Message{
		ID:         anyID.Draw(t, "id"),
		User:       anyText.Draw(t, "user"),
		URL:        anyText.Draw(t, "url"),
		Body:       anyBytes.Draw(t, "body"),
		CreatedAt:  anyTime.Draw(t, "created at"),
		NotBefore:  anyTime.Draw(t, "not before"),
		CallerIP:   anyText.Draw(t, "caller"),
		Queue:      anyText.Draw(t, "queue"),
		URLGroup:   anyText.Draw(t, "group"),
		Endpoint:   anyText.Draw(t, "endpoint"),
		ScheduleID: anyText.Draw(t, "schedule"),
		SourceID:   anyOptionalID.Draw(t, "source"),
		Run:        rapid.Ptr(anyRunLink, true).Draw(t, "run"),
		Settings:   anySettings(2).Draw(t, "settings"),
	}
	if m.NotBefore.Before(m.CreatedAt) {
		m.NotBefore = m.CreatedAt
	}
	return m
})

var anyResponse = rapid.Custom(func(t *rapid.T) *posthaste.Response {
	return &posthaste.Response{
		Status:    rapid.IntRange(0, 999).Draw(t, "status"),
		Header:    anyHeader.Draw(t, "header"),
		Body:      anyBytes.Draw(t, "body"),
		Truncated: rapid.Bool().Draw(t, "truncated"),
	}
})

// allStates lists the states of messages and those of runs.
func allStates() []posthaste.State {
	all := slices.Clone(posthaste.States)
	for _, state := range posthaste.RunStates {
		all = append(all, posthaste.State(state))
	}
	return all
}

// anyEvent draws an event without what a record leaves out.
var anyEvent = rapid.Custom(func(t *rapid.T) posthaste.Event {
	return posthaste.Event{
		State:          rapid.SampledFrom(allStates()).Draw(t, "state"),
		Error:          anyText.Draw(t, "error"),
		NextDeliveryAt: anyTime.Draw(t, "next"),
		Attempt: posthaste.Attempt{
			Status: rapid.IntRange(0, 999).Draw(t, "status"),
			Took:   time.Duration(rapid.Int64Range(0, 1<<32-1).Draw(t, "took")) * time.Millisecond,
		},
	}
})

var anyDeadLetter = rapid.Custom(func(t *rapid.T) *posthaste.DeadLetter {
	d := &posthaste.DeadLetter{
		ID:      posthaste.DeadLetterID(rapid.Uint64().Draw(t, "id")),
		Message: anyMessage.Draw(t, "message"),
		Error:   anyText.Draw(t, "error"),
	}
	if rapid.Bool().Draw(t, "answered") {
		d.Response = anyResponse.Draw(t, "response")
	}
	return d
})

var anyQueue = rapid.Custom(func(t *rapid.T) *posthaste.Queue {
	return &posthaste.Queue{
		Name:        anyText.Draw(t, "name"),
		Parallelism: rapid.Int().Draw(t, "parallelism"),
		Paused:      rapid.Bool().Draw(t, "paused"),
		CreatedAt:   anyTime.Draw(t, "created at"),
		UpdatedAt:   anyTime.Draw(t, "updated at"),
	}
})

var anyURLGroup = rapid.Custom(func(t *rapid.T) *posthaste.URLGroup {
	g := &posthaste.URLGroup{
		Name:      anyText.Draw(t, "name"),
		Headers:   anyHeader.Draw(t, "headers"),
		CreatedAt: anyTime.Draw(t, "created at"),
		UpdatedAt: anyTime.Draw(t, "updated at"),
	}
	for range rapid.IntRange(0, 4).Draw(t, "endpoints") {
		g.Endpoints = append(g.Endpoints, posthaste.Endpoint{Name: anyText.Draw(t, "endpoint"), URL: anyText.Draw(t, "url")})
	}
	return g
})

var anySchedule = rapid.Custom(func(t *rapid.T) *posthaste.Schedule {
	s := &posthaste.Schedule{
		ID:          anyText.Draw(t, "id"),
		User:        anyText.Draw(t, "user"),
		Cron:        anyText.Draw(t, "cron"),
		Destination: anyText.Draw(t, "destination"),
		Queue:       anyText.Draw(t, "queue"),
		Body:        anyBytes.Draw(t, "body"),
		Delay:       anyDuration.Draw(t, "delay"),
		CallerIP:    anyText.Draw(t, "caller"),
		CreatedAt:   anyTime.Draw(t, "created at"),
		Paused:      rapid.Bool().Draw(t, "paused"),
		LastAt:      anyTime.Draw(t, "last at"),
		NextAt:      anyTime.Draw(t, "next at"),
		Error:       anyText.Draw(t, "error"),
		Settings:    anySettings(1).Draw(t, "settings"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "messages") {
		s.LastMessages = append(s.LastMessages, anyID.Draw(t, "message"))
	}
	return s
})

var anyFlowKey = rapid.Custom(func(t *rapid.T) *posthaste.FlowKey {
	return &posthaste.FlowKey{
		Key: anyText.Draw(t, "key"),
		FlowLimit: posthaste.FlowLimit{
			Parallelism: rapid.Int().Draw(t, "parallelism"),
			Rate:        rapid.Int().Draw(t, "rate"),
			Period:      anyDuration.Draw(t, "period"),
		},
		CreatedAt:         anyTime.Draw(t, "created at"),
		UsedAt:            anyTime.Draw(t, "used at"),
		PinnedParallelism: rapid.Bool().Draw(t, "pinned parallelism"),
		PinnedRate:        rapid.Bool().Draw(t, "pinned rate"),
		Paused:            rapid.Bool().Draw(t, "paused"),
		WindowStartedAt:   anyTime.Draw(t, "window"),
		WindowCount:       rapid.Int().Draw(t, "count"),
	}
})

// anyTimeOf1970 draws a time that may be the first of all that a record can have, or none.
var anyTimeOf1970 = rapid.OneOf(anyTime, rapid.Just(time.UnixMilli(0)))

// listOf draws a list, nil for none.
func listOf[T any](element *rapid.Generator[T]) *rapid.Generator[[]T] {
	return rapid.OneOf(rapid.Just[[]T](nil), rapid.SliceOfN(element, 1, 3))
}

var anyFilter = rapid.Custom(func(t *rapid.T) posthaste.Filter {
	texts := func(name string) []string { return anyTexts.Draw(t, name) }
	return posthaste.Filter{
		MessageIDs:     listOf(anyID).Draw(t, "messages"),
		DeadLetterIDs:  listOf(rapid.Map(rapid.Uint64(), func(id uint64) posthaste.DeadLetterID { return posthaste.DeadLetterID(id) })).Draw(t, "letters"),
		RunIDPrefixes:  texts("runs"),
		URLs:           texts("URLs"),
		URLPrefixes:    texts("URL prefixes"),
		URLGroups:      texts("groups"),
		ScheduleIDs:    texts("schedules"),
		Queues:         texts("queues"),
		Labels:         texts("labels"),
		Hosts:          texts("hosts"),
		Paths:          texts("paths"),
		CallerIPs:      texts("callers"),
		FlowKeys:       texts("flow keys"),
		Statuses:       listOf(rapid.IntRange(0, 999)).Draw(t, "statuses"),
		CallbackStates: listOf(rapid.SampledFrom(posthaste.CallbackStates)).Draw(t, "callbacks"),
		CreatedAts:     listOf(rapid.Map(rapid.Int64Range(0, 1<<52), time.UnixMilli)).Draw(t, "created"),
		From:           posthaste.Position(rapid.Uint64().Draw(t, "from")),
		Until:          posthaste.Position(rapid.Uint64().Draw(t, "until")),
		States:         listOf(rapid.SampledFrom(posthaste.States)).Draw(t, "states"),
		RunStates:      listOf(rapid.SampledFrom(posthaste.RunStates)).Draw(t, "run states"),
		Positions:      listOf(rapid.Map(rapid.Uint64(), func(at uint64) posthaste.Position { return posthaste.Position(at) })).Draw(t, "positions"),
		RunIDs:         texts("run ids"),
		OfRuns:         rapid.Bool().Draw(t, "of runs"),
		WorkflowURLs:   texts("workflow URLs"),
	}
})

var anyAction = rapid.Custom(func(t *rapid.T) *posthaste.BulkAction {
	a := &posthaste.BulkAction{
		ID:        anyText.Draw(t, "id"),
		User:      anyText.Draw(t, "user"),
		Kind:      posthaste.ActionKind(anyText.Draw(t, "kind")),
		Filter:    anyFilter.Draw(t, "filter"),
		Asked:     anyHeader.Draw(t, "asked"),
		CallerIP:  anyText.Draw(t, "caller"),
		Total:     rapid.Int().Draw(t, "total"),
		Processed: rapid.Int().Draw(t, "processed"),
		Failed:    rapid.Int().Draw(t, "failed"),
		Cursor: posthaste.ActionCursor{
			Low:  posthaste.Position(rapid.Uint64().Draw(t, "low")),
			High: posthaste.Position(rapid.Uint64().Draw(t, "high")),
			Live: anyText.Draw(t, "live"),
		},
		Overrides: posthaste.Overrides{
			Delay:     anyDuration.Draw(t, "delay"),
			NotBefore: anyTimeOf1970.Draw(t, "not before"),
			Settings:  anySettings(1).Draw(t, "overrides"),
		},
		CreatedAt:   anyTime.Draw(t, "created at"),
		CompletedAt: anyTime.Draw(t, "completed at"),
		Cancelled:   rapid.Bool().Draw(t, "cancelled"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "failures") {
		a.Failures = append(a.Failures, posthaste.ActionFailure{ID: anyText.Draw(t, "failure"), Error: anyText.Draw(t, "error")})
	}
	return a
})
