package app

import (
	"bufio"
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

// serveConnections is serveHandler with a limit of connections.
func serveConnections(t *testing.T, handler http.Handler, all *connections, logger *slog.Logger) string {
	t.Helper()
	listener := listen(t)
	server := newServer(handler, all, logger)
	ended := make(chan error)
	go func() { ended <- server.Serve(limitedListener{listener, all}) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
	return "http://" + listener.Addr().String()
}

// TestMalformedRequestsAreRefused sends what is not valid HTTP, also on a connection that was
// used before. net/http answers it without a handler and closes the connection.
func TestMalformedRequestsAreRefused(t *testing.T) {
	_, url := start(t, t.TempDir())
	const host = "Host: localhost\r\n"
	const fine = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
	tests := []struct {
		name, request string
		status        int
	}{
		{"escape in a destination", "POST /v2/publish/http://h/%zz HTTP/1.1\r\n" + host, 400},
		{"escape cut short", "GET /v2/messages/% HTTP/1.1\r\n" + host, 400},
		{"space in the target", "GET /v2/messages/a b HTTP/1.1\r\n" + host, 400},
		{"control character in the target", "GET /v2/\x01 HTTP/1.1\r\n" + host, 400},
		{"no request line", "hello\r\n", 400},
		{"no such method form", "G@T / HTTP/1.1\r\n" + host, 400},
		{"header without a colon", "GET / HTTP/1.1\r\nHost localhost\r\n", 400},
		{"length that is no number", "POST / HTTP/1.1\r\n" + host + "Content-Length: ten\r\n", 400},
		{"length below zero", "POST / HTTP/1.1\r\n" + host + "Content-Length: -1\r\n", 400},
		{"space in a header's name", "GET / HTTP/1.1\r\n" + host + "A B: c\r\n", 400},
		{"no host", "GET / HTTP/1.1\r\n", 400},
		{"two hosts", "GET / HTTP/1.1\r\n" + host + host, 400},
		{"host with a space", "GET / HTTP/1.1\r\nHost: a b\r\n", 400},
		{"version of the future", "GET / HTTP/4.0\r\n" + host, 505},
		{"headers too large", "GET / HTTP/1.1\r\n" + host + "X: " + strings.Repeat("x", maxHeader+8<<10) + "\r\n", 431},
		{"target too large", "GET /" + strings.Repeat("x", maxHeader+8<<10) + " HTTP/1.1\r\n" + host, 431},
		{"unknown transfer encoding", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip\r\n", 501},
		{"unknown expectation", "POST / HTTP/1.1\r\n" + host + "Expect: mercy\r\n", 417},
	}
	for _, test := range tests {
		for _, before := range []string{"", fine} {
			t.Run(test.name, func(t *testing.T) {
				answers := bufio.NewReader(strings.NewReader(exchange(t, url, before+test.request+"\r\n")))
				if before != "" {
					readAnswer(t, answers)
				}
				if response, _ := readAnswer(t, answers); response.StatusCode != test.status || !response.Close {
					t.Errorf("%s, closing %v; want %d", response.Status, response.Close, test.status)
				}
				if rest, err := io.ReadAll(answers); err != nil || len(rest) > 0 {
					t.Errorf("after the answer: %q, %v", rest, err)
				}
			})
		}
	}
}

// TestMalformedRequestsOfRuns has event ids with a bare %, as SDKs send them: 412 fails the
// run, which would take 400 for its end (contract, decision 31).
func TestMalformedRequestsOfRuns(t *testing.T) {
	_, url := start(t, t.TempDir())
	connection, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	answers := bufio.NewReader(connection)
	ask := func(request string) (*http.Response, string) {
		if _, err := io.WriteString(connection, request+" HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		return readAnswer(t, answers)
	}
	ask("GET /healthz") // the connection has been used for something else
	response, body := ask("POST /v2/notify/100%")
	if response.StatusCode != http.StatusPreconditionFailed || !response.Close || !strings.Contains(body, "% that is not followed") {
		t.Errorf("%s %q, want 412 with a reason", response.Status, body)
	}
	for _, path := range []string{"/v2/wait/100%", "//v2/wait/100%"} {
		if answer := exchange(t, url, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 412 ") {
			t.Errorf("%s: %q, want 412", path, answer)
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
