package openapitest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

var shared = sync.OnceValues(New)

// Handler returns a handler that answers as next does, and fails the test for each
// exchange with a recorder that is not as it is described. Others it leaves alone: they
// are about connections.
func Handler(t testing.TB, next http.Handler) http.Handler {
	t.Helper()
	checker, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorder, recorded := w.(*httptest.ResponseRecorder)
		if !recorded {
			next.ServeHTTP(w, r)
			return
		}
		var sent bytes.Buffer
		if r.Body != nil {
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.TeeReader(r.Body, &sent), r.Body}
		}
		next.ServeHTTP(w, r)
		x := Exchange{
			Method: r.Method, Target: r.RequestURI, RequestHeader: r.Header, RequestBody: sent.Bytes(),
			Status: recorder.Code, Header: recorder.Header(), Body: recorder.Body.Bytes(),
		}
		if x.Target == "" {
			x.Target = r.URL.RequestURI()
		}
		if err := checker.Check(x); err != nil {
			t.Errorf("not as internal/openapi/openapi.yaml describes it: %v", err)
		}
	})
}
