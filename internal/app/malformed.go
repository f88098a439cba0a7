package app

import (
	"bytes"
	"strings"
)

// malformed is how net/http answers a request that it cannot parse. A handler's answer never
// looks like this: it has a date.
var malformed = []byte("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request")

// malformedInARun is sent instead to the endpoint of a running workflow, whose event ids are
// in the path as users wrote them. An SDK takes 400 for the end of the run and says nothing
// more, so that the run would hang; 412 fails it with the reason (contract, decision 31).
var malformedInARun = []byte("HTTP/1.1 412 Precondition Failed\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" +
	`{"error":"the request is not valid HTTP: usually its URL contains a % that is not followed by two hexadecimal digits, to be written as %25"}` + "\n")

// lineKept is how much of a request is kept to see whether a run sent it.
const lineKept = 64

// Read implements net.Conn and keeps how a request begins.
func (c *clientConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.line = append(c.line, p[:max(0, min(n, lineKept-len(c.line)))]...)
	return n, err
}

// isOfARun reports whether a request line is one of those that only runs send with event ids.
func isOfARun(line []byte) bool {
	_, target, _ := bytes.Cut(line, []byte(" "))
	path := "/" + strings.TrimLeft(string(target), "/") // a base URL may end in a slash
	return strings.HasPrefix(path, "/v2/wait/") || strings.HasPrefix(path, "/v2/notify/")
}
