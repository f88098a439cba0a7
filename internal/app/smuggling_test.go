package app

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// smuggled is what an attacker would like to be taken for the request of whoever uses
// the connection to this server next, by way of a proxy that reads the bytes before it
// otherwise.
const smuggled = "POST /v2/publish/https://example.com/smuggled HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer TOKEN\r\nUpstash-Delay: 1h\r\nContent-Length: 0\r\n\r\n"

// TestNothingIsSmuggled has requests that two readers can take for one or for two. What
// this server takes for the end of the first must be so for every reader, or else the
// connection ends there.
func TestNothingIsSmuggled(t *testing.T) {
	_, url := start(t, t.TempDir())
	const first = "POST /v2/publish/https://example.com/first HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer TOKEN\r\nUpstash-Delay: 1h\r\n"
	length := fmt.Sprintf("Content-Length: %d\r\n", len(strings.ReplaceAll("0\r\n\r\n"+smuggled, "TOKEN", token)))
	tests := []struct{ name, text string }{
		{"length and chunks", first + length + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled},
		{"chunks and length", first + "Transfer-Encoding: chunked\r\n" + length + "\r\n0\r\n\r\n" + smuggled},
		{"chunks in other letters", first + length + "transfer-encoding: CHUNKED\r\n\r\n0\r\n\r\n" + smuggled},
		{"length of the second too short", first + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n" + smuggled},
		{"two lengths", first + "Content-Length: 0\r\n" + length + "\r\n" + smuggled},
		{"two lengths in one", first + "Content-Length: 0, 5\r\n\r\n" + smuggled},
		{"a length with a sign", first + "Content-Length: +0\r\n\r\n" + smuggled},
		{"a length in hexadecimal", first + "Content-Length: 0x0\r\n\r\n" + smuggled},
		{"a length with a space before the colon", first + "Content-Length : 500\r\n\r\n" + smuggled},
		{"chunks with a space before the colon", first + length + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + smuggled},
		{"chunks with a tab before them", first + length + "Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n" + smuggled},
		{"chunks with a vertical tab", first + length + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + smuggled},
		{"chunks in quotes", first + length + "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n" + smuggled},
		{"chunks twice", first + length + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled},
		{"chunks and another", first + length + "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n" + smuggled},
		{"chunks in a list", first + length + "Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n" + smuggled},
		{"identity", first + length + "Transfer-Encoding: identity\r\n\r\n0\r\n\r\n" + smuggled},
		{"chunks in a folded line", first + length + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + smuggled},
		{"chunks hidden in another header", first + "X: y\rTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + smuggled},
		{"chunks behind a bare line feed", first + "X: y\nTransfer-Encoding: chunked\r\n" + length + "\r\n0\r\n\r\n" + smuggled},
		{"chunks of an old client", strings.Replace(first, "HTTP/1.1", "HTTP/1.0", 1) + "Transfer-Encoding: chunked\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + smuggled},
		{"a chunk size with a sign", first + "Transfer-Encoding: chunked\r\n\r\n+0\r\n\r\n" + smuggled},
		{"a chunk size with underscores", first + "Transfer-Encoding: chunked\r\n\r\n0_0\r\n\r\n" + smuggled},
		{"a chunk size that overflows", first + "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n\r\n" + smuggled},
		{"a chunk extension with a line feed", first + "Transfer-Encoding: chunked\r\n\r\n0;a=\"\n\"\r\n\r\n" + smuggled},
		{"chunks that end in line feeds", first + "Transfer-Encoding: chunked\r\n\r\n0\n\n" + smuggled},
		{"a zero byte in a header", first + "X: \x00\r\n\r\n" + smuggled},
		{"a zero byte in a name", first + "Content-Length\x00: 500\r\n\r\n" + smuggled},
		{"a header without a name", first + ": 500\r\n\r\n" + smuggled},
		{"a header without a colon", first + "Content-Length 500\r\n\r\n" + smuggled},
		{"a change of protocol", first + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\nTransfer-Encoding: chunked\r\n" + length + "\r\n0\r\n\r\n" + smuggled},
		{"the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + smuggled},
		{"a tunnel", "CONNECT example.com:443 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n" + length + "\r\n0\r\n\r\n" + smuggled},
		{"a body of a request that has none", strings.Replace(first, "POST /v2/publish/https://example.com/first", "GET /v2/queues", 1) + "Transfer-Encoding: chunked\r\n" + length + "\r\n0\r\n\r\n" + smuggled},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			answers := converse(t, url, strings.ReplaceAll(test.text, "TOKEN", token))
			if len(answers) != 1 {
				t.Errorf("answered %d times: %v", len(answers), answers)
			}
		})
	}
	if _, log := call(t, http.MethodGet, url+"/v2/logs"); strings.Contains(log, "smuggled") {
		t.Errorf("what was smuggled was accepted: %s", log)
	}
}

// TestPlainRequestsFollowEachOther checks that connections are kept where there is no
// doubt.
func TestPlainRequestsFollowEachOther(t *testing.T) {
	_, url := start(t, t.TempDir())
	one := strings.ReplaceAll(smuggled, "TOKEN", token)
	if answers := converse(t, url, one+one); len(answers) != 3 {
		t.Errorf("three requests, with the last, were answered %v", answers)
	}
}

// converse sends bytes and a last request, after which the server closes the connection
// if it has not done so before. It returns the status of every answer.
func converse(t *testing.T, url, text string) (statuses []int) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text+"GET /v2/readiness HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(conn)
	for {
		response, err := http.ReadResponse(answers, nil)
		if err != nil {
			return statuses
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			return statuses
		}
		statuses = append(statuses, response.StatusCode)
	}
}
