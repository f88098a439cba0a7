package dispatch

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
)

// presized is the largest announced body that memory is set aside for before it has
// arrived, and what every answer may have however many there are at once.
const presized = 64 << 10

// readBody reads at most limit bytes. An answer that goes on is cut, and its
// connection is closed with it: a new connection costs less than reading an
// unknown rest.
func readBody(resp *http.Response, limit int, memory *loan) (body []byte, truncated bool, err error) {
	announced := resp.ContentLength
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		return nil, false, nil // what follows is no answer, and has no end
	case announced == 0:
		return nil, false, nil
	case 0 < announced && announced <= int64(min(limit, presized)):
		body = make([]byte, announced)
		_, err = io.ReadFull(resp.Body, body)
		return body, false, err
	}
	return readGrowing(resp.Body, limit, memory)
}

// errNoRoom is why there is no answer that must be whole.
var errNoRoom = errors.New("no memory for the answer")

// readGrowing reads a body into memory that grows as it arrives, until the limit or
// until there is no memory for more, which is an error if the answer must be whole.
func readGrowing(from io.Reader, limit int, memory *loan) (body []byte, truncated bool, err error) {
	const first = 512
	body = make([]byte, 0, min(first, limit))
	for {
		if len(body) == cap(body) {
			size := min(2*cap(body), limit)
			covered := memory.cover(size)
			if !covered && memory.whole {
				return nil, false, errNoRoom
			}
			if size == len(body) || !covered {
				more, err := goesOn(from)
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

// goesOn reports whether there is more to be read.
func goesOn(from io.Reader) (bool, error) {
	n, err := io.ReadFull(from, make([]byte, 1))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n > 0, err
}

// room is memory that answers share. Destinations decide how large their answers are
// and how slowly they come, so that without a bound a few thousand of them could take
// all memory there is. When the room is full, answers are cut earlier than otherwise, and
// those that somebody waits for are not complete.
type room struct{ left atomic.Int64 }

// loan is what one answer takes of a room.
type loan struct {
	room  *room
	whole bool // the answer is not cut for want of room
	taken int64
}

// cover makes the loan enough for an answer of so many bytes. It reports false, and
// takes nothing, if there is no room.
func (l *loan) cover(size int) bool {
	more := int64(size) - presized - l.taken
	if more <= 0 {
		return true
	}
	if l.room.left.Add(-more) < 0 {
		l.room.left.Add(more)
		return false
	}
	l.taken += more
	return true
}

func (l *loan) giveBack() {
	l.room.left.Add(l.taken)
	l.taken = 0
}
