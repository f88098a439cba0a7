package app

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestLimitsReachTheirParts checks that what options say of the API's limits is
// what the API holds its callers to.
func TestLimitsReachTheirParts(t *testing.T) {
	server, err := New(t.Context(), Options{
		Listeners:      []net.Listener{listen(t)},
		Data:           t.TempDir(),
		Tokens:         []string{token},
		MaxBatchSize:   100,
		MaxQueues:      1,
		MaxParallelism: 2,
		MaxSchedules:   1,
		Log:            slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	server.Start()
	defer func() { _ = server.Stop(t.Context()) }()
	tests := []struct {
		name, path, body string
		want             int
	}{
		{"a queue", "/v2/queues", `{"queueName":"a"}`, http.StatusOK},
		{"a queue too many", "/v2/queues", `{"queueName":"b"}`, http.StatusPreconditionFailed},
		{"too much parallelism", "/v2/queues", `{"queueName":"a","parallelism":3}`, http.StatusPreconditionFailed},
		{"a schedule", "/v2/schedules/https://example.com?upstash-cron=0+0+1+1+*", "", http.StatusOK},
		{"a schedule too many", "/v2/schedules/https://example.com?upstash-cron=0+0+1+1+*", "", http.StatusPreconditionFailed},
		{"a batch too large", "/v2/batch", "[" + strings.Repeat(" ", 100) + "]", http.StatusRequestEntityTooLarge},
		{"overrides of a background retry", "/v2/dlq/retry?async=true&upstash-retries=1", "", http.StatusAccepted},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, test.path, strings.NewReader(test.body))
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			server.server.Handler.ServeHTTP(w, r)
			if w.Code != test.want {
				t.Errorf("%d %s, want %d", w.Code, w.Body, test.want)
			}
		})
	}
}
