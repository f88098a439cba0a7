package dispatch

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
)

// presized is the largest announced body for which memory is allocated in advance. Each response
// may use that much without a reservation.
const presized = 64 << 10

// readBody reads up to limit bytes and truncates the rest. Closing the connection is then cheaper
// than reading on.
func readBody(resp *http.Response, limit int, memory *reservation) (body []byte, truncated bool, err error) {
	announced := resp.ContentLength
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		return nil, false, nil // no response body follows
	case announced == 0:
		return nil, false, nil
	case 0 < announced && announced <= int64(min(limit, presized)):
		body = make([]byte, announced)
		_, err = io.ReadFull(resp.Body, body)
		return body, false, err
	}
	return readGrowing(resp.Body, limit, memory)
}

// errNoMemory is returned if a response must be complete and there is no memory for it.
var errNoMemory = errors.New("no memory for the response")

// readGrowing reads a body until limit or until the memory budget is used up, which truncates it,
// or is an error if the response must be complete.
func readGrowing(from io.Reader, limit int, memory *reservation) (body []byte, truncated bool, err error) {
	const first = 512
	body = make([]byte, 0, min(first, limit))
	for {
		if len(body) == cap(body) {
			size := min(2*cap(body), limit)
			grown := memory.grow(size)
			if !grown && memory.whole {
				return nil, false, errNoMemory
			}
			if size == len(body) || !grown {
				more, err := hasMore(from)
				return body, more, err
			}
			body = append(make([]byte, 0, size), body...)
		}
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if errors.Is(err, io.EOF) {
			return body, false, nil
		}
		if err != nil {
			return body, false, err
		}
	}
}

// hasMore reports whether there is more to read.
func hasMore(from io.Reader) (bool, error) {
	n, err := io.ReadFull(from, make([]byte, 1))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n > 0, err
}

// memoryBudget limits the memory of all responses being read; otherwise a few thousand slow,
// large responses could use all of it. Beyond it, responses are truncated or, if they must be
// complete, fail.
type memoryBudget struct{ left atomic.Int64 }

// reservation is the part of a budget that one response uses.
type reservation struct {
	budget *memoryBudget
	whole  bool // must not be truncated for lack of memory
	taken  int64
}

// grow extends the reservation to size bytes, or returns false without change.
func (l *reservation) grow(size int) bool {
	more := int64(size) - presized - l.taken
	if more <= 0 {
		return true
	}
	if l.budget.left.Add(-more) < 0 {
		l.budget.left.Add(more)
		return false
	}
	l.taken += more
	return true
}

func (l *reservation) release() {
	l.budget.left.Add(l.taken)
	l.taken = 0
}
