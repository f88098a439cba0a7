package client

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// event is an Event whose data do not change, with the id the reader keeps.
type event struct{ ID, Data, Last string }

// readEvents reads all events of a stream, and the last id.
func readEvents(t *testing.T, stream io.Reader) (events []event, last string) {
	t.Helper()
	r := newEventReader(stream, "before")
	for {
		e, err := r.next()
		if errors.Is(err, io.EOF) {
			return events, r.last
		}
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, event{e.ID, string(e.Data), r.last})
	}
}

func TestEventReader(t *testing.T) {
	tests := []struct {
		name, stream string
		want         []event
		last         string
	}{
		{"nothing", "", nil, "before"},
		{"an event", "id: 1\ndata: {}\n\n", []event{{"1", "{}", "1"}}, "1"},
		{"two", "id: 1\ndata: a\n\nid: 2\ndata: b\n\n", []event{{"1", "a", "1"}, {"2", "b", "2"}}, "2"},
		{"carriage returns", "id: 1\rdata: a\r\rid: 2\r\ndata: b\r\n\r\n", []event{{"1", "a", "1"}, {"2", "b", "2"}}, "2"},
		{"without spaces", "id:1\ndata:a\n\n", []event{{"1", "a", "1"}}, "1"},
		{"with two spaces", "data:  a\n\n", []event{{"before", " a", "before"}}, "before"},
		{"several lines of data", "data: a\ndata\ndata: b\n\n", []event{{"before", "a\n\nb", "before"}}, "before"},
		{"empty data", "data\n\n", []event{{"before", "", "before"}}, "before"},
		{"without an id the last one stays", "id: 1\ndata: a\n\ndata: b\n\n", []event{{"1", "a", "1"}, {"1", "b", "1"}}, "1"},
		{"an empty id", "id\ndata: a\n\n", []event{{"", "a", ""}}, ""},
		{"an id with NUL", "id: \x00\ndata: a\n\n", []event{{"before", "a", "before"}}, "before"},
		{"an id alone is no event", ": hello\nid: 7\n\n", nil, "7"},
		{"comments and unknown fields", ":\n: x\nretry: 5\nevent: e\nfoo: bar\ndata: a\n:data: b\n\n", []event{{"before", "a", "before"}}, "before"},
		{"a mark at the beginning", "\uFEFFdata: a\n\n\uFEFFdata: b\n\n", []event{{"before", "a", "before"}}, "before"},
		{"without its empty line", "id: 1\ndata: a\n\nid: 2\ndata: b\n", []event{{"1", "a", "1"}}, "1"},
		{"broken off", "id: 1\ndata: a\n\nid: 2\ndat", []event{{"1", "a", "1"}}, "1"},
		{"empty lines", "\n\n\ndata: a\n\n\n\n", []event{{"before", "a", "before"}}, "before"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, last := readEvents(t, strings.NewReader(test.stream))
			if diff := cmp.Diff(test.want, got); diff != "" || last != test.last {
				t.Errorf("last id %q, want %q; events differ (-want +got):\n%s", last, test.last, diff)
			}
		})
	}
}

// endless repeats a text.
type endless struct{ text string }

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.text)
	e.text = e.text[n:] + e.text[:n]
	return n, nil
}

// TestEventReaderIsBounded has a server that sends something without an end.
func TestEventReaderIsBounded(t *testing.T) {
	for name, text := range map[string]string{"line": "x", "event": "data: x\n"} {
		t.Run(name, func(t *testing.T) {
			r := newEventReader(&endless{text: text}, "")
			r.lines.most = 1 << 20
			if _, err := r.next(); !errors.Is(err, errTooLarge) {
				t.Errorf("next = %v, want that it is too large", err)
			}
		})
	}
}

// FuzzEvents checks that a stream means the same however it arrives, and that what
// was read can be written and read again.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("id: p1\ndata: {\"a\":1}\n\n: following\nid: p2\n\n"))
	f.Add([]byte("\uFEFFid:1\r\rdata:a\r\ndata\r\n\r\n"))
	f.Add([]byte("data: x\n\ndata"))
	f.Add([]byte("id: \x00\nid\n\n:\n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		events, last := readEvents(t, bytes.NewReader(stream))
		slowly, lastSlowly := readEvents(t, iotest.OneByteReader(bytes.NewReader(stream)))
		if diff := cmp.Diff(events, slowly); diff != "" || last != lastSlowly {
			t.Fatalf("%q means something else byte by byte: %s", stream, diff)
		}
		var again bytes.Buffer
		for _, e := range events {
			if strings.ContainsAny(e.ID, "\x00\r\n") || strings.Contains(e.Data, "\r") {
				t.Fatalf("%q has the event %q", stream, e)
			}
			fmt.Fprintf(&again, "id: %s\ndata: %s\n\n", e.ID, strings.ReplaceAll(e.Data, "\n", "\ndata: "))
		}
		if written, _ := readEvents(t, &again); !cmp.Equal(events, written) {
			t.Fatalf("%q is written as %q, which means something else", stream, again.Bytes())
		}
	})
}
