package api

import "testing"

func TestPreferredMedia(t *testing.T) {
	tests := []struct {
		name   string
		accept []string
		want   string
	}{
		{"none", nil, ""},
		{"one", []string{"text/event-stream"}, "text/event-stream"},
		{"any case", []string{"Text/Event-Stream"}, "text/event-stream"},
		{"with parameters", []string{"application/x-ndjson; charset=utf-8"}, "application/x-ndjson"},
		{"the first of several", []string{"application/json, text/event-stream"}, "application/json"},
		{"by weight", []string{"application/json;q=0.5, application/x-ndjson;q=0.9, */*;q=0.1"}, "application/x-ndjson"},
		{"refused", []string{"text/event-stream;q=0, */*"}, "*/*"},
		{"in several headers", []string{"*/*;q=0.1", "text/event-stream"}, "text/event-stream"},
		{"nonsense beside it", []string{"/;;, ,text/event-stream;q=x, application/x-ndjson"}, "application/x-ndjson"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := preferredMedia(test.accept); got != test.want {
				t.Errorf("preferredMedia(%q) = %q, want %q", test.accept, got, test.want)
			}
		})
	}
}
