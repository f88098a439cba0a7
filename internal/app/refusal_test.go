package app

import (
	"bufio"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
)

// exchange sends bytes to a server and returns all it answers until it closes the
// connection.
func exchange(t *testing.T, url, request string) string {
	t.Helper()
	connection, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := io.WriteString(connection, request); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(connection)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// readAnswer takes the first of some answers apart.
func readAnswer(t *testing.T, answers *bufio.Reader) (*http.Response, string) {
	t.Helper()
	response, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

// serveHandler serves a handler as an App does and returns its URL.
func serveHandler(t *testing.T, handler http.Handler, logger *slog.Logger) string {
	t.Helper()
	return serveConnections(t, handler, newConnections(100), logger)
}

// serveConnections is serveHandler for so many connections.
func serveConnections(t *testing.T, handler http.Handler, all *connections, logger *slog.Logger) string {
	t.Helper()
	listener := listen(t)
	server := newServer(handler, all, logger)
	ended := make(chan error)
	go func() { ended <- server.Serve(refusingListener{listener, all}) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
	return "http://" + listener.Addr().String()
}

const (
	hint = "the request is not valid HTTP: usually its URL contains a % that is not followed by two hexadecimal digits, " +
		"to be written as %25, or a space, to be written as %20, or its Content-Length is not a number"
	tooLargeHeader = "the headers and the URL of the request are larger than the limit of 262144 bytes"
)

// TestRefusalsAreJSON has requests that never reach a handler (contract, messages
// 9 and decision 14: every error has one form; decision 31: what the endpoint of a
// running workflow sends is never answered 400).
func TestRefusalsAreJSON(t *testing.T) {
	_, url := start(t, t.TempDir())
	const host = "Host: localhost\r\n"
	tests := []struct {
		name, request string
		status        int
		want          string
	}{
		{"escape in a destination", "POST /v2/publish/http://h/%zz HTTP/1.1\r\n" + host, 400, hint},
		{"escape in a path", "GET /v2/%zz HTTP/1.1\r\n" + host, 400, hint},
		{"escape cut short", "GET /v2/messages/% HTTP/1.1\r\n" + host, 400, hint},
		{"id of an event", "POST /v2/notify/100% HTTP/1.1\r\n" + host, 412, hint},
		{"id of an event of a run", "POST /v2/notify/wfr_1/100% HTTP/1.1\r\n" + host, 412, hint},
		{"id that is waited for", "POST //v2/wait/100% HTTP/1.1\r\n" + host, 412, hint},
		{"space in the target", "GET /v2/messages/a b HTTP/1.1\r\n" + host, 400, hint},
		{"control character in the target", "GET /v2/\x01 HTTP/1.1\r\n" + host, 400, hint},
		{"no request line", "hello\r\n", 400, hint},
		{"no such method form", "G@T / HTTP/1.1\r\n" + host, 400, hint},
		{"header without a colon", "GET / HTTP/1.1\r\nHost localhost\r\n", 400, hint},
		{"length that is no number", "POST / HTTP/1.1\r\n" + host + "Content-Length: ten\r\n", 400, hint},
		{"length below zero", "POST / HTTP/1.1\r\n" + host + "Content-Length: -1\r\n", 400, hint},
		{"space in a header's name", "GET / HTTP/1.1\r\n" + host + "A B: c\r\n", 400, "the request is not valid HTTP: invalid header name"},
		{"no host", "GET / HTTP/1.1\r\n", 400, "the request is not valid HTTP: missing required Host header"},
		{"two hosts", "GET / HTTP/1.1\r\n" + host + host, 400, hint},
		{"host with a space", "GET / HTTP/1.1\r\nHost: a b\r\n", 400, "the request is not valid HTTP: malformed Host header"},
		{"version of the future", "GET / HTTP/4.0\r\n" + host, 505, "the request is not valid HTTP: unsupported protocol version"},
		{"headers too large", "GET / HTTP/1.1\r\n" + host + "X: " + strings.Repeat("x", maxHeader+8<<10) + "\r\n", 431, tooLargeHeader},
		{"target too large", "GET /" + strings.Repeat("x", maxHeader+8<<10) + " HTTP/1.1\r\n" + host, 431, tooLargeHeader},
		{"unknown transfer encoding", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip\r\n", 501,
			"the value of the header Transfer-Encoding is not supported: chunked is accepted"},
		{"unknown expectation", "POST / HTTP/1.1\r\n" + host + "Expect: mercy\r\n", 417,
			"the value of the header Expect is not supported: 100-continue is accepted"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			answers := bufio.NewReader(strings.NewReader(exchange(t, url, test.request+"\r\n")))
			response, body := readAnswer(t, answers)
			if response.StatusCode != test.status || response.Header.Get("Content-Type") != "application/json" || !response.Close {
				t.Errorf("%s of type %q, closing %v", response.Status, response.Header.Get("Content-Type"), response.Close)
			}
			var got struct{ Error string }
			if err := json.Unmarshal([]byte(body), &got); err != nil || got.Error != test.want {
				t.Errorf("body %s, want the error %q", body, test.want)
			}
			if rest, err := io.ReadAll(answers); err != nil || len(rest) > 0 {
				t.Errorf("after the answer: %q, %v", rest, err)
			}
		})
	}
}

// TestRefusalAfterAnswers checks that a connection that was used before is no
// different, whether the request waited or was sent ahead.
func TestRefusalAfterAnswers(t *testing.T) {
	_, url := start(t, t.TempDir())
	const fine = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
	answers := bufio.NewReader(strings.NewReader(exchange(t, url, fine+fine+"GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n")))
	for range 2 {
		if response, body := readAnswer(t, answers); response.StatusCode != http.StatusOK || body != "ok\n" {
			t.Errorf("%s %q, want ok", response.Status, body)
		}
	}
	if response, body := readAnswer(t, answers); response.StatusCode != http.StatusBadRequest || !json.Valid([]byte(body)) {
		t.Errorf("%s %q, want 400 in JSON", response.Status, body)
	}
}

// TestRefusalOfLaterRequest has the endpoint of a running workflow send a request that is
// refused on a connection that it has used before (contract, decision 31).
func TestRefusalOfLaterRequest(t *testing.T) {
	_, url := start(t, t.TempDir())
	connection, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	answers := bufio.NewReader(connection)
	for _, step := range []struct {
		target string
		status int
	}{{"/healthz", http.StatusOK}, {"/healthz", http.StatusOK}, {"/v2/notify/100%", http.StatusPreconditionFailed}} {
		if _, err := io.WriteString(connection, "GET "+step.target+" HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if response, _ := readAnswer(t, answers); response.StatusCode != step.status {
			t.Errorf("%s: %s, want %d", step.target, response.Status, step.status)
		}
	}
}

// TestOldClientsAreServed has a request that is odd and yet no error.
func TestOldClientsAreServed(t *testing.T) {
	_, url := start(t, t.TempDir())
	answers := bufio.NewReader(strings.NewReader(exchange(t, url, "GET /healthz HTTP/1.0\r\n\r\n")))
	if response, body := readAnswer(t, answers); response.StatusCode != http.StatusOK || body != "ok\n" {
		t.Errorf("%s %q, want ok", response.Status, body)
	}
}

// TestAnswersAreNotRefusals has a handler that writes what a refusal looks like.
func TestAnswersAreNotRefusals(t *testing.T) {
	const refusal = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"
	url := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		flush := http.NewResponseController(w).Flush
		if err := flush(); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, refusal) // in a packet of its own
		if err := flush(); err != nil {
			t.Error(err)
		}
	}), slog.New(slog.DiscardHandler))
	// HTTP/1.0 knows no chunks: the body goes over the wire as it is.
	answers := bufio.NewReader(strings.NewReader(exchange(t, url, "GET / HTTP/1.0\r\n\r\n")))
	if response, body := readAnswer(t, answers); response.StatusCode != http.StatusOK || body != refusal {
		t.Errorf("%s %q, want the handler's body", response.Status, body)
	}
}
