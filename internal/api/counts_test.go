package api_test

import (
	"context"
	"testing"

	"posthaste"
	"posthaste/internal/api"
	"posthaste/internal/eventlog"
	"posthaste/internal/store"
)

// counted notes the most that was asked of it at once, 0 for all there is.
type counted struct {
	api.Engine
	eventlog.Source
	most int
}

func (c *counted) CancelMatching(_ context.Context, _ string, _ store.LiveQuery, limit int) (int, error) {
	c.most = limit
	return 0, nil
}

func (c *counted) DeadLetters(_ context.Context, _ string, query store.DeadLetterQuery) (store.DeadLetterPage, error) {
	c.most = max(c.most, query.Limit)
	return store.DeadLetterPage{DeadLetters: []*posthaste.DeadLetter{{ID: 1, Message: plainMessage}}}, nil
}

func (c *counted) DeleteDeadLetters(context.Context, string, []posthaste.DeadLetterID) ([]posthaste.DeadLetterID, error) {
	return nil, nil
}

func (c *counted) Events(_ context.Context, _ string, query store.EventQuery, _ func(*store.Entry) error) (next posthaste.Position, more bool, err error) {
	c.most = query.Limit
	return 0, false, nil
}

// TestCounts checks how much a call returns or changes at once if it is not told,
// and if it is told more than is allowed (contract, messages 9, U-70 and
// decision 4).
func TestCounts(t *testing.T) {
	tests := []struct {
		name, method, path string
		unset, huge        int
	}{
		{"logs", "GET", "/v2/logs", 1000, 1000},
		{"events", "GET", "/v2/events", 1000, 1000},
		{"dead letters listed", "GET", "/v2/dlq", 100, 100},
		{"dead letters deleted", "DELETE", "/v2/dlq", 100, 100},
		{"messages cancelled", "DELETE", "/v2/messages", 0, 500},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for query, want := range map[string]int{"": test.unset, "?count=7": 7, "?count=1000000": test.huge} {
				parts := &counted{}
				handler := newSurface(t, &published{}, func(o *api.Options) {
					o.Engine, o.Log = parts, eventlog.New(eventlog.Options{Store: parts})
				})
				response := do(handler, newRequest(test.method, test.path+query, nil))
				if response.Code != 200 || parts.most != want {
					t.Errorf("%q asks for %d, want %d: %d %s", query, parts.most, want, response.Code, response.Body)
				}
			}
		})
	}
}
