package app

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestPermissive(t *testing.T) {
	handler := permissive(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
	}))
	tests := map[string]struct {
		method  string
		headers map[string]string
		status  int
		want    map[string]string
	}{
		"a request passes": {
			http.MethodGet, nil, http.StatusTeapot,
			map[string]string{"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Methods": ""},
		},
		"OPTIONS that is no preflight passes": {
			http.MethodOptions, nil, http.StatusTeapot,
			map[string]string{"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Methods": ""},
		},
		"a preflight is allowed what it asks for": {
			http.MethodOptions,
			map[string]string{"Access-Control-Request-Method": "DELETE", "Access-Control-Request-Headers": "authorization,upstash-delay"},
			http.StatusNoContent,
			map[string]string{
				"Access-Control-Allow-Origin":          "*",
				"Access-Control-Allow-Methods":         "GET, POST, PUT, PATCH, DELETE",
				"Access-Control-Allow-Headers":         "authorization,upstash-delay",
				"Access-Control-Allow-Private-Network": "",
			},
		},
		"a preflight from a public site": {
			http.MethodOptions,
			map[string]string{"Access-Control-Request-Method": "GET", "Access-Control-Request-Private-Network": "true"},
			http.StatusNoContent,
			map[string]string{"Access-Control-Allow-Private-Network": "true", "Access-Control-Allow-Headers": ""},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			request := httptest.NewRequest(test.method, "/v2/logs", nil)
			for name, value := range test.headers {
				request.Header.Set(name, value)
			}
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, request)
			if recorder.Code != test.status {
				t.Errorf("status = %d, want %d", recorder.Code, test.status)
			}
			for name, value := range test.want {
				if got := recorder.Header().Get(name); got != value {
					t.Errorf("%s = %q, want %q", name, got, value)
				}
			}
		})
	}
}
