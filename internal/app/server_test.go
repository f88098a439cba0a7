package app

import (
	"io"
	"net/http"
	"testing"
)

func TestRoutes(t *testing.T) {
	say := func(what string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, what) })
	}
	handler := &routes{api: say("api"), ready: say("ready"), metrics: say("metrics")}
	tests := map[string]struct{ path, want string }{
		"health":                     {"/healthz", "ok\n"},
		"readiness":                  {"/readyz", "ready"},
		"metrics":                    {"/metrics", "metrics"},
		"the interface":              {"/v2/logs", "api"},
		"a destination with slashes": {"/v2/publish/https://example.com//a/../b", "api"},
		"a doubled slash":            {"//v2/logs", "api"},
		"what nobody knows":          {"/healthz/more", "api"},
		"the root":                   {"/", "api"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := ask(handler, http.MethodGet, test.path)
			if got.Code != http.StatusOK || got.Body.String() != test.want {
				t.Errorf("%s answers %d %q, want %q", test.path, got.Code, got.Body, test.want)
			}
		})
	}
}
