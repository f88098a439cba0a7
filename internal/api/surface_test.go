package api_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/api"
	"posthaste/internal/engine"
	"posthaste/internal/store"
)

func newRequest(method, target string, body io.Reader) *http.Request {
	r := httptest.NewRequest(method, target, body)
	r.Header.Set("Authorization", "Bearer full")
	return r
}

// do plays a request and returns the response.
func do(handler http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// Contract, messages 9 and U-17.
func TestBodyLimit(t *testing.T) {
	tests := []struct {
		name    string
		maxBody int64
		size    int64
		want    int
	}{
		{"at the limit", 10, 10, http.StatusOK},
		{"over the limit", 10, 11, http.StatusRequestEntityTooLarge},
		{"at the default", 0, 1 << 20, http.StatusOK},
		{"over the default", 0, 1<<20 + 1, http.StatusRequestEntityTooLarge},
	}
	for _, test := range tests {
		for _, announced := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, announced %v", test.name, announced), func(t *testing.T) {
				var seen published
				handler := newSurface(t, &seen, func(o *api.Options) { o.MaxBody = test.maxBody })
				body := &countingReader{left: test.size}
				r := newRequest("POST", "/v2/publish/https://example.com", body)
				r.ContentLength = -1
				if announced {
					r.ContentLength = test.size
				}
				if got := do(handler, r).Code; got != test.want {
					t.Errorf("status = %d, want %d", got, test.want)
				}
				if test.want == http.StatusOK && int64(len(seen.publications[0].Body)) != test.size {
					t.Errorf("the engine got %d bytes, want %d", len(seen.publications[0].Body), test.size)
				}
			})
		}
	}
}

// TestBodyLimitHasALimit checks an announced body only: the other kind would
// have to be sent.
func TestBodyLimitHasALimit(t *testing.T) {
	handler := newSurface(t, &published{}, func(o *api.Options) { o.MaxBody = 1 << 40 })
	r := newRequest("POST", "/v2/publish/https://example.com", &countingReader{})
	r.ContentLength = api.LargestMaxBody + 1
	if got := do(handler, r).Code; got != http.StatusRequestEntityTooLarge {
		t.Errorf("status = %d, want 413", got)
	}
}

// countingReader is a body of so many bytes.
type countingReader struct{ left int64 }

func (r *countingReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), r.left)
	r.left -= n
	return int(n), nil
}

// TestBodyTooLargeOnTheWire checks that a client that goes on writing reads the
// answer, and that the connection is closed then.
func TestBodyTooLargeOnTheWire(t *testing.T) {
	server := httptest.NewServer(newSurface(t, &published{}, nil))
	defer server.Close()
	for _, size := range []int64{4 << 20, -1} {
		t.Run(fmt.Sprint("announced as ", size), func(t *testing.T) {
			response := post(t, server.Client(), server.URL, &countingReader{left: 4 << 20}, size)
			if response.StatusCode != http.StatusRequestEntityTooLarge || !response.Close {
				t.Errorf("status %d, closing %v; want 413, closing", response.StatusCode, response.Close)
			}
		})
	}
}

// TestBodyTooLargeIsNotSent checks that a client that asks first is spared
// sending in vain.
func TestBodyTooLargeIsNotSent(t *testing.T) {
	server := httptest.NewServer(newSurface(t, &published{}, nil))
	defer server.Close()
	asking := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Hour}}
	defer asking.CloseIdleConnections()
	body := &countingReader{left: 101}
	response := post(t, asking, server.URL, body, 101)
	if response.StatusCode != http.StatusRequestEntityTooLarge || body.left < 101 {
		t.Errorf("status %d with %d bytes left, want 413 with all", response.StatusCode, body.left)
	}
}

// TestRefusalReachesClients sends the whole of a large body before it reads, as many
// clients do, to requests that are refused before their body was read.
func TestRefusalReachesClients(t *testing.T) {
	server := httptest.NewServer(newSurface(t, &published{}, nil))
	defer server.Close()
	const size = 8 << 20 // more than what connections hold on their way
	announced := fmt.Sprintf("Content-Length: %d\r\n\r\n", size)
	chunked := fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", size)
	const known, publish = "Authorization: Bearer full\r\n", "POST /v2/publish/https://example.com"
	tests := map[string]struct {
		line, header, end string
		want              int
	}{
		"too large":                     {publish, known + announced, "", http.StatusRequestEntityTooLarge},
		"too large, in chunks":          {publish, known + chunked, "\r\n0\r\n\r\n", http.StatusRequestEntityTooLarge},
		"no token":                      {publish, announced, "", http.StatusUnauthorized},
		"a bad header":                  {publish, known + "Upstash-Retries: x\r\n" + announced, "", http.StatusBadRequest},
		"no such route":                 {"POST /v2/nothing", known + announced, "", http.StatusNotFound},
		"a method that does not fit":    {"PUT /v2/batch", known + announced, "", http.StatusMethodNotAllowed},
		"a body on what has none at it": {"DELETE /v2/queues/q", known + announced, "", http.StatusRequestEntityTooLarge},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			request := test.line + " HTTP/1.1\r\nHost: example.com\r\n" + test.header + strings.Repeat("x", size) + test.end
			if _, err := io.WriteString(conn, request); err != nil {
				t.Fatal(err)
			}
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != test.want {
				t.Errorf("status %d, want %d", response.StatusCode, test.want)
			}
		})
	}
}

// TestBodyIsDiscardedWithinBounds checks what is not read at all of a body that is refused.
func TestBodyIsDiscardedWithinBounds(t *testing.T) {
	for name, test := range map[string]struct {
		announced, left int64 // left of more than anybody waits for
		expect          string
	}{
		"announced as too large to read":  {api.LargestMaxBody + 1, 1 << 40, ""},
		"the client asks first":           {1, 1 << 40, "100-continue"},
		"without end":                     {-1, 1<<40 - api.LargestMaxBody, ""},
		"as large as the largest message": {api.LargestMaxBody, 1<<40 - api.LargestMaxBody, ""},
	} {
		t.Run(name, func(t *testing.T) {
			body := &countingReader{left: 1 << 40}
			r := httptest.NewRequest("POST", "/v2/publish/https://example.com", body)
			r.ContentLength = test.announced
			r.Header.Set("Expect", test.expect)
			api.DiscardBody(httptest.NewRecorder(), r)
			if body.left != test.left {
				t.Errorf("%d bytes were read, want %d", 1<<40-body.left, 1<<40-test.left)
			}
		})
	}
}

// post publishes a body of a size, -1 for one that is not announced.
func post(t *testing.T, client *http.Client, url string, body io.Reader, size int64) *http.Response {
	t.Helper()
	r, err := http.NewRequest("POST", url+"/v2/publish/https://example.com", body)
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = size
	r.Header.Set("Authorization", "Bearer full")
	if transport := client.Transport.(*http.Transport); transport.ExpectContinueTimeout > 0 {
		r.Header.Set("Expect", "100-continue")
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response
}

// TestBodyCutOff checks that half a message is not accepted.
func TestBodyCutOff(t *testing.T) {
	var seen published
	r := newRequest("POST", "/v2/publish/https://example.com", io.MultiReader(strings.NewReader("half"), brokenReader{}))
	w := do(newSurface(t, &seen, nil), r)
	if w.Code != http.StatusBadRequest || len(seen.publications) != 0 {
		t.Errorf("status %d with %d publications, want 400 with none", w.Code, len(seen.publications))
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestPathOnTheWire checks that nothing between the socket and the engine cleans
// a destination or redirects (contract, messages 0.3 and 0.4, decision 30).
func TestPathOnTheWire(t *testing.T) {
	const destination, want = "https://example.com//a/./b/../c%2f?d=//e/../f&g=\xc3\xa4", "https://example.com//a/./b/../c%2f?d=//e/../f&g=%C3%A4"
	var seen published
	server := httptest.NewServer(newSurface(t, &seen, nil))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "POST //v2/publish/%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer full\r\nConnection: close\r\n\r\n", destination)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 200 ")) {
		t.Fatalf("answer %q, %v", answer, err)
	}
	if got := seen.publications[0].Destination; got != want {
		t.Errorf("destination = %q, want %q", got, want)
	}
}

func TestCallerIP(t *testing.T) {
	tests := []struct {
		name      string
		remote    string
		forwarded []string
		want      string
	}{
		{"direct", "203.0.113.5:80", nil, "203.0.113.5"},
		{"direct over IPv6 with a zone", "[fe80::1%eth0]:80", nil, "fe80::1"},
		{"IPv4 within IPv6", "[::ffff:203.0.113.5]:80", nil, "203.0.113.5"},
		{"no address", "@", nil, ""},
		{"not a trusted proxy", "203.0.113.5:80", []string{"1.2.3.4"}, "203.0.113.5"},
		{"one proxy", "10.0.0.1:80", []string{"203.0.113.5"}, "203.0.113.5"},
		{"forged in front", "10.0.0.1:80", []string{"1.2.3.4, 203.0.113.5"}, "203.0.113.5"},
		{"two proxies", "10.0.0.1:80", []string{"1.2.3.4, 203.0.113.5, 10.0.0.2"}, "203.0.113.5"},
		{"two lines", "10.0.0.1:80", []string{"1.2.3.4", "203.0.113.5"}, "203.0.113.5"},
		{"with a port", "10.0.0.1:80", []string{"203.0.113.5:1234"}, "203.0.113.5"},
		{"IPv6 in brackets", "10.0.0.1:80", []string{"[2001:db8::1]"}, "2001:db8::1"},
		{"a proxy itself", "10.0.0.1:80", nil, "10.0.0.1"},
		{"proxies only", "10.0.0.1:80", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"not an address", "10.0.0.1:80", []string{"1.2.3.4, unknown"}, "10.0.0.1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var seen published
			r := newRequest("POST", "/v2/publish/https://example.com", nil)
			r.RemoteAddr = test.remote
			r.Header["X-Forwarded-For"] = test.forwarded
			do(newSurface(t, &seen, func(o *api.Options) {
				o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
			}), r)
			if got := seen.publications[0].CallerIP; got != test.want {
				t.Errorf("CallerIP = %q, want %q", got, test.want)
			}
		})
	}
}

// TestFailuresAreLogged checks that our own failures leave their cause in the
// log, and nothing that was confided to us (contract, decision 14).
func TestFailuresAreLogged(t *testing.T) {
	var log bytes.Buffer
	handler := newSurface(t, &published{}, func(o *api.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })

	do(handler, newRequest("POST", "/v2/publish/https://example.com/limit", nil))
	if log.Len() > 0 {
		t.Errorf("a refusal was logged: %s", &log)
	}
	do(handler, newRequest("POST", "/v2/publish/https%3A%2F%2Fme:word@example.com%2Fbroken%3Fkey=1?qstash_token=full", nil))
	do(handler, newRequest("POST", "/v2/publish/https://example.com/broken", nil))
	if got := log.String(); !strings.Contains(got, `level=ERROR msg=request.failed method=POST route=/v2/publish/* error="disk on fire"`) {
		t.Errorf("log: %s", got)
	}
	for _, secret := range []string{"full", "word", "key"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("log holds %q: %s", secret, &log)
		}
	}
}

// TestLogPassesOn checks that a query reaches the log decoded, without the token.
func TestLogPassesOn(t *testing.T) {
	var user string
	var query store.EventQuery
	handler := newSurface(t, &published{}, func(o *api.Options) {
		o.Log = fakeLog(func(u string, q store.EventQuery) (store.EventPage, error) {
			user, query = u, q
			return store.EventPage{}, nil
		})
	})
	r := httptest.NewRequest("GET", "/v2/logs?label=a%20b&qstash_token=reader&label=c", nil)
	w := do(handler, r)
	if w.Code != http.StatusOK || user != "ann" || !slices.Equal(query.Filter.Labels, []string{"a b", "c"}) {
		t.Errorf("status %d, user %q, query %+v", w.Code, user, query)
	}
	var page map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || len(page) != 1 || page["events"] == nil {
		t.Errorf("an empty page is %s, want events alone", w.Body)
	}
}

// knownToken is an Authenticator that knows one token.
type knownToken string

func (t knownToken) Authenticate(presented string) (user string, readOnly, ok bool) {
	return "ann", false, presented == string(t)
}

// TestTokenInQuery checks that a token in base64 may stand in a query as it is (contract,
// messages 1.6).
func TestTokenInQuery(t *testing.T) {
	const token = "eyJVc2VySUQiOiJtZSIsIlBhc3N3b3JkIjoiYWF+fn5+In0/=="
	handler := newSurface(t, &published{}, func(o *api.Options) { o.Authenticator = knownToken(token) })
	for name, test := range map[string]struct {
		given string
		want  int
	}{
		"as it is printed": {token, http.StatusOK},
		"percent-encoded":  {url.QueryEscape(token), http.StatusOK},
		"with blanks":      {strings.ReplaceAll(token, "+", "%20"), http.StatusUnauthorized},
		"badly encoded":    {token + "%", http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			w := do(handler, httptest.NewRequest("GET", "/v2/logs?qstash_token="+test.given, nil))
			if w.Code != test.want {
				t.Errorf("status %d, want %d: %s", w.Code, test.want, w.Body)
			}
		})
	}
}

// TestLogFails checks that a failure is answered as one, and not within a page.
func TestLogFails(t *testing.T) {
	handler := newSurface(t, &published{}, func(o *api.Options) {
		o.Log = fakeLog(func(string, store.EventQuery) (store.EventPage, error) {
			return store.EventPage{}, errors.New("disk on fire")
		})
	})
	if w := do(handler, newRequest("GET", "/v2/logs", nil)); w.Code != http.StatusInternalServerError {
		t.Errorf("status = %d, want 500", w.Code)
	}
}

// TestLogCutOff checks that a client cannot take half a page for a whole one.
func TestLogCutOff(t *testing.T) {
	for _, bytes := range []int{0, 11, 12, 500, 3000} {
		func() {
			defer func() {
				if got := recover(); got != http.ErrAbortHandler {
					t.Fatalf("after %d bytes: recovered %v, want http.ErrAbortHandler", bytes, got)
				}
			}()
			w := &cutWriter{ResponseRecorder: httptest.NewRecorder(), left: bytes}
			newSurface(t, &published{}, nil).ServeHTTP(w, newRequest("GET", "/v2/logs", nil))
		}()
	}
}

// cutWriter fails after so many bytes.
type cutWriter struct {
	*httptest.ResponseRecorder
	left int
}

func (w *cutWriter) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

func (w *cutWriter) Write(p []byte) (int, error) {
	if w.left < len(p) {
		return 0, errors.New("connection reset")
	}
	w.left -= len(p)
	return w.ResponseRecorder.Write(p)
}

// TestDefaults checks that a surface works with nothing but what is required.
func TestDefaults(t *testing.T) {
	handler := newSurface(t, &published{}, func(o *api.Options) {
		o.CheckHost, o.Logger, o.TrustedProxies = nil, nil, nil
	})
	if w := do(handler, newRequest("POST", "/v2/publish/http://169.254.169.254", nil)); w.Code != http.StatusOK {
		t.Errorf("status = %d: %s", w.Code, w.Body)
	}
}

func BenchmarkLogPage(b *testing.B) {
	entries := make([]store.Entry, 1000)
	for i := range entries {
		entries[i] = store.Entry{Event: posthaste.Event{State: posthaste.StateActive}}
		if i%3 > 0 { // three entries a message
			entries[i].Message = entries[i-1].Message
			continue
		}
		m := *fullMessage
		m.ID = messageID(byte(i))
		m.ID[0] = byte(i >> 8)
		m.Body = bytes.Repeat([]byte("x"), 512)
		entries[i].Message = &m
	}
	handler := api.New(api.Options{
		Authenticator: fakeTokens{},
		Log: fakeLog(func(string, store.EventQuery) (store.EventPage, error) {
			return store.EventPage{Entries: entries}, nil
		}),
	})
	for b.Loop() {
		handler.ServeHTTP(discard{http.Header{}}, newRequest("GET", "/v2/logs", nil))
	}
}

func BenchmarkPublish(b *testing.B) {
	receipts := []engine.Receipt{{MessageID: plainMessage.ID}}
	handler := api.New(api.Options{
		Authenticator: fakeTokens{},
		Engine: fakeEngine{publish: func(string, engine.Publication) ([]engine.Receipt, error) {
			return receipts, nil
		}},
	})
	body := bytes.Repeat([]byte("x"), 512)
	b.ReportAllocs()
	for b.Loop() {
		r := newRequest("POST", "/v2/publish/https://example.com/in", bytes.NewReader(body))
		r.Header.Set("Upstash-Method", "POST")
		r.Header.Set("Upstash-Retries", "3")
		r.Header.Set("Content-Type", "application/json")
		handler.ServeHTTP(discard{http.Header{}}, r)
	}
}

// discard is a response nobody reads.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}
