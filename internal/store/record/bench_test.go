package record

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"posthaste"
)

// typical is the message the budgets speak of: a URL, three headers and a body
// of 512 bytes.
func typical() *posthaste.Message {
	at := time.UnixMilli(1_700_000_000_000)
	retries := 3
	return &posthaste.Message{
		ID:        posthaste.MessageID{1, 2, 3},
		User:      "alice",
		URL:       "https://example.com/webhooks/orders?source=shop",
		Body:      bytes.Repeat([]byte("x"), 512),
		CreatedAt: at,
		NotBefore: at,
		CallerIP:  "192.0.2.7",
		Settings: posthaste.Settings{
			Method: http.MethodPost,
			Header: http.Header{
				"Content-Type": {"application/json"},
				"X-Request-Id": {"5f2b8a"},
				"X-Tenant":     {"blue"},
			},
			Retries: &retries,
		},
	}
}

func BenchmarkAppendMessage(b *testing.B) {
	m := typical()
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendMessage(dst[:0], m)
	}
}

func BenchmarkDecodeMessage(b *testing.B) {
	m := typical()
	data := AppendMessage(nil, m)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeMessage(m.ID, m.User, data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendEvent(b *testing.B) {
	e := &posthaste.Event{State: posthaste.StateActive}
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendEvent(dst[:0], e)
	}
}

func BenchmarkDecodeEvent(b *testing.B) {
	data := AppendEvent(nil, &posthaste.Event{State: posthaste.StateActive})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeEvent(data); err != nil {
			b.Fatal(err)
		}
	}
}
