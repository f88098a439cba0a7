package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/store"
)

// TestEntryEncoder has several entries of some messages, each of which shows its own.
func TestEntryEncoder(t *testing.T) {
	e := newEntryEncoder(entryForm{cancelled: posthaste.StateCancelled, bodyLimit: pieceBytes})
	messages := []*posthaste.Message{
		{ID: posthaste.MessageID{1}, URL: "https://a.example", Body: []byte("a")},
		{ID: posthaste.MessageID{2}, URL: "https://b.example", Body: make([]byte, pieceBytes)},
	}
	events := []posthaste.Event{{State: posthaste.StateCreated}, {State: posthaste.StateError, Error: "no"}, {State: posthaste.StateActive}}
	for _, event := range events {
		for _, m := range messages {
			before := e.size
			entry := store.NewEntry(event, m)
			e.add(&entry)
			line := bytes.Join(e.list, nil)[before:]
			if want := asOneObject(t, e.form.view(&entry), e.form.message(m)); !bytes.Equal(canonical(t, line), want) {
				t.Errorf("an entry is %s, want %s", line, want)
			}
		}
	}
	if lines := bytes.Count(bytes.Join(e.list, nil), []byte("\n")); lines != len(events)*len(messages) {
		t.Errorf("%d lines", lines)
	}
}

// asOneObject returns the JSON of an object with the members of all values.
func asOneObject(t *testing.T, values ...any) []byte {
	all := map[string]any{}
	for _, value := range values {
		members := map[string]any{}
		if err := json.Unmarshal(encodeJSON(value), &members); err != nil {
			t.Fatal(err)
		}
		maps.Copy(all, members)
	}
	return encodeJSON(all)
}

// canonical returns the JSON of an object with its members in order.
func canonical(t *testing.T, text []byte) []byte {
	var members map[string]any
	if err := json.Unmarshal(text, &members); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return encodeJSON(members)
}

// TestEncodeOwn compares what is an entry's own with what an encoder of JSON makes of it.
func TestEncodeOwn(t *testing.T) {
	form := entryForm{cancelled: cancelledToSDKs, bodyLimit: pieceBytes}
	own := []posthaste.Event{
		{Error: "no \"answer\""}, {NextDeliveryAt: time.UnixMilli(2)}, {Response: &posthaste.Response{Status: 500, Body: []byte("no")}},
	}
	for _, state := range posthaste.States {
		own = append(own, posthaste.Event{State: state, Position: posthaste.FirstPosition(time.UnixMilli(1))})
	}
	for _, event := range own {
		entry := store.Entry{Event: event}
		want := encodeJSON(form.view(&entry))
		if got := newEntryEncoder(form).encodeOwn(&entry); !bytes.Equal(got, want) {
			t.Errorf("%+v is %s, want %s", event, got, want)
		}
	}
}

// leavingClient notes the sizes of what is written to it, and goes after some writes.
type leavingClient struct {
	*httptest.ResponseRecorder
	sizes []int
	goes  int
}

func (c *leavingClient) Write(p []byte) (int, error) {
	if c.sizes = append(c.sizes, len(p)); len(c.sizes) == c.goes {
		return 0, net.ErrClosed
	}
	return c.ResponseRecorder.Write(p)
}

// TestOutlet writes a text whose pieces each have a time of their own.
func TestOutlet(t *testing.T) {
	text := bytes.Repeat([]byte("text"), pieceBytes)
	for _, goes := range []int{0, 1, 3} {
		client := &leavingClient{ResponseRecorder: httptest.NewRecorder(), goes: goes}
		out := newOutlet(client)
		err := out.write(text)
		switch {
		case goes > 0 && (!errors.Is(err, net.ErrClosed) || !out.gone || len(client.sizes) != goes):
			t.Errorf("write = %v after %d pieces, gone: %t", err, len(client.sizes), out.gone)
		case goes == 0 && (err != nil || !bytes.Equal(client.Body.Bytes(), text)):
			t.Errorf("write = %v, %d bytes have come", err, client.Body.Len())
		case slices.Max(client.sizes) > pieceBytes:
			t.Errorf("pieces of %d bytes", client.sizes)
		}
	}
}
