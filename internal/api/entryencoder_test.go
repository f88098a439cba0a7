package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http/httptest"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

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

// TestAppend compares what is appended with what encoding/json makes of the same values.
func TestAppend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var filled struct {
			Entry   posthaste.Event
			Message posthaste.Message
		}
		v := values{t}
		v.fill(reflect.ValueOf(&filled).Elem())
		form := entryForm{cancelledToSDKs, rapid.IntRange(0, 4).Draw(t, "body limit")}
		entry := store.NewEntry(filled.Entry, &filled.Message)
		own, m := form.view(&entry), form.message(&filled.Message)
		for _, view := range []struct {
			appended []byte
			value    any
		}{{own.append([]byte{'{'}), own}, {m.append([]byte{'{'}), m}} {
			if want := encodeJSON(view.value); string(view.appended)+"}\n" != string(want) {
				t.Errorf("%s is appended, want %s", view.appended, want)
			}
		}
	})
}

// values draws values of types of the root package, most of them not empty.
type values struct{ *rapid.T }

var anyText = rapid.OneOf(rapid.StringMatching("[a-z]{0,4}"), rapid.String(), rapid.SampledFrom([]string{
	"", "<&>\"\\/", "\x00\x1f\x7f\b\f\n\r\t", "ä€😀", "\u2028\u2029", "\xff\xc3", "a\xed\xa0\x80",
}))

func (d values) fill(v reflect.Value) {
	if at, ok := v.Addr().Interface().(*time.Time); ok {
		if rapid.Bool().Draw(d.T, "time") {
			*at = time.UnixMilli(rapid.Int64Range(0, 1<<42).Draw(d.T, "ms"))
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			d.fill(v.Field(i))
		}
	case reflect.Pointer:
		if rapid.IntRange(0, 2).Draw(d.T, "set") == 2 { // seldom: callbacks have callbacks
			v.Set(reflect.New(v.Type().Elem()))
			d.fill(v.Elem())
		}
	case reflect.String:
		v.SetString(anyText.Draw(d.T, "text"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(d.T, "bool"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.OneOf(rapid.Just[int64](0), rapid.Int64()).Draw(d.T, "number"))
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(d.T, "number") >> (64 - v.Type().Bits()))
	case reflect.Array:
		for i := range v.Len() {
			d.fill(v.Index(i))
		}
	case reflect.Slice:
		if n := rapid.IntRange(-1, 3).Draw(d.T, "length"); n >= 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				d.fill(v.Index(i))
			}
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range rapid.IntRange(0, 3).Draw(d.T, "entries") {
			name, values := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			d.fill(name)
			d.fill(values)
			v.SetMapIndex(name, values)
		}
	default:
		d.Fatalf("no value of type %v", v.Type())
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
