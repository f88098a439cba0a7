package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxLine is the most bytes of a line, and of an event: far more than the largest
// entry of a log needs.
const maxLine = 512 << 20

var errTooLarge = errors.New("it is larger than anything a server sends")

// Event is an event of a stream.
type Event struct {
	ID   string // by which the stream goes on behind it
	Data []byte
}

// eventReader reads server-sent events as
// https://html.spec.whatwg.org/multipage/server-sent-events.html defines them. All
// events are of one type here, and the time to wait that a server may suggest is
// not followed.
type eventReader struct {
	lines *lineReader
	begun bool
	last  string // the id that the last whole block left behind

	id      string // of the present block
	data    []byte
	hasData bool
}

func newEventReader(r io.Reader, last string) *eventReader {
	return &eventReader{lines: newLineReader(r), last: last, id: last}
}

// next returns the next event. Its data are valid until the next call. What an
// empty line does not end is no event.
func (r *eventReader) next() (Event, error) {
	r.data, r.hasData = r.data[:0], false
	for {
		line, err := r.lines.next()
		switch {
		case err != nil:
			return Event{}, err
		case len(line) > 0:
			r.addField(line)
		case r.hasData:
			r.last = r.id
			return Event{r.id, r.data}, nil
		default:
			r.last = r.id
		}
		if len(r.data) > r.lines.most {
			return Event{}, errTooLarge
		}
	}
}

// addField adds a line to the present block. A comment has no name.
func (r *eventReader) addField(line []byte) {
	if !r.begun {
		line, r.begun = bytes.TrimPrefix(line, []byte("\uFEFF")), true
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch {
	case string(name) == "id" && !bytes.Contains(value, []byte("\x00")):
		r.id = string(value)
	case string(name) == "data":
		if r.hasData {
			r.data = append(r.data, '\n')
		}
		r.data, r.hasData = append(r.data, value...), true
	}
}

// lineReader reads lines that end with a line feed, a carriage return, or both.
type lineReader struct {
	r       *bufio.Reader
	most    int // bytes of a line
	line    []byte
	afterCR bool // a line feed that comes now belongs to the line before
}

func newLineReader(r io.Reader) *lineReader { return &lineReader{r: bufio.NewReader(r), most: maxLine} }

// next returns the next line without its end. It is valid until the next call. At
// the end of the text it returns io.EOF, and what there is of a last line.
func (r *lineReader) next() ([]byte, error) {
	r.line = r.line[:0]
	for {
		b, err := r.r.ReadByte()
		if err != nil {
			return r.line, err
		}
		afterCR := r.afterCR
		r.afterCR = b == '\r'
		switch {
		case b == '\n' && afterCR:
		case b == '\n' || b == '\r':
			return r.line, nil
		case len(r.line) == r.most:
			return nil, errTooLarge
		default:
			r.line = append(r.line, b)
		}
	}
}
