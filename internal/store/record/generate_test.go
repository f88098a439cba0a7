package record

import (
	"net/http"
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

var anyMessage = rapid.Custom(func(t *rapid.T) *posthaste.Message {
	m := &posthaste.Message{
		ID:         posthaste.MessageID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id")),
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

// anyEvent draws an event without what a record leaves out.
var anyEvent = rapid.Custom(func(t *rapid.T) posthaste.Event {
	return posthaste.Event{
		State:          rapid.SampledFrom(posthaste.States).Draw(t, "state"),
		Error:          anyText.Draw(t, "error"),
		NextDeliveryAt: anyTime.Draw(t, "next"),
	}
})
