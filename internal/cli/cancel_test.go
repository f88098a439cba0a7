package cli

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"posthaste/internal/client"
)

// TestBrokenCancellation breaks off a cancellation at its third request: what was cancelled
// until then is told, and nobody is asked again.
func TestBrokenCancellation(t *testing.T) {
	tests := map[string]struct {
		output       string
		third        int // how its server answers then; 0: it cancels, and the command is interrupted
		out, failure string
	}{
		"interrupted":         {"table", 0, "", "1500 messages cancelled: interrupted"},
		"interrupted as JSON": {"json", 0, "{\"cancelled\":1500}\n", "1500 messages cancelled: interrupted"},
		"refused":             {"table", http.StatusForbidden, "", "1000 messages cancelled: the server answers 403: no"},
		"refused as JSON":     {"json", http.StatusForbidden, "{\"cancelled\":1000}\n", "1000 messages cancelled: the server answers 403: no"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
				switch {
				case asked == 3 && test.third != 0:
					w.WriteHeader(test.third)
					_, _ = w.Write([]byte(`{"error":"no"}`))
					return
				case asked == 3:
					interrupt()
				}
				_, _ = w.Write([]byte(`{"cancelled":500}`))
			}))
			defer server.Close()
			to, err := client.New(client.Options{Server: client.Server{URL: server.URL}})
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			request := client.Request{Method: http.MethodDelete, Path: pathMessages}
			err = cancellation{thing: "message"}.cancel(ctx, terminal{&out, &bytes.Buffer{}}, to, request, 0, test.output)
			if err == nil || err.Error() != test.failure || out.String() != test.out || asked != 3 {
				t.Errorf("%v, %q, after %d requests; want %s, %q, after 3", err, &out, asked, test.failure, test.out)
			}
		})
	}
}
